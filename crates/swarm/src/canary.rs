//! Bugs on purpose: a swarm that does not find them would find nothing.

use nodeward_scenario::Bug;

use crate::check::{Checker, Finding};
use crate::draw::Case;
use crate::run::run;

/// A planted bug is found within so many seeds.
pub const SEEDS_MAX: u64 = 100;

/// Which checker finds it.
pub fn found_by(bug: Bug) -> Checker {
    match bug {
        Bug::SkipFlush | Bug::StaleCopy => Checker::Contents,
        Bug::LosePage => Checker::Pages,
        Bug::DoubleCount => Checker::Account,
        Bug::OverCapacity => Checker::Capacity,
    }
}

/// The first seed, from one on, whose machine shows a planted bug, and what was found; none if
/// [`SEEDS_MAX`] seeds are not enough.
pub fn first(bug: Bug, from: u64) -> Option<(u64, Finding)> {
    let found = |seed| run(&Case::draw(seed).with_bug(bug)).err().map(|finding| (seed, finding));
    (from..from.saturating_add(SEEDS_MAX)).find_map(found)
}
