//! The free lists of all CPUs: some for each CPU and each zone, created at their first use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nodeward_model::CpuId;
use nodeward_policy::pcp::{Limits, Tuning};

use super::list::List;
use crate::sys::{Guard, TryLock};

/// Lists per CPU and zone. The first one is tuned. If the scheduler preempts a thread that holds
/// it, other threads on the CPU use the next one for some milliseconds; its length never exceeds
/// the default. Without the second list they went to the zone for every single run.
const LISTS: usize = 2;

/// All lists of a pool.
pub struct CpuLists {
    /// Ordered by CPU, then by zone, then by number (0 to [`LISTS`] - 1).
    lists: Vec<OnceLock<Box<CpuList>>>,
    /// Indexed by zone.
    limits: Vec<Limits>,
    tuning: Tuning,
}

/// A list, and its number of pages, readable without its lock.
struct CpuList {
    list: TryLock<List>,
    pages: AtomicU32,
}

impl CpuList {
    /// Runs `work` on the list and publishes the list's number of pages.
    fn change<R>(&self, mut list: Guard<'_, List>, work: impl FnOnce(&mut List) -> R) -> R {
        let result = work(&mut list);
        self.pages.store(list.pages(), Ordering::Relaxed);
        result
    }
}

impl CpuLists {
    /// Lists for `cpus` CPUs and one zone for each of `limits`.
    pub fn new(cpus: usize, limits: Vec<Limits>, tuning: Tuning) -> Self {
        let lists = (0..cpus * limits.len() * LISTS).map(|_| OnceLock::new()).collect();
        Self { lists, limits, tuning }
    }

    /// Runs `work` on the first list of a CPU that is not locked; returns `None` if all are.
    pub fn with<R>(&self, cpu: usize, zone: usize, work: impl FnOnce(&mut List) -> R) -> Option<R> {
        let free_one = |which| {
            let cpu_list = self.list(cpu, zone, which);
            Some((cpu_list, cpu_list.list.try_lock()?))
        };
        let (cpu_list, list) = (0..LISTS).find_map(free_one)?;
        Some(cpu_list.change(list, work))
    }

    /// Runs `work` on each list of a zone that was ever used and is not locked now.
    pub fn each(&self, zone: usize, mut work: impl FnMut(CpuId, &mut List)) {
        for (cpu, cpu_list) in self.of_zone(zone) {
            if let Some(list) = cpu_list.list.try_lock() {
                cpu_list.change(list, |list| work(cpu, list));
            }
        }
    }

    /// Runs `work` on each list of a zone that was ever used. Waits for locked ones.
    pub fn all(&self, zone: usize, mut work: impl FnMut(&mut List)) {
        for (_, cpu_list) in self.of_zone(zone) {
            cpu_list.change(cpu_list.list.lock(), &mut work);
        }
    }

    /// Reads each list of a zone that was ever used. Waits for locked ones.
    pub fn look_at_each(&self, zone: usize, mut look: impl FnMut(CpuId, &List)) {
        self.of_zone(zone).for_each(|(cpu, cpu_list)| look(cpu, &cpu_list.list.lock()));
    }

    /// Returns the number of base pages in all lists of a zone.
    pub fn pages(&self, zone: usize) -> usize {
        self.of_zone(zone).map(|(_, list)| list.pages.load(Ordering::Relaxed) as usize).sum()
    }

    fn of_zone(&self, zone: usize) -> impl Iterator<Item = (CpuId, &CpuList)> {
        let of_cpu = LISTS * self.limits.len();
        let lists = self.lists.iter().enumerate();
        let of_zone = lists.filter(move |(index, _)| index % of_cpu / LISTS == zone);
        of_zone
            .filter_map(move |(index, list)| Some((CpuId((index / of_cpu) as u32), &**list.get()?)))
    }

    /// Returns a list. CPUs that were added after the pool was made share the lists of others.
    fn list(&self, cpu: usize, zone: usize, which: usize) -> &CpuList {
        let index = ((cpu * self.limits.len() + zone) * LISTS + which) % self.lists.len();
        self.lists[index].get_or_init(|| {
            let limits = self.limits[zone];
            let high_max = if which == 0 { limits.high_max } else { limits.high_default };
            let limits = Limits { high_max, ..limits };
            let list = List::new(self.tuning.tuner(&limits), limits);
            Box::new(CpuList { list: TryLock::new(list), pages: AtomicU32::new(0) })
        })
    }
}
