//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ArgGroup, Parser, Subcommand};
use nodeward_lab::{CountOptions, GuestFile, GuestKernel, OLD_MISS};
use nodeward_model::units::parse_duration_ns;

/// Runs programs on machines with several memory nodes, under stock kernels, in an emulator.
#[derive(Debug, Parser)]
#[command(name = "nodeward-lab", version, after_help = EXIT_CODES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: LabVerb,
}

const EXIT_CODES: &str = "\
Exit codes of `run` and `shell`: that of the command or of the shell, 128 plus the signal that ended
it, 124 if the time of `run` was over, 125 if the lab itself failed. The other verbs: 0, or 125.

Environment: NODEWARD_LAB_CACHE (where kernels and snapshots are kept, else nodeward/lab in the
user's cache directory).";

/// What the lab can do.
#[derive(Debug, Subcommand)]
pub enum LabVerb {
    /// Run a command in a guest
    Run(Box<RunVerb>),
    /// Open a shell in a guest
    Shell(Box<ShellVerb>),
    /// List the machines that come with the lab
    Scenarios,
    /// List the kernels that are on disk
    Kernels,
    /// Fetch the archive's present version of kernels, without installing anything
    Fetch {
        /// 5.10, 6.1, 6.12 or newest; all if none is given
        kernels: Vec<GuestKernel>,
    },
    /// Say whether the lab can run here, and if not, what to install
    Check,
    /// Show the counts of a run, which may still go on
    Counts {
        /// What `run --counts` was told
        file: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Those of single frames
        #[arg(long)]
        frames: bool,
    },
    /// Remove snapshots
    Clean {
        /// Remove kernels and all else that was fetched or made, too
        #[arg(long)]
        all: bool,
    },
}

/// A command, and the guest for it.
#[derive(Debug, ArgGroup)]
#[command(after_help = "\
Examples:
  nodeward-lab run -- numactl --hardware
  nodeward-lab run --scenario four-nodes-hole --file ./a.out -- a.out --size 1G
  nodeward-lab run --count=miss=100ns --file ./a.out -- a.out --size 1G
  nodeward-lab run --kernel newest -- 'grep . /sys/devices/system/node/node*/meminfo | head'")]
pub struct RunVerb {
    /// The guest.
    #[command(flatten)]
    pub guest: GuestArgs,
    /// End the command after this time, such as 90s
    #[arg(short, long, default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    /// The command: one word is a line for the guest's shell, more are a program and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

/// A shell, and the guest for it.
#[derive(Debug, ArgGroup)]
#[command(after_help = "\
On a terminal the guest's shell has one, too. `exit` or Ctrl-D leaves it, and its exit code is
this program's. All keys go to the guest, Ctrl-C as well, but Ctrl-] three times in a row ends the
guest at once (exit code 137). Without a terminal the shell reads its lines from standard input.

Examples:
  nodeward-lab shell
  nodeward-lab shell --scenario four-nodes-hole --kernel newest --file ./a.out
  nodeward-lab shell <script.sh")]
pub struct ShellVerb {
    /// The guest.
    #[command(flatten)]
    pub guest: GuestArgs,
}

/// A machine, its kernel, and what is brought along.
#[derive(Debug, ArgGroup)]
pub struct GuestArgs {
    /// The machine: the name of one that comes with the lab, or the path of a TOML file
    #[arg(short, long, default_value = "two-nodes", value_name = "NAME|FILE")]
    pub scenario: String,
    /// The kernel: 5.10, 6.1, 6.12, newest, or the path of an image
    #[arg(short, long, default_value = "6.12", value_name = "KERNEL")]
    pub kernel: GuestKernel,
    /// Bring a file, or a directory; a program goes to /bin with its libraries, else to /root
    #[arg(short, long = "file", value_name = "PATH[:GUESTPATH]")]
    pub files: Vec<GuestFile>,
    /// Set a variable for the command
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Give the kernel further arguments
    #[arg(long, default_value = "", value_name = "ARGUMENTS")]
    pub append: String,
    /// Boot afresh instead of going on from a snapshot
    #[arg(long)]
    pub cold: bool,
    /// Have the host find room for all memory first, so that no first touch of a page takes longer
    #[arg(long)]
    pub populate: bool,
    /// Let one thread of the host emulate all CPUs in turns, which takes less of the host
    #[arg(long)]
    pub take_turns: bool,
    /// Count accesses to memory, behind caches of this size and form, and with a miss at home of
    /// this time: llc=1MiB,ways=8,miss=100ns
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true,
          default_missing_value = "", value_parser = count_options)]
    pub count: Option<CountOptions>,
    /// Keep the counts in a file, which `nodeward-lab counts` shows during and after the run
    #[arg(long, value_name = "FILE", requires = "count")]
    pub counts: Option<PathBuf>,
}

/// Parses how to count, and reports an old key.
fn count_options(text: &str) -> Result<CountOptions, String> {
    let options = text.parse()?;
    if has_old_key(text) {
        eprintln!("warning: --count={OLD_MISS}= is deprecated; use --count=miss=");
    }
    Ok(options)
}

fn has_old_key(text: &str) -> bool {
    text.split(',').any(|word| word.split('=').next() == Some(OLD_MISS))
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration_ns(text).map(Duration::from_nanos).map_err(|why| why.to_string())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the old name of a key works, and is told from the one in use.
    #[test]
    fn the_old_key_of_count() {
        let words = ["llc=2MiB,ways=16,miss=100ns", "llc=2MiB,ways=16,price=100ns"];
        let [new, old] = words.map(|text| count_options(text).unwrap());
        assert_eq!(new, old);
        assert_eq!(words.map(has_old_key), [false, true]);
    }
}
