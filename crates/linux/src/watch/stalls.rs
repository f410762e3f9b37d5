//! The time for which tasks were stalled for lack of memory (PSI), as a sum that a balancer
//! compares with that of its last sample.

use std::path::PathBuf;
use std::time::Duration;

use nodeward_model::ProcessFilter;

use super::context::WatchContext;
use super::files::CachedFile;
use crate::pressure::{self, ReclaimCounts};
use crate::process_lookup;

/// The files and their values at the last sample.
#[derive(Debug)]
pub struct PressureStalls {
    /// The totals of the machine, or of each group.
    totals: Vec<StallTotal>,
    /// Files with counts of reclaim and compaction in the groups.
    counters: Vec<(PathBuf, CachedFile)>,
    counts: ReclaimCounts,
    sum: Duration,
}

#[derive(Debug)]
struct StallTotal {
    path: PathBuf,
    file: CachedFile,
    last: Option<Duration>,
}

impl PressureStalls {
    /// Returns the stalls of the machine. If only control groups are selected, those of the groups:
    /// others may be short of memory all the time, by a limit of their own.
    pub fn for_filter(wanted: &ProcessFilter, context: &WatchContext) -> Self {
        let ProcessFilter { pids, names, users, cgroups } = wanted;
        let only_groups = pids.is_empty() && names.is_empty() && users.is_empty();
        let groups = cgroups.iter().filter(|_| only_groups);
        let groups: Vec<_> =
            groups.map(|group| process_lookup::cgroup_folder(&context.root, group)).collect();
        let of_groups = groups.iter().map(|folder| folder.join("memory.pressure"));
        let of_machine = groups.is_empty().then(|| context.root.join("proc/pressure/memory"));
        let total = |path| StallTotal { path, file: CachedFile::default(), last: None };
        let counters = groups.iter().map(|folder| folder.join("memory.stat"));
        Self {
            totals: of_groups.chain(of_machine).map(total).collect(),
            counters: counters.map(|path| (path, CachedFile::default())).collect(),
            counts: ReclaimCounts::default(),
            sum: Duration::ZERO,
        }
    }

    /// Returns the sum in nanoseconds; `None` where no file reports it. Time in which the kernel
    /// only compacted memory is left out. `vmstat` has the counts of the machine. Cost: a file, or
    /// two for each group.
    pub fn read_ns(&mut self, vmstat: &str, context: &mut WatchContext) -> Option<u64> {
        let longest = self.totals.iter_mut().filter_map(|total| total.increase(context)).max()?;
        let now = ReclaimCounts::default().with(vmstat);
        let before = std::mem::replace(&mut self.counts, now);
        for (path, file) in &mut self.counters {
            if let Ok(bytes) = file.read(|| path.clone(), &context.open_files, &mut context.buffer)
            {
                self.counts = self.counts.with(&String::from_utf8_lossy(bytes));
            }
        }
        if !self.counts.is_compaction_only(before) {
            self.sum += longest;
        }
        u64::try_from(self.sum.as_nanos()).ok()
    }
}

impl StallTotal {
    /// Returns the growth since the last sample, zero at the first one; `None` if the file cannot
    /// be read.
    fn increase(&mut self, context: &mut WatchContext) -> Option<Duration> {
        let path = || self.path.clone();
        let text = self.file.read(path, &context.open_files, &mut context.buffer);
        let now = text.ok().and_then(|bytes| {
            pressure::parse_stall_total(&String::from_utf8_lossy(bytes), &self.path).ok()
        });
        if now.is_none() {
            self.file = CachedFile::default(); // a group that was removed may come again
        }
        let before = std::mem::replace(&mut self.last, now);
        now.map(|now| now.saturating_sub(before.unwrap_or(now)))
    }
}
