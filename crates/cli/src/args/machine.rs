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

fn parse_machine(text: &str) -> Result<String, String> {
    let scenario = text.strip_prefix("sim:").filter(|name| !name.is_empty());
    let expected = "expected sim:SCENARIO, such as sim:two-socket";
    scenario.map(str::to_owned).ok_or_else(|| expected.to_owned())
}
