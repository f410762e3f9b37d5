//! The time for which tasks were stalled for lack of memory (PSI), as a sum that a balancer
//! compares with that of its last sample.

use std::path::PathBuf;
use std::time::Duration;

use nodeward_model::Wanted;

use super::files::Kept;
use super::tools::Tools;
use crate::pressure::{self, Counts};
use crate::select;

/// The files and their values at the last sample.
#[derive(Debug)]
pub struct Stalls {
    /// The totals of the machine, or of each group.
    totals: Vec<Total>,
    /// Files with counts of reclaim and compaction.
    counters: Vec<(PathBuf, Kept)>,
    counts: Counts,
    sum: Duration,
}

#[derive(Debug)]
struct Total {
    path: PathBuf,
    file: Kept,
    last: Option<Duration>,
}

impl Stalls {
    /// Returns the stalls of the machine. If only control groups are selected, those of the groups:
    /// others may be short of memory all the time, by a limit of their own.
    pub fn of(wanted: &Wanted, tools: &Tools) -> Self {
        let Wanted { pids, names, users, cgroups } = wanted;
        let only_groups = pids.is_empty() && names.is_empty() && users.is_empty();
        let groups = cgroups.iter().filter(|_| only_groups);
        let groups: Vec<_> = groups.map(|group| select::folder(&tools.root, group)).collect();
        let of_groups = groups.iter().map(|folder| folder.join("memory.pressure"));
        let of_machine = groups.is_empty().then(|| tools.root.join("proc/pressure/memory"));
        let total = |path| Total { path, file: Kept::default(), last: None };
        let counters = groups.iter().map(|folder| folder.join("memory.stat"));
        let counters = counters.chain([tools.root.join("proc/vmstat")]);
        Self {
            totals: of_groups.chain(of_machine).map(total).collect(),
            counters: counters.map(|path| (path, Kept::default())).collect(),
            counts: Counts::default(),
            sum: Duration::ZERO,
        }
    }

    /// Returns the sum in nanoseconds; `None` where no file reports it. Time in which the kernel
    /// only compacted memory is left out. Cost: a file, or one for each group, and as many again.
    pub fn look(&mut self, tools: &mut Tools) -> Option<u64> {
        let longest = self.totals.iter_mut().filter_map(|total| total.grown(tools)).max()?;
        let before = std::mem::take(&mut self.counts);
        for (path, file) in &mut self.counters {
            if let Ok(bytes) = file.read(|| path.clone(), &tools.shelf, &mut tools.buffer) {
                self.counts = self.counts.with(&String::from_utf8_lossy(bytes));
            }
        }
        if !self.counts.tell_of_pieces_only(before) {
            self.sum += longest;
        }
        u64::try_from(self.sum.as_nanos()).ok()
    }
}

impl Total {
    /// Returns the growth since the last sample, zero at the first one; `None` if the file cannot
    /// be read.
    fn grown(&mut self, tools: &mut Tools) -> Option<Duration> {
        let path = || self.path.clone();
        let text = self.file.read(path, &tools.shelf, &mut tools.buffer);
        let now = text
            .ok()
            .and_then(|bytes| pressure::stalled(&String::from_utf8_lossy(bytes), &self.path).ok());
        if now.is_none() {
            self.file = Kept::default(); // a group that was removed may come again
        }
        let before = std::mem::replace(&mut self.last, now);
        now.map(|now| now.saturating_sub(before.unwrap_or(now)))
    }
}
