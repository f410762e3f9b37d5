//! The command line of the stream.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use nodeward_model::Nodemask;
use nodeward_model::units::{parse_bytes, parse_duration_ns};

/// A process whose threads go through memory line by line, a number of times, and then end.
///
/// Prints one line of JSON when the memory is in place, one after each pass of a thread, and one at
/// the end. Exit codes: 0 nothing was lost, 1 memory did not hold what was written, 2 wrong usage,
/// 3 the memory could not be set up.
#[derive(Clone, Debug, Parser)]
#[command(name = "nodeward-stream", version)]
pub struct Args {
    /// Memory of the process
    #[arg(long, default_value = "64MiB", value_parser = parse_bytes)]
    pub size: u64,

    /// Number of threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,

    /// The threads are in as many pools as there are names here, equal in size, and called so
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub pools: Vec<String>,

    /// Passes of each thread through its part
    #[arg(long, default_value_t = 1)]
    pub passes: u64,

    /// The part of the memory that each thread uses
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

    /// The memory is this file, which other processes map, too; it is made if there is none
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// With --file: this process is one of several that are alike, and goes through its parts, such
    /// as the first of two: 0/2
    #[arg(long, value_name = "NUMBER/OF", requires = "file", default_value = "0/1")]
    #[arg(value_parser = parse_process)]
    pub process: (usize, usize),

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

impl Args {
    /// Parses the command line of this process, and ends it with a message if it makes no sense.
    pub fn parse_checked() -> Self {
        let args = Self::parse();
        if let Err(fault) = args.check_pools() {
            Self::command().error(ErrorKind::ValueValidation, fault).exit();
        }
        args
    }

    fn check_pools(&self) -> Result<(), String> {
        let (threads, pools) = (self.threads as usize, self.pools.len().max(1));
        let fault = || format!("{threads} threads make no {pools} equal pools; name fewer or more");
        threads.is_multiple_of(pools).then_some(()).ok_or_else(fault)
    }
}

/// The part of the memory that a thread goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccessPart {
    /// A piece of its own, which it reads, checks and writes
    Share,
    /// A piece of its own, which it reads and checks
    ReadShare,
    /// All of it, as do the others; it is read and checked
    All,
    /// The piece of its pool, as do the others of that; it is read and checked
    Pool,
    /// Pages of its own, which lie among those of the others as if drawn by lot; it reads, checks
    /// and writes them, and reads one in eight of the others'
    Scattered,
}

fn parse_process(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(number, of)| {
        let (number, of) = (number.parse().ok()?, of.parse().ok()?);
        (number < of && of <= 256).then_some((number, of))
    });
    numbers.ok_or_else(|| "a number and of how many, such as 0/2".to_owned())
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
        let pools = ["s --threads 4 --pools a,b", "s --threads 3 --pools a,b", "s"];
        let is_fine = pools.map(|line| parsed(line).unwrap().check_pools().is_ok());
        assert_eq!(is_fine, [true, false, true]);
        assert_eq!(parsed("s --file f --process 1/2").unwrap().process, (1, 2));
        let processes = ["2/2", "0/0", "1", "0/257"].map(|it| format!("s --file f --process {it}"));
        let alone = ["s --odd", "s --threads 0", "s --nodes x", "s --process 0/2"];
        for wrong in alone.into_iter().chain(processes.iter().map(String::as_str)) {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
