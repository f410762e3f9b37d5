//! CPUs that lanes may use, and those that run other work, so that lanes stay away from them.
//!
//! Only jobs of several lanes ask, and files are read at most once in 100 ms: /proc/stat grows with
//! the number of CPUs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nodeward_linux::procfs::cpu_time::{self, CpuTime};
use nodeward_machine::Machine;
use nodeward_model::{CpuId, Cpumask};
use nodeward_policy::workers;

use crate::sync::lock;

/// The shortest time between two reads of the same file.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// The lanes of one pager are no load of others for another one.
static OF_THIS_PROCESS: LazyLock<BusyCpus> = LazyLock::new(BusyCpus::default);

/// Measures CPU use between jobs, so that the work of lanes is not counted.
#[derive(Default)]
pub struct BusyCpus(Mutex<CpuSample>);

/// A job of several lanes under way.
pub struct LaneWork<'a>(&'a BusyCpus);

/// The measurement of this process, which nobody else uses meanwhile: during a fork.
pub struct HeldBusyCpus(MutexGuard<'static, CpuSample>);

impl HeldBusyCpus {
    /// Takes hold of it.
    pub fn hold() -> Self {
        Self(lock(&OF_THIS_PROCESS.0))
    }

    /// Begins anew: the child of a fork has no lanes of its parent.
    pub fn reset(mut self) {
        *self.0 = CpuSample::default();
    }
}

#[derive(Default)]
struct CpuSample {
    usable: Cpumask,
    busy: Cpumask,
    /// Times at the beginning of the interval; none before the first read.
    baseline: BTreeMap<CpuId, CpuTime>,
    read_at: Option<Instant>,
    /// Lanes have worked since the beginning of the interval.
    is_tainted: bool,
    /// Number of jobs under way.
    jobs: u32,
}

impl BusyCpus {
    /// Returns the CPUs that this process may use, and those that were busy since the last job. A
    /// CPU whose interval is still too short to judge keeps its previous answer.
    pub fn usable_and_busy(&self, machine: &impl Machine) -> (Cpumask, Cpumask) {
        let mut sample = lock(&self.0);
        if sample.is_due() {
            sample.usable = machine.usable_cpus().unwrap_or_default();
            sample.read();
        }
        (sample.usable.clone(), sample.busy.clone())
    }

    /// Returns those of all pagers.
    pub fn of_this_process() -> &'static Self {
        &OF_THIS_PROCESS
    }

    /// Begins a job of several lanes. When it has ended, a new interval begins.
    pub fn begin_job(&self) -> LaneWork<'_> {
        let mut sample = lock(&self.0);
        sample.jobs += 1;
        sample.is_tainted = true;
        LaneWork(self)
    }
}

impl Drop for LaneWork<'_> {
    fn drop(&mut self) {
        let mut sample = lock(&self.0.0);
        // In the child of a fork the job is not known.
        sample.jobs = sample.jobs.saturating_sub(1);
        if sample.is_due() {
            sample.restart(read_times());
        }
    }
}

impl CpuSample {
    fn is_due(&self) -> bool {
        self.read_at.is_none_or(|read_at| read_at.elapsed() >= READ_INTERVAL)
    }

    fn read(&mut self) {
        let now = read_times();
        if self.is_tainted {
            return self.restart(now);
        }
        self.judge(&now);
        self.read_at = Some(Instant::now());
    }

    fn restart(&mut self, now: BTreeMap<CpuId, CpuTime>) {
        self.baseline = now;
        self.is_tainted = self.jobs > 0;
        self.read_at = Some(Instant::now());
    }

    fn judge(&mut self, now: &BTreeMap<CpuId, CpuTime>) {
        for (cpu, time) in now {
            let since = self.baseline.get(cpu).copied().unwrap_or_default();
            let busy = time.busy_ticks.saturating_sub(since.busy_ticks);
            let idle = time.idle_ticks.saturating_sub(since.idle_ticks);
            match workers::is_busy(busy, idle) {
                Some(true) => self.busy.insert(*cpu),
                Some(false) => self.busy.remove(*cpu),
                None => continue,
            };
        }
    }
}

fn read_times() -> BTreeMap<CpuId, CpuTime> {
    cpu_time::read(Path::new("/")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(busy_ticks: u64, idle_ticks: u64) -> BTreeMap<CpuId, CpuTime> {
        [(CpuId(0), CpuTime { busy_ticks, idle_ticks })].into()
    }

    /// Goal: a CPU that worked all the time is busy; but not by work of the lanes themselves: then
    /// the interval begins anew, and the previous answer stays.
    #[test]
    fn own_work_does_not_count() {
        let mut sample = CpuSample { baseline: times(0, 0), ..CpuSample::default() };
        sample.judge(&times(100, 0));
        assert!(sample.busy.contains(CpuId(0)));
        sample.judge(&times(100, 1000));
        assert!(!sample.busy.contains(CpuId(0)), "100 of 1100 ticks");
        let busy = BusyCpus(Mutex::new(CpuSample { read_at: Some(Instant::now()), ..sample }));
        drop(busy.begin_job());
        let mut sample = busy.0.into_inner().unwrap();
        assert!(sample.is_tainted && !sample.is_due(), "nothing is read again so soon");
        sample.read();
        assert!(!sample.is_tainted && !sample.busy.contains(CpuId(0)));
    }

    /// Goal: while a job of another pager goes on, nothing is judged: its lanes are no load of
    /// others. When it has ended, what was is judged anew.
    #[test]
    fn jobs_of_other_pagers_do_not_count() {
        let busy = BusyCpus::default();
        let jobs = [busy.begin_job(), busy.begin_job()];
        lock(&busy.0).read();
        assert!(lock(&busy.0).is_tainted, "two jobs go on");
        let [first, second] = jobs;
        drop(first);
        assert!(lock(&busy.0).is_tainted, "one goes on");
        lock(&busy.0).read_at = None;
        drop(second);
        assert!(!lock(&busy.0).is_tainted);
    }
}
