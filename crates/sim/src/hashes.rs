//! The trace hashes that the built-in scenarios must produce on every machine and in every build.
//!
//! The table is `crates/sim/hashes.txt`. After a change of the model, and only then:
//! `NODEWARD_HASHES=write cargo test -p nodeward-sim --test simulator hashes`.

use nodeward_scenario::{BUILT_IN, Error, Scenario};

use crate::world::World;

/// Simulated time of each scenario.
const LIMIT_NS: u64 = 5_000_000;
/// The seed of each run.
const SEED: u64 = 1;

const TABLE: &str = include_str!("../hashes.txt");

/// Returns the committed table as text: one scenario and its trace hash in each row.
pub fn committed() -> &'static str {
    TABLE
}

/// Returns the same table, computed by this build.
///
/// # Errors
/// If a built-in scenario cannot be read.
pub fn computed() -> Result<String, Error> {
    let row = |(name, _): &(&str, &str)| {
        let mut world = World::new(&Scenario::find(name)?, SEED);
        world.run_until(LIMIT_NS);
        Ok(format!("{name} {:016x}\n", world.trace_hash()))
    };
    BUILT_IN.iter().map(row).collect()
}
