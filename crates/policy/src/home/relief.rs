//! Whether homes that left busy nodes made any node less busy.
//!
//! What a process does depends on what is beside it: two that wait for memory together, or that
//! share a core, are busier than each was alone. So a home may go to where it seems to be less
//! busy, and make that node as busy as the other was. That is seen when the next home is to go, and
//! then homes stay for ever longer.

use serde::{Deserialize, Serialize};

use super::rules::Rules;
use crate::damping::{Backoff, DOUBLINGS_MAX};

const WHOLE_PPM: u128 = 1_000_000;
/// A relief that was in vain is followed by so many waits of homes.
const VAIN_WAITS: u64 = 4;

/// The last relief, and how long there is no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Relief {
    last: Option<Last>,
    wait: Backoff,
}

/// Homes that left busy nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Last {
    /// How busy the busiest node was before, in millionths of its share.
    before_ppm: u64,
    ago_ns: u64,
}

impl Relief {
    /// Time passes.
    pub(super) fn pass(&mut self, ns: u64, rules: &Rules) {
        self.wait.pass(ns, wait_ns(rules));
        if let Some(last) = &mut self.last {
            last.ago_ns = last.ago_ns.saturating_add(ns);
        }
    }

    /// The loads are others now: what was in vain need not be again.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// Whether homes may leave busy nodes, the busiest of which has so much of its share. What came
    /// of the last ones shows when loads have had time to follow.
    pub(super) fn may(&mut self, busiest_ppm: u64, rules: &Rules) -> bool {
        if let Some(last) = self.last.take_if(|last| last.ago_ns >= rules.patience_ns) {
            let least = u128::from(last.before_ppm) * u128::from(rules.hysteresis_ppm) / WHOLE_PPM;
            if u128::from(busiest_ppm) + least > u128::from(last.before_ppm) {
                self.wait.start(wait_ns(rules), DOUBLINGS_MAX);
            }
        }
        !self.wait.waits()
    }

    /// Homes left the busiest node, which had so much of its share.
    pub(super) fn done(&mut self, busiest_ppm: u64) {
        self.last.get_or_insert(Last { before_ppm: busiest_ppm, ago_ns: 0 });
    }
}

fn wait_ns(rules: &Rules) -> u64 {
    rules.home_wait_ns.saturating_mul(VAIN_WAITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Goal: as long as reliefs make the busiest node less busy by a tenth there is the next one;
    /// when one did not, which shows after 5 s, there is none for 40 s, then for 80 s.
    #[test]
    fn what_was_in_vain_waits() {
        let (mut relief, rules) = (Relief::default(), Rules::default());
        assert!(relief.may(2_000_000, &rules));
        relief.done(2_000_000);
        relief.pass(5 * SECOND - 1, &rules);
        assert!(relief.may(2_000_000, &rules), "too early to say");
        relief.pass(1, &rules);
        assert!(relief.may(1_800_000, &rules), "a tenth less");
        relief.done(1_800_000);
        for seconds in [40, 80] {
            relief.pass(5 * SECOND, &rules);
            assert!(!relief.may(1_700_000, &rules), "1,620,000 is a tenth less");
            relief.pass(seconds * SECOND - 1, &rules);
            assert!(!relief.may(1_700_000, &rules));
            relief.pass(1, &rules);
            assert!(relief.may(1_700_000, &rules));
            relief.done(1_700_000);
        }
        relief.pass(5 * SECOND, &rules);
        relief.forget();
        assert!(relief.may(3_000_000, &rules), "others may have come");
    }
}
