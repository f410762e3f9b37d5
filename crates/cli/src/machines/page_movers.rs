//! Counts who moves pages: by programs in the kernel, or else by what the kernel counts anyway.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use nodeward_bpf::migrations::{CountedMigrations, MigrationCounter, PIDS_MAX};
use nodeward_bpf::{Unavailable, drop_capabilities};
use nodeward_linux::migration_counters::MigrationCounters;
use nodeward_linux::pid_namespace;
use nodeward_machine::Error;
use nodeward_model::Pid;

use crate::results::page_movers::{MoverPeriod, NotTold};

/// Counts all migrations since it was started.
pub struct MoverCounter {
    source: MoverSource,
    began: Instant,
    /// The last counts, with their time in nanoseconds since the beginning.
    seen: Option<(u64, MoverCounts)>,
    not_told: Vec<NotTold>,
}

enum MoverSource {
    Programs(Box<MigrationCounter>),
    Counters { root: PathBuf, before: MigrationCounters },
}

/// Counts since the beginning.
enum MoverCounts {
    Programs(CountedMigrations),
    Counters(MigrationCounters),
}

impl MoverCounter {
    /// Starts to count, on the machine whose files are below `root`, the calls of `pids`, or of all
    /// processes if there are none. The capabilities that this needs are given up.
    ///
    /// # Errors
    ///
    /// Nothing can be counted, or not by process.
    pub fn start(root: &Path, pids: &[Pid]) -> Result<Self> {
        check_pids(pids)?;
        let numbers: Vec<u32> = pids.iter().map(|pid| pid.number()).collect();
        match MigrationCounter::start(root, &numbers) {
            Ok(counter) => Self::of_programs(counter),
            Err(why) if pids.is_empty() => Self::of_counters(root, &why),
            Err(why) => Err(why).context("calls of single processes cannot be counted"),
        }
    }

    fn of_programs(counter: MigrationCounter) -> Result<Self> {
        drop_capabilities(|| counter.read().is_ok()).context("cannot give up capabilities")?;
        let mut not_told: Vec<NotTold> = Vec::new();
        let mut named = BTreeSet::new();
        for absent in counter.absent().iter().filter(|absent| named.insert(absent.probe.tells)) {
            let (why, log) = (absent.to_string(), absent.log().map(str::to_owned));
            not_told.push(NotTold { why, log });
        }
        Ok(Self::new(MoverSource::Programs(Box::new(counter)), not_told))
    }

    fn of_counters(root: &Path, why: &Unavailable) -> Result<Self> {
        let before = MigrationCounters::read(root)?;
        let what = "callers, times and most reasons, as only /proc/vmstat can be read";
        let log = why.log().map(str::to_owned);
        let not_told = vec![NotTold { why: format!("{what}: {why}"), log }];
        Ok(Self::new(MoverSource::Counters { root: root.to_owned(), before }, not_told))
    }

    fn new(source: MoverSource, not_told: Vec<NotTold>) -> Self {
        Self { source, began: Instant::now(), seen: None, not_told }
    }

    /// Returns what cannot be told here.
    pub fn not_told(&self) -> &[NotTold] {
        &self.not_told
    }

    /// Returns the name of the source.
    pub fn source(&self) -> &'static str {
        match self.source {
            MoverSource::Programs(_) => "bpf",
            MoverSource::Counters { .. } => "vmstat",
        }
    }

    /// Returns what happened since the last call, and since the beginning.
    ///
    /// # Errors
    ///
    /// The counts cannot be read.
    pub fn read(&mut self) -> Result<(MoverPeriod, MoverPeriod)> {
        let counts = match &self.source {
            MoverSource::Programs(counter) => MoverCounts::Programs(counter.read()?),
            MoverSource::Counters { root, before } => {
                MoverCounts::Counters(MigrationCounters::read(root)?.since(before))
            }
        };
        let now_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let total = counts.period(now_ns);
        let interval = match &self.seen {
            Some((then_ns, then)) => counts.since(then).period(now_ns.saturating_sub(*then_ns)),
            None => total.clone(),
        };
        self.seen = Some((now_ns, counts));
        Ok((interval, total))
    }
}

