//! The command line of the load.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use nodeward_model::Nodemask;
use nodeward_model::units::{UnitError, parse_bytes, parse_duration_ns};

/// A process with memory of a chosen kind and place that keeps writing to it and checks every word
/// that it wrote.
///
/// Prints one line of JSON when everything is in place, and another when it ends: after --seconds,
/// or on SIGTERM or SIGINT. Exit codes: 0 nothing was lost, 1 memory did not hold what was written,
/// 2 wrong usage, 3 the memory could not be set up.
#[derive(Clone, Debug, Parser)]
#[command(name = "nodeward-load", version)]
pub struct Args {
    /// Nodes that the memory comes from, such as 0 or 0,2; default: the node of the CPU in use
    #[arg(long, visible_alias = "nodes", value_name = "NODES")]
    pub node: Option<Nodemask>,

    /// Let later memory come from any node, and let the kernel's NUMA balancing move pages
    ///
    /// Without this the memory stays bound to --node, which keeps NUMA balancing off it.
    #[arg(long)]
    pub unbind: bool,

    /// Memory to fill
    #[arg(long, default_value = "64MiB", value_parser = parse_bytes)]
    pub size: u64,

    /// Spread the memory evenly over this many bytes of addresses, of which the others stay empty;
    /// anonymous memory
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub over: Option<u64>,

    /// Number of mappings into which these addresses are divided; anonymous memory
    #[arg(long, default_value_t = 1, value_name = "MAPPINGS",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub mappings: u32,

    /// Use only this much of the memory, in the middle, until the end; default: all of it
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub hot: Option<u64>,

    /// Kind of memory
    #[arg(long, value_enum, default_value_t = MemoryKind::Anonymous)]
    pub kind: MemoryKind,

    /// Threads that write and check; 0 checks once, at the end
    #[arg(long, default_value_t = 1)]
    pub threads: usize,

    /// Rest of each writer after 256 writes
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns)]
    pub pause: Option<u64>,

    /// Measure how long it takes to touch random pages
    #[arg(long)]
    pub probe: bool,

    /// The time between two touches of the probe
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = interval_ns)]
    pub probe_interval: u64,

    /// Pages that the probe touches each time
    #[arg(long, value_name = "PAGES", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub probe_burst: u32,

    /// Start this many children that share the memory copy-on-write
    #[arg(long, value_name = "CHILDREN", default_value_t = 0, num_args = 0..=1,
          default_missing_value = "1")]
    pub fork: u32,

    /// Let pipes hold this many pages, evenly spread, so that the kernel cannot move them
    #[arg(long, value_name = "PAGES", default_value_t = 0)]
    pub pin: usize,

    /// Change the address space all the time
    #[arg(long, value_enum, value_delimiter = ',', value_name = "HOW")]
    pub race: Vec<Race>,

    /// Memory that each race changes at a time
    #[arg(long, default_value = "4MiB", value_name = "SIZE", value_parser = parse_bytes)]
    pub race_size: u64,

    /// Replace the program (by exec, with a plain load) after this number of seconds, or on SIGHUP
    #[arg(long, value_name = "SECONDS")]
    pub exec_after: Option<f64>,

    /// End after this number of seconds; default: run until a signal comes
    #[arg(long)]
    pub seconds: Option<f64>,

    /// Be counted in this slot, on a machine of the lab that counts accesses; its children are not
    #[arg(long, value_name = "SLOT", value_parser = clap::value_parser!(u8).range(1..64))]
    pub slot: Option<u8>,

    /// Directory of the files for --kind file and page-cache; default: $TMPDIR or /tmp
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryKind {
    /// The brk heap, base pages
    Heap,
    /// One anonymous mapping, base pages
    Anonymous,
    /// One anonymous mapping, transparent huge pages wanted
    Thp,
    /// One mapping of the hugetlb pool
    Hugetlb,
    /// One anonymous mapping that children share
    Shared,
    /// One private mapping of a file, every page copied on write
    File,
    /// One shared mapping of a file
    PageCache,
    /// The stack of the main thread
    Stack,
    /// One anonymous mapping of equal pages that KSM may merge
    Ksm,
    /// One anonymous mapping locked into memory
    Mlocked,
}

/// A change of the address space that goes on for as long as the load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Race {
    /// Map memory, touch it, unmap it
    Unmap,
    /// Touch memory, give its pages back, touch it again
    Discard,
    /// Map more and more, up to --size, then start afresh
    Grow,
    /// Fork a child, end it
    Fork,
}

/// Parses a time like all others, except that zero is allowed: then there is no rest.
fn interval_ns(text: &str) -> Result<u64, UnitError> {
    if text == "0" { Ok(0) } else { parse_duration_ns(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Args {
        Args::try_parse_from(line.split(' ')).unwrap()
    }

    /// Goal: the flags that scripts rely on are parsed as expected.
    #[test]
    fn usage() {
        let args =
            parsed("load --node 1 --size 512MiB --kind thp --race unmap,fork --probe --fork");
        assert_eq!((args.size, args.kind, args.fork), (512 << 20, MemoryKind::Thp, 1));
        assert_eq!(args.race, [Race::Unmap, Race::Fork]);
        assert_eq!(args.probe_interval, 50_000);
        assert_eq!(parsed("load --probe-interval 0").probe_interval, 0);
        assert!(Args::try_parse_from(["load", "--kind", "none"]).is_err());
    }
}
