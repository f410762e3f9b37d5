//! The command line.

use std::path::PathBuf;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use nodeward_model::units::parse_duration_ns;

use crate::means::{ALL, BROKEN};

/// Uses memory of a pager by every means that docs/reference/library.md allows, each with threads
/// of its own, while all of it moves: no write may be lost, no read torn, and no thread stand
/// still.
///
/// Prints one line of JSON at the end. Exit codes: 0 nothing was wrong, 2 wrong usage, 3 it could
/// not be set up, 6 a call failed that must not, 7 memory did not hold what was written to it,
/// 9 a thread stood still for too long; standard error says which, and where it stands.
#[derive(Clone, Debug, Parser)]
#[command(name = "nodeward-torture", version)]
pub struct Args {
    /// How long
    #[arg(long = "for", value_name = "TIME", default_value = "20s",
          value_parser = parse_duration_ns)]
    pub time: u64,

    /// Go on after that until each thread has made so many steps: machines may be slow
    #[arg(long, value_name = "STEPS", default_value_t = 1)]
    pub steps: u64,

    /// How long a thread may stand still, in time in which others went on
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration_ns)]
    pub patience: u64,

    /// Draws what threads do; default: a new one, which is told
    #[arg(long)]
    pub seed: Option<u64>,

    /// Only these means, such as moves,plain,futex; default: all
    #[arg(long, value_name = "MEANS", value_delimiter = ',', value_parser = names(),
          hide_possible_values = true)]
    pub means: Vec<String>,

    /// All means but these
    #[arg(long, value_name = "MEANS", value_delimiter = ',', value_parser = names(),
          hide_possible_values = true)]
    pub without: Vec<String>,

    /// List the means
    #[arg(long)]
    pub list: bool,

    /// Threads that move pages
    #[arg(long, value_name = "THREADS", default_value_t = 3)]
    pub movers: usize,

    /// Have the kernel move all pages
    #[arg(long)]
    pub kernel_only: bool,

    /// Change settings of the whole machine (KSM, transparent huge pages, control groups)
    ///
    /// They are set back at the end, but not after a thread stood still.
    #[arg(long)]
    pub whole_machine: bool,

    /// Where files for direct I/O are made; default: $TMPDIR or /tmp
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
}

fn names() -> PossibleValuesParser {
    ALL.iter().chain(BROKEN).map(|kind| kind.name).collect::<Vec<_>>().into()
}
