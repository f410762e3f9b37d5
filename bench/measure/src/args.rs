//! What can be measured, and how much of it.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand};
use nodeward_model::Synthetic;
use nodeward_model::units::parse_bytes;

/// Measures whole commands against those that people use today, in one run.
///
/// The last line on standard output is JSON: `measured`, and every sample behind it.
#[derive(Debug, Parser)]
#[command(name = "nodeward-bench", version)]
pub struct Args {
    /// What to measure.
    #[command(subcommand)]
    pub what: What,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum What {
    /// How many times as fast as `migratepages PID 0 1` is `nodeward move PID 0 1`
    Speed(Speed),
    /// How long a thread of the process waits for pages in flight meanwhile
    Stall(Stall),
    /// How long `nodeward show --topology` takes on a large machine, in ms
    Topology(Topology),
}

/// The process whose memory is moved.
#[derive(Clone, Debug, Group)]
pub struct Memory {
    /// How much memory it has
    #[arg(long, default_value = "512MiB", value_parser = parse_bytes)]
    pub size: u64,
    /// What kind of memory, as nodeward-load names it
    #[arg(long, default_value = "anonymous")]
    pub kind: String,
}

/// Options of `speed`.
#[derive(Clone, Debug, Group)]
pub struct Speed {
    /// The process.
    #[command(flatten)]
    pub memory: Memory,
    /// Move this process, which lies on node 0 and has --size, instead of one that is started
    #[arg(long)]
    pub pid: Option<u32>,
    /// How many pairs of commands are compared
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Options for `nodeward move`, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// Options of `stall`.
#[derive(Clone, Debug, Group)]
pub struct Stall {
    /// The process.
    #[command(flatten)]
    pub memory: Memory,
    /// How many processes each command moves, in turns
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub turns: u32,
    /// How often each of them is moved
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub moves: u32,
    /// The time between two touches of the thread that measures
    #[arg(long, default_value = "50us", value_name = "TIME")]
    pub interval: String,
    /// How many pages it touches each time
    #[arg(long, default_value_t = 32, value_name = "PAGES")]
    pub burst: u32,
    /// The budget
    #[arg(long, default_value = "1ms", value_name = "TIME")]
    pub stall: String,
    /// Options for `nodeward move`, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// Options of `topology`.
#[derive(Clone, Debug, Group)]
pub struct Topology {
    /// The `nodeward` to measure
    #[arg(long, value_name = "PATH", default_value = "nodeward")]
    pub program: PathBuf,
    /// The machine, in one line
    #[arg(long, default_value = "8n 64c 2t 64GiB L1d:48KiB L1i:32KiB L2:2MiB L3:96MiB split")]
    pub machine: Synthetic,
    /// How often
    #[arg(long, default_value_t = 41, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the lines that bench/run uses are read as they are meant.
    #[test]
    fn usage() {
        let line = "bench speed --size 64MiB --kind thp -- --jobs 2";
        let What::Speed(speed) = Args::parse_from(line.split(' ')).what else { panic!("{line}") };
        assert_eq!((speed.memory.size, speed.memory.kind.as_str()), (64 << 20, "thp"));
        assert_eq!(speed.options, ["--jobs", "2"]);
        assert!(Args::try_parse_from(["bench", "speed", "--pairs", "0"]).is_err());
    }

    /// Goal: the machine that the promise speaks of is the one that is made.
    #[test]
    fn the_large_machine_has_eight_nodes_and_1024_cpus() {
        let What::Topology(options) = Args::parse_from(["bench", "topology"]).what else {
            panic!("another verb")
        };
        let topology = options.machine.topology();
        assert_eq!((topology.nodes.len(), topology.cpus.len()), (8, 1024));
    }
}
