//! Who had the kernel migrate pages, in a period.

use nodeward_bpf::TimeHistogram;
use nodeward_bpf::migrations::{
    CallerCounts, CountedMigrations, LostEvents, MigrationCaller, MigrationCounts, ThpCounts,
};
use nodeward_linux::migration_counters::MigrationCounters;
use nodeward_model::Name;

use super::observation::WatchEnd;

/// A reason for which pages were migrated. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageMover {
    /// Its name, as the kernel has it; `all` for all reasons together.
    pub reason: String,
    /// Calls of the kernel's migrate_pages().
    pub calls: Option<u64>,
    /// Base pages that moved.
    pub moved_pages: Option<u64>,
    /// Base pages that stayed.
    pub failed_pages: Option<u64>,
    /// Huge pages among them.
    pub thp: Option<ThpCounts>,
    /// Large folios that were split.
    pub large_folio_splits: Option<u64>,
    /// Time in calls.
    pub call_ns: Option<u64>,
    /// Times that other CPUs, all of them at once, were asked to flush their TLBs.
    pub tlb_flushes: Option<u64>,
    /// How long pages were held.
    pub holds: Option<HeldTimes>,
    /// Pages that compaction looked at.
    pub scanned_pages: Option<u64>,
    /// The callers, those of most pages first.
    pub callers: Vec<PageCaller>,
}

/// How long page tables had a migration entry in place of a page, in nanoseconds; no times if
/// there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldTimes {
    /// Number of entries.
    pub entries: u64,
    /// Half of them were not longer.
    pub p50_ns: Option<u64>,
    /// 99 of 100 were not longer.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
}

/// A task that called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCaller {
    /// Pid of its process; 0 is the kernel's idle task.
    pub pid: u32,
    /// Name of the thread.
    pub name: Name,
    /// What it did.
    pub counts: CallerCounts,
}

/// What cannot be told here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTold {
    /// What, why, and what to do.
    pub why: String,
    /// What the kernel's verifier said, if the kernel refused a program.
    pub log: Option<String>,
}

/// What happened in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoverPeriod {
    /// Its length.
    pub time_ns: u64,
    /// The reasons for which anything was done, in the kernel's order.
    pub movers: Vec<PageMover>,
    /// What is missing.
    pub lost: LostEvents,
}

/// A round of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRound {
    /// Its number, from 1.
    pub number: u64,
    /// When it ended.
    pub time_unix_ms: u64,
    /// What happened since the round before.
    pub interval: MoverPeriod,
    /// What happened since the watch began.
    pub total: MoverPeriod,
    /// Why it is the last one.
    pub end: Option<WatchEnd>,
}

impl MoverPeriod {
    /// Returns what programs in the kernel counted.
    pub fn of_programs(time_ns: u64, counted: &CountedMigrations) -> Self {
        let movers = counted.reasons.iter().map(PageMover::of_reason);
        Self {
            time_ns,
            movers: movers.filter(PageMover::did_anything).collect(),
            lost: counted.lost,
        }
    }

    /// Returns what /proc/vmstat counted.
    pub fn of_counters(time_ns: u64, counters: &MigrationCounters) -> Self {
        let thp = |succeeded, failed, split| {
            Some(ThpCounts { succeeded: succeeded?, failed: failed?, split: split? })
        };
        let named = |reason: &str| PageMover { reason: reason.to_owned(), ..PageMover::default() };
        let movers = [
            PageMover {
                moved_pages: counters.migrated_pages,
                failed_pages: counters.failed_pages,
                thp: thp(counters.thp_migrated, counters.thp_failed, counters.thp_split),
                ..named("all")
            },
            PageMover { scanned_pages: counters.scanned_pages, ..named("compaction") },
            PageMover { moved_pages: counters.balanced_pages, ..named("numa_misplaced") },
            PageMover { moved_pages: counters.demoted_pages, ..named("demotion") },
        ];
        let movers = movers.into_iter().filter(PageMover::did_anything).collect();
        Self { time_ns, movers, lost: LostEvents::default() }
    }
}

impl PageMover {
    fn of_reason(counts: &MigrationCounts) -> Self {
        let mut callers: Vec<_> = counts.callers.iter().map(PageCaller::of).collect();
        callers.sort_by_key(|caller| {
            std::cmp::Reverse((caller.counts.succeeded, caller.counts.calls))
        });
        Self {
            reason: counts.reason.clone(),
            calls: Some(counts.all.calls),
            moved_pages: Some(counts.all.succeeded),
            failed_pages: Some(counts.all.failed),
            thp: counts.thp,
            large_folio_splits: counts.large_folio_splits,
            call_ns: counts.call_ns,
            tlb_flushes: counts.tlb_flushes,
            holds: counts.holds.as_ref().map(HeldTimes::of),
            scanned_pages: None,
            callers,
        }
    }

    fn did_anything(&self) -> bool {
        let counts = [self.calls, self.moved_pages, self.failed_pages, self.scanned_pages];
        let holds = self.holds.as_ref().map(|held| held.entries);
        counts.into_iter().chain([holds]).flatten().any(|count| count > 0)
    }
}

impl HeldTimes {
    fn of(times: &TimeHistogram) -> Self {
        Self {
            entries: times.count(),
            p50_ns: times.percentile_ns(500_000),
            p99_ns: times.percentile_ns(990_000),
            max_ns: times.max_ns(),
        }
    }
}

impl PageCaller {
    fn of((caller, counts): &(MigrationCaller, CallerCounts)) -> Self {
        Self { pid: caller.pid, name: caller.thread_name[..].into(), counts: *counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: of /proc/vmstat only what changed is told; what it does not count is unknown, not
    /// zero.
    #[test]
    fn counters_have_less() {
        let counters = MigrationCounters {
            migrated_pages: Some(30),
            failed_pages: Some(1),
            balanced_pages: Some(0),
            scanned_pages: Some(7),
            ..MigrationCounters::default()
        };
        let period = MoverPeriod::of_counters(5, &counters);
        let [all, compaction] = &period.movers[..] else { panic!("{period:?}") };
        assert_eq!((all.reason.as_str(), all.moved_pages, all.calls), ("all", Some(30), None));
        assert_eq!((all.failed_pages, all.thp), (Some(1), None));
        let compaction = (&*compaction.reason, compaction.moved_pages, compaction.scanned_pages);
        assert_eq!(compaction, ("compaction", None, Some(7)));
    }
}
