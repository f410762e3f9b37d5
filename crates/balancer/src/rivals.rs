//! Other balancers that move memory or threads between nodes. The balancer looks for them from time
//! to time.

use nodeward_machine::Machine;
use nodeward_model::OtherBalancer;

use super::report::Notice;

/// Rounds between two searches: a search reads some files, and the names of all processes.
const ROUNDS: u64 = 10;

/// Rounds of standing back after which the next survey begins.
const SURVEY_EVERY_ROUNDS: u64 = 600;
/// Rounds of a survey, which look at processes to report what they would do. The first takes a
/// snapshot, the second knows loads, and the others have time for samples. 5 s in ten minutes cost
/// less than a hundredth of what looking may cost.
const SURVEY_ROUNDS: u64 = 5;

/// The other balancers of the last search.
#[derive(Default)]
pub struct Rivals {
    seen: Vec<OtherBalancer>,
    rounds: u64,
    /// Rounds of standing back, without a break.
    stood_back: u64,
}

impl Rivals {
    /// Searches if it is time; returns notices about balancers that came or left.
    pub fn look(&mut self, machine: &dyn Machine) -> Vec<Notice> {
        self.rounds += 1;
        if self.rounds % ROUNDS != 1 {
            return Vec::new();
        }
        let now = match machine.other_balancers() {
            Ok(now) => now,
            Err(error) => {
                tracing::debug!(%error, "whether others balance is not known");
                return Vec::new();
            }
        };
        let before = std::mem::replace(&mut self.seen, now);
        let came = self.seen.iter().filter(|rival| !before.contains(rival));
        let left = before.iter().filter(|rival| !self.seen.contains(rival));
        let came = came.map(|rival| Notice::RivalCame { rival: rival.clone() });
        came.chain(left.map(|rival| Notice::RivalLeft { rival: rival.clone() })).collect()
    }

    /// Counts a round of standing back. Returns whether it looks at processes.
    pub fn is_survey(&mut self) -> bool {
        self.stood_back += 1;
        (self.stood_back - 1) % SURVEY_EVERY_ROUNDS < SURVEY_ROUNDS
    }

    /// The balancer acts: standing back begins anew.
    pub fn act(&mut self) {
        self.stood_back = 0;
    }

    /// Searches in the next round.
    pub fn look_soon(&mut self) {
        self.rounds = 0;
    }

    /// Returns the other balancers of the last search.
    pub fn seen(&self) -> &[OtherBalancer] {
        &self.seen
    }

    /// Returns whether the kernel balances.
    pub fn is_kernel(&self) -> bool {
        self.seen.iter().any(is_kernel)
    }

    /// Returns whether any balancer other than the kernel is active.
    pub fn are_others_than_kernel(&self) -> bool {
        !self.seen.iter().all(is_kernel)
    }
}

fn is_kernel(rival: &OtherBalancer) -> bool {
    matches!(rival, OtherBalancer::Kernel { .. })
}
