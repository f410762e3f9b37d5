//! What the scenarios that come along must come to, on every machine and in every build.
//!
//! The table is `crates/sim/hashes.txt`. After a change of the model, and only then:
//! `NODEWARD_HASHES=write cargo test -p nodeward-sim --test hashes`.

use nodeward_scenario::{BUILT_IN, Error, Scenario};

use crate::World;

/// How much of each scenario is simulated.
pub const LIMIT_NS: u64 = 5_000_000;
/// The seed.
pub const SEED: u64 = 1;

const TABLE: &str = include_str!("../hashes.txt");

/// The committed table, as text: a scenario and its trace hash in each line.
pub fn committed() -> &'static str {
    TABLE
}

/// The same table as this build has it.
///
/// # Errors
/// If a scenario that comes along cannot be read.
pub fn computed() -> Result<String, Error> {
    let line = |(name, _): &(&str, &str)| {
        let mut world = World::new(&Scenario::find(name)?, SEED);
        world.run_until(LIMIT_NS);
        Ok(format!("{name} {:016x}\n", world.trace_hash()))
    };
    BUILT_IN.iter().map(line).collect()
}