impl MoverCounts {
    fn since(&self, earlier: &Self) -> Self {
        match (self, earlier) {
            (Self::Programs(now), Self::Programs(then)) => Self::Programs(now.since(then)),
            (Self::Counters(now), Self::Counters(then)) => Self::Counters(now.since(then)),
            _ => unreachable!("a source has one kind of counts"),
        }
    }

    fn period(&self, time_ns: u64) -> MoverPeriod {
        match self {
            Self::Programs(counts) => MoverPeriod::of_programs(time_ns, counts),
            Self::Counters(counters) => MoverPeriod::of_counters(time_ns, counters),
        }
    }
}

/// Checks that the programs can know these processes.
fn check_pids(pids: &[Pid]) -> Result<()> {
    if pids.len() > PIDS_MAX {
        bail!("{} processes are named; name {PIDS_MAX} at most, or none for all", pids.len());
    }
    if pids.is_empty() || pid_namespace::is_first()? {
        return Ok(());
    }
    let reason = "in a pid namespace the kernel has other pids than we see; name none, or start \
                  nodeward in the first one (containers: with the pid namespace of the host)";
    let action = "counting calls of single processes";
    Err(Error::Unsupported { action, reason: reason.to_owned() }.into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn root_with(vmstat: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/vmstat"), vmstat).unwrap();
        root
    }

    fn moved(period: &MoverPeriod) -> Option<u64> {
        period.movers.iter().find(|mover| mover.reason == "all")?.moved_pages
    }

    /// Goal: without BTF what /proc/vmstat counts is told, and what keeps the rest from it. The
    /// counts before the watch are not in it: 100, then 130 and 150 are 30 and 20, together 50.
    #[test]
    fn without_btf_counters_are_told() {
        let root = root_with("pgmigrate_success 100\npgmigrate_fail 0\n");
        let mut counter = MoverCounter::start(root.path(), &[]).unwrap();
        assert_eq!(counter.source(), "vmstat");
        let [NotTold { why, log: None }] = counter.not_told() else { panic!("one reason") };
        assert!(why.contains("has no BTF") && why.contains("CONFIG_DEBUG_INFO_BTF"), "{why}");
        fs::write(root.path().join("proc/vmstat"), "pgmigrate_success 130\n").unwrap();
        let (interval, total) = counter.read().unwrap();
        assert_eq!((moved(&interval), moved(&total)), (Some(30), Some(30)));
        fs::write(root.path().join("proc/vmstat"), "pgmigrate_success 150\n").unwrap();
        let (interval, total) = counter.read().unwrap();
        assert_eq!((moved(&interval), moved(&total)), (Some(20), Some(50)));
    }

    /// Goal: under lockdown the same.
    #[test]
    fn under_lockdown_counters_are_told() {
        let root = root_with("pgmigrate_success 1\n");
        let types = root.path().join("sys/kernel/btf");
        let security = root.path().join("sys/kernel/security");
        fs::create_dir_all(&security).unwrap();
        fs::write(security.join("lockdown"), "none integrity [confidentiality]\n").unwrap();
        fs::create_dir_all(&types).unwrap();
        if fs::copy("/sys/kernel/btf/vmlinux", types.join("vmlinux")).is_err() {
            eprintln!("skipped: this kernel has no BTF");
            return;
        }
        let counter = MoverCounter::start(root.path(), &[]).unwrap();
        let [NotTold { why, .. }] = counter.not_told() else { panic!("one reason") };
        assert!(why.contains("locked down"), "{why}");
    }

    /// Goal: counters of the machine are never told as those of a process.
    #[test]
    fn processes_are_not_told_by_counters() {
        let root = root_with("pgmigrate_success 1\n");
        let us = [Pid::of_this_process()];
        let error = MoverCounter::start(root.path(), &us).map(drop).unwrap_err();
        assert!(format!("{error:#}").contains("single processes"), "{error:#}");
        let error = MoverCounter::start(root.path(), &[us[0]; PIDS_MAX + 1]).map(drop).unwrap_err();
        assert!(error.to_string().contains("1025 processes are named"), "{error}");
    }
}
