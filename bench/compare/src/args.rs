//! The command line.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use nodeward_compare::{CompareSettings, LabWorkload, balancers, workload_names};
use nodeward_lab::GuestKernel;
use nodeward_model::units::{parse_bytes, parse_duration_ns};

/// The same workloads under one balancer after the other, in the lab.
///
/// Exit codes: 0 all runs ended well, 1 some did not, 2 wrong usage, 3 nothing could be run.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask lab compare", version)]
pub struct Args {
    /// Workloads of the lab, or scenarios by name or path; all of the lab by default
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    workloads: Vec<String>,

    /// Balancers; all by default. The first is the one that the others are compared with
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    balancers: Vec<String>,

    /// Number of runs of each workload under each balancer
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,

    /// Daemons run before tasks begin, for up to so long, in each repeat another time: numad looks
    /// every 15 s, and what it has to look at begins at any time
    #[arg(long, default_value = "15s", value_parser = parse_duration_ns)]
    lead: u64,

    /// Memory of a process; numad leaves processes alone that have less than 300 MB
    #[arg(long, default_value = "512MiB", value_parser = parse_bytes)]
    size: u64,

    /// Number of passes through the memory
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..))]
    passes: u64,

    /// The kernel: 6.1, 6.12, newest, or the path of an image
    #[arg(long, default_value = "6.12")]
    kernel: GuestKernel,

    /// The size of each node's last-level cache
    #[arg(long, default_value = "1MiB", value_parser = parse_bytes)]
    llc: u64,

    /// Time of a miss at home on the machine that is meant; one from afar takes longer by the
    /// distance, and the CPU waits for the difference. The emulator takes some 50 ns for a line, so
    /// that by default one from afar takes two to three times as long
    #[arg(long, alias = "price", default_value = "80ns", value_parser = parse_duration_ns)]
    miss_delay: u64,

    /// Print every run and all that was seen in its course, for programs
    #[arg(long)]
    pub json: bool,

    /// Write a page of the documentation to this file
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,

    /// Run the same in the simulator, and write a page with both to this file
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
}

impl Args {
    /// Returns the settings of the comparison.
    ///
    /// # Errors
    /// If a name is unknown.
    pub fn settings(&self) -> Result<CompareSettings> {
        Ok(CompareSettings {
            workloads: self.workloads()?,
            balancers: chosen(balancers(), &self.balancers, |one| one.balancer.name.clone())?,
            repeats: self.repeats,
            lead_ns: self.lead,
            size_bytes: self.size,
            passes: self.passes,
            kernel: self.kernel.clone(),
            llc_bytes: self.llc,
            miss_delay_ns: self.miss_delay,
            populate: true,
        })
    }

    fn workloads(&self) -> Result<Vec<LabWorkload>> {
        let of_lab = workload_names().into_iter().map(str::to_owned);
        let names = match self.workloads.is_empty() {
            true => of_lab.collect(),
            false => self.workloads.clone(),
        };
        let scaled = |name: &String| Ok(LabWorkload::find(name)?.scaled(self.size, self.passes));
        names.iter().map(scaled).collect()
    }
}

/// Returns whether a command line has the option by its old name.
pub fn has_old_name(words: impl IntoIterator<Item = String>) -> bool {
    let is_old = |word: String| word == "--price" || word.starts_with("--price=");
    words.into_iter().any(is_old)
}

/// Returns the items of these names, in the order of the names; all if there are none.
fn chosen<T: Clone>(all: Vec<T>, names: &[String], name_of: fn(&T) -> String) -> Result<Vec<T>> {
    if names.is_empty() {
        return Ok(all);
    }
    let known: Vec<String> = all.iter().map(name_of).collect();
    let find = |name: &String| {
        let found = all.iter().find(|one| name_of(one) == *name).cloned();
        found.with_context(|| format!("no '{name}'; there are {}", known.join(", ")))
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str) -> Result<CompareSettings> {
        Args::try_parse_from(line.split(' ')).unwrap().settings()
    }

    /// Goal: the old name of an option works, and is told from the one in use.
    #[test]
    fn the_old_name_of_the_miss_delay() {
        for (line, is_old) in [("c --miss-delay 90ns", false), ("c --price=90ns", true)] {
            assert_eq!(settings(line).unwrap().miss_delay_ns, 90, "{line}");
            assert_eq!(has_old_name(line.split(' ').map(str::to_owned)), is_old, "{line}");
        }
    }

    /// Goal: everything is compared unless names are given, and names must be known.
    #[test]
    fn choices() {
        let all = settings("c").unwrap();
        assert_eq!((all.workloads.len(), all.balancers.len(), all.repeats), (14, 8, 5));
        let some = settings("c --workloads split,crossed --balancers numad,hand").unwrap();
        let names: Vec<&str> = some.workloads.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["split", "crossed"]);
        assert_eq!(some.balancers[0].balancer.name, "numad");
        let why = settings("c --balancers none").unwrap_err().to_string();
        assert!(why.contains("there are nothing, kernel, numad, hand, nodeward"), "{why}");
    }
}
