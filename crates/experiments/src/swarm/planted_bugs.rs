//! Planted bugs: a swarm that does not find them would find nothing.

use nodeward_scenario::Bug;

use crate::swarm::case_run::run;
use crate::swarm::check::{CheckFinding, Checker};
use crate::swarm::generator::SwarmCase;

/// Maximum number of seeds needed to find a planted bug.
pub const SEEDS_MAX: u64 = 100;

/// Returns the checker that finds a bug.
pub fn expected_checker(bug: Bug) -> Checker {
    match bug {
        Bug::SkipFlush | Bug::StaleCopy => Checker::Contents,
        Bug::LosePage => Checker::Pages,
        Bug::DoubleCount => Checker::Account,
        Bug::OverCapacity => Checker::Capacity,
    }
}

/// Returns the first seed, from `from` on, whose machine shows a planted bug, and the finding.
/// `None` if [`SEEDS_MAX`] seeds are not enough.
pub fn first_found(bug: Bug, from: u64) -> Option<(u64, CheckFinding)> {
    let found =
        |seed| run(&SwarmCase::generate(seed).with_bug(bug)).err().map(|finding| (seed, finding));
    (from..from.saturating_add(SEEDS_MAX)).find_map(found)
}
