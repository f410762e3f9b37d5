//! CPUs that run other work, so that lanes stay away from them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use nodeward_linux::procfs::cpu_time::{self, CpuTime};
use nodeward_model::{CpuId, Cpumask};
use nodeward_policy::workers;

use crate::sync::lock;

/// Measures CPU use between jobs, so that the lanes' own work is not counted.
#[derive(Default)]
pub struct BusyCpus(Mutex<BusySample>);

#[derive(Default)]
struct BusySample {
    baseline: BTreeMap<CpuId, CpuTime>,
    busy: Cpumask,
}

impl BusyCpus {
    /// Returns the CPUs that were busy since the last job. A CPU whose interval is still too short
    /// to judge keeps its previous answer.
    pub fn mask(&self) -> Cpumask {
        let mut watched = lock(&self.0);
        let now = cpu_time::read(Path::new("/")).unwrap_or_default();
        for (cpu, time) in &now {
            let since = watched.baseline.get(cpu).copied().unwrap_or_default();
            let busy = time.busy_ticks.saturating_sub(since.busy_ticks);
            let idle = time.idle_ticks.saturating_sub(since.idle_ticks);
            match workers::is_busy(busy, idle) {
                Some(true) => watched.busy.insert(*cpu),
                Some(false) => watched.busy.remove(*cpu),
                None => continue,
            };
        }
        watched.busy.clone()
    }

    /// Starts a new interval. Called after each job.
    pub fn restart(&self) {
        lock(&self.0).baseline = cpu_time::read(Path::new("/")).unwrap_or_default();
    }
}
