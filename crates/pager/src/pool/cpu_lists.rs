//! The free lists of all CPUs: some for each CPU and each zone, created at their first use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nodeward_model::CpuId;
use nodeward_policy::pcp::{ListLimits, TunerKind};

use super::page_list::CpuPageList;
use crate::sys::{TryLock, TryLockGuard};

/// Lists per CPU and zone. The first one is tuned. If the scheduler preempts a thread that holds
/// it, other threads on the CPU use the next one for some milliseconds; its length never exceeds
/// the default. Without the second list they went to the zone for every single run.
const LISTS_PER_ZONE: usize = 2;

/// All lists of a pool.
pub struct CpuLists {
    /// Ordered by CPU, then by zone, then by number (0 to [`LISTS_PER_ZONE`] - 1).
    lists: Vec<OnceLock<Box<CpuList>>>,
    /// Indexed by zone.
    limits: Vec<ListLimits>,
    tuning: TunerKind,
}

/// A list, and its number of pages, readable without its lock.
struct CpuList {
    list: TryLock<CpuPageList>,
    pages: AtomicU32,
}

impl CpuList {
    /// Runs `work` on the list and publishes the list's number of pages.
    fn change<R>(
        &self,
        mut list: TryLockGuard<'_, CpuPageList>,
        work: impl FnOnce(&mut CpuPageList) -> R,
    ) -> R {
        let result = work(&mut list);
        self.pages.store(list.pages(), Ordering::Relaxed);
        result
    }
}

impl CpuLists {
    /// Lists for `cpus` CPUs and one zone for each of `limits`.
    pub fn new(cpus: usize, limits: Vec<ListLimits>, tuning: TunerKind) -> Self {
        let lists = (0..cpus * limits.len() * LISTS_PER_ZONE).map(|_| OnceLock::new()).collect();
        Self { lists, limits, tuning }
    }

    /// Runs `work` on the first list of a CPU that is not locked; returns `None` if all are.
    pub fn with_free_list<R>(
        &self,
        cpu: usize,
        zone: usize,
        work: impl FnOnce(&mut CpuPageList) -> R,
    ) -> Option<R> {
        let free_one = |which| {
            let cpu_list = self.list(cpu, zone, which);
            Some((cpu_list, cpu_list.list.try_lock()?))
        };
        let (cpu_list, list) = (0..LISTS_PER_ZONE).find_map(free_one)?;
        Some(cpu_list.change(list, work))
    }

    /// Runs `work` on each list of a zone that was ever used and is not locked now.
    pub fn for_each_unlocked(&self, zone: usize, mut work: impl FnMut(CpuId, &mut CpuPageList)) {
        for (cpu, cpu_list) in self.of_zone(zone) {
            if let Some(list) = cpu_list.list.try_lock() {
                cpu_list.change(list, |list| work(cpu, list));
            }
        }
    }

    /// Runs `work` on each list of a zone that was ever used. Waits for locked ones.
    pub fn for_each(&self, zone: usize, mut work: impl FnMut(&mut CpuPageList)) {
        for (_, cpu_list) in self.of_zone(zone) {
            cpu_list.change(cpu_list.list.lock(), &mut work);
        }
    }

    /// Reads each list of a zone that was ever used. Waits for locked ones.
    pub fn inspect_each(&self, zone: usize, mut look: impl FnMut(CpuId, &CpuPageList)) {
        self.of_zone(zone).for_each(|(cpu, cpu_list)| look(cpu, &cpu_list.list.lock()));
    }

    /// Returns the number of base pages in all lists of a zone.
    pub fn pages(&self, zone: usize) -> usize {
        self.of_zone(zone).map(|(_, list)| list.pages.load(Ordering::Relaxed) as usize).sum()
    }

    fn of_zone(&self, zone: usize) -> impl Iterator<Item = (CpuId, &CpuList)> {
        let of_cpu = LISTS_PER_ZONE * self.limits.len();
        let lists = self.lists.iter().enumerate();
        let of_zone = lists.filter(move |(index, _)| index % of_cpu / LISTS_PER_ZONE == zone);
        of_zone
            .filter_map(move |(index, list)| Some((CpuId((index / of_cpu) as u32), &**list.get()?)))
    }

    /// Returns a list. CPUs that were added after the pool was made share the lists of others.
    fn list(&self, cpu: usize, zone: usize, which: usize) -> &CpuList {
        let index = ((cpu * self.limits.len() + zone) * LISTS_PER_ZONE + which) % self.lists.len();
        self.lists[index].get_or_init(|| {
            let limits = self.limits[zone];
            let high_max = if which == 0 { limits.high_max } else { limits.high_default };
            let limits = ListLimits { high_max, ..limits };
            let list = CpuPageList::new(self.tuning.tuner(&limits), limits);
            Box::new(CpuList { list: TryLock::new(list), pages: AtomicU32::new(0) })
        })
    }
}
