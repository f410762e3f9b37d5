//! Arguments that select a simulated machine instead of this one.

use clap::Args;
use nodeward_model::units;

use super::parsers::parse_override;
use crate::message::help::SIMULATED;

/// Which machine a verb works on.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = SIMULATED)]
pub struct MachineArgs {
    /// Work on a simulated machine instead of this one; SCENARIO is the name of a built-in scenario
    /// or the path of a file
    #[arg(long, value_name = "sim:SCENARIO", value_parser = parse_machine)]
    pub machine: Option<String>,
    /// Simulate this much virtual time first, such as 2s [default: until all memory is populated,
    /// 1s at most]
    #[arg(long, value_name = "TIME", requires = "machine", value_parser = units::parse_duration_ns)]
    pub at: Option<u64>,
    /// Change a value of the scenario, such as machine.latency=100ns; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "machine", value_parser = parse_override)]
    pub set: Vec<(String, String)>,
}

/// A simulated machine in place of this one, and the seed of its run.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = SIMULATED)]
pub struct SimulatedArgs {
    /// The machine.
    #[command(flatten)]
    pub machine_args: MachineArgs,
    /// Seed of the simulated run; the same seed gives the same run [default: 0]
    #[arg(long, value_name = "N", requires = "machine")]
    pub seed: Option<u64>,
}

fn parse_machine(text: &str) -> Result<String, String> {
    let scenario = text.strip_prefix("sim:").filter(|name| !name.is_empty());
    let expected = "expected sim:SCENARIO, such as sim:two-socket";
    scenario.map(str::to_owned).ok_or_else(|| expected.to_owned())
}
