//! A busy loop on each CPU. The loops are threads of this process, so they always end with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{hint, thread};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Busy loops; they end when this is dropped.
pub struct CpuLoad {
    ended: Arc<AtomicBool>,
}

impl CpuLoad {
    /// Starts to keep each usable CPU busy.
    pub fn start() -> Result<CpuLoad> {
        let ours = sched_getaffinity(None).context("cannot ask which CPUs we may use")?;
        let load = CpuLoad { ended: Arc::default() };
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| ours.is_set(*cpu)) {
            let ended = Arc::clone(&load.ended);
            thread::Builder::new()
                .name(format!("load-{cpu}"))
                .spawn(move || spin(cpu, &ended))
                .context("cannot start a thread for the load")?;
        }
        Ok(load)
    }
}

impl Drop for CpuLoad {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn spin(cpu: usize, ended: &AtomicBool) {
    let mut only = CpuSet::new();
    only.set(cpu);
    // Fails if the CPU has gone offline meanwhile; the loop then runs elsewhere.
    let _ = sched_setaffinity(None, &only);
    while !ended.load(Ordering::Relaxed) {
        hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};
    use std::{fs, thread};

    use super::*;

    /// Returns the CPUs of the load's threads, as the kernel reports them.
    fn busy() -> Vec<String> {
        let tasks = fs::read_dir("/proc/self/task").expect("our threads");
        let of_load = tasks.filter_map(|task| {
            let task = task.ok()?.path();
            let name = fs::read_to_string(task.join("comm")).ok()?;
            let status = fs::read_to_string(task.join("status")).ok()?;
            let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            (name.trim_end() == format!("load-{}", cpus.trim())).then(|| cpus.trim().to_owned())
        });
        let mut cpus: Vec<String> = of_load.collect();
        cpus.sort();
        cpus
    }

    fn wait_for(what: &[String]) {
        let start = Instant::now();
        while busy() != what {
            assert!(start.elapsed() < Duration::from_secs(120), "{:?}, not {what:?}", busy());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Goal: there is one loop on each usable CPU, bound to it, and none after the end.
    #[test]
    fn each_cpu_has_its_loop_until_the_end() {
        let ours = sched_getaffinity(None).expect("affinity");
        let all = (0..CpuSet::MAX_CPU).filter(|cpu| ours.is_set(*cpu));
        let mut all: Vec<String> = all.map(|cpu| cpu.to_string()).collect();
        all.sort();
        let load = CpuLoad::start().expect("a load");
        wait_for(&all);
        drop(load);
        wait_for(&[]);
    }
}
