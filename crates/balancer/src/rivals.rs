//! Other balancers that move memory or threads between nodes. The balancer looks for them from time
//! to time.

use nodeward_machine::Machine;
use nodeward_model::OtherBalancer;

use super::report::Notice;

/// Rounds between two searches: a search reads some files, and the names of all processes.
const ROUNDS: u64 = 10;

/// The other balancers of the last search.
#[derive(Default)]
pub struct Rivals {
    seen: Vec<OtherBalancer>,
    rounds: u64,
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

    /// Returns the other balancers.
    pub fn seen(&self) -> &[OtherBalancer] {
        &self.seen
    }
}
