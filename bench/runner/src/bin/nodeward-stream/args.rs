//! The command line of the stream.

use clap::{Parser, ValueEnum};
use nodeward_model::Nodemask;
use nodeward_model::units::{parse_bytes, parse_duration_ns};

/// A process whose threads go through memory line by line, so many times, and then end.
///
/// Prints one line of JSON when the memory is in place, one after each pass of a thread, and one at
/// the end. Exit codes: 0 nothing was lost, 1 memory did not hold what was written, 2 wrong usage,
/// 3 the memory could not be set up.
#[derive(Clone, Debug, Parser)]
#[command(name = "nodeward-stream", version)]
pub struct Args {
    /// How much memory
    #[arg(long, default_value = "64MiB", value_parser = parse_bytes)]
    pub size: u64,

    /// How many threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,

    /// The threads are in as many pools as there are names here, equal in size, and called so
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub pools: Vec<String>,

    /// How often each thread goes through its part
    #[arg(long, default_value_t = 1)]
    pub passes: u64,

    /// Which part that is
    #[arg(long, value_enum, default_value_t = AccessPart::Share)]
    pub part: AccessPart,

    /// Nodes that the memory comes from, 2 MiB in turn; default: the node of the CPU in use
    ///
    /// Afterwards it is bound to no node, so that whoever balances may move it.
    #[arg(long, value_name = "NODES")]
    pub nodes: Option<Nodemask>,

    /// Place threads and memory by hand: the threads stay on the CPUs of these nodes, one each in
    /// turn, and the memory of each comes from there, whatever --nodes says
    #[arg(long, value_name = "NODES")]
    pub homes: Option<Nodemask>,

    /// The threads stay on the CPUs of these nodes, one each in turn, unless --homes is given;
    /// memory is placed as without
    #[arg(long, value_name = "NODES")]
    pub stay: Option<Nodemask>,

    /// Have the lab's counter count the work in this slot
    #[arg(long, value_name = "SLOT", value_parser = clap::value_parser!(u8).range(1..64))]
    pub slot: Option<u8>,

    /// With --slot: count it by frames, too
    #[arg(long, requires = "slot")]
    pub by_frame: bool,

    /// Begin when a line comes on standard input
    #[arg(long)]
    pub wait: bool,

    /// Work only in every second stretch of this length, and sleep in the others; the clock is that
    /// of the machine, so that all who are told so agree
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns)]
    pub turn: Option<u64>,

    /// With --turn: work in the other stretches
    #[arg(long, requires = "turn")]
    pub odd: bool,
}

/// What of the memory a thread goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccessPart {
    /// A piece of its own, which it reads, checks and writes
    Share,
    /// A piece of its own, which it reads and checks
    ReadShare,
    /// All of it, as do the others; it is read and checked
    All,
    /// Pages of its own, which lie among those of the others as if drawn by lot; it reads, checks
    /// and writes them, and reads one in eight of the others'
    Scattered,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the command lines of the lab's workloads are parsed, and senseless ones are refused.
    #[test]
    fn usage() {
        let parsed = |line: &str| Args::try_parse_from(line.split(' '));
        let args =
            parsed("s --size 512MiB --threads 2 --part scattered --nodes 0,1 --wait").unwrap();
        assert_eq!((args.size, args.threads, args.part), (512 << 20, 2, AccessPart::Scattered));
        let args = parsed("s --stay 0,1 --homes 0").unwrap();
        assert_eq!([args.stay, args.homes].map(Option::unwrap).map(|nodes| nodes.len()), [2, 1]);
        assert_eq!(parsed("s --turn 2s --odd").unwrap().turn, Some(2_000_000_000));
        for wrong in ["s --odd", "s --threads 0", "s --nodes x"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
