//! The kernel's counters: moved pages, hint faults, CPU time.

use std::fs;

use nodeward_linux::load;
use nodeward_linux::procfs::stat;
use nodeward_model::Pid;
use nodeward_runner::{RunOverhead, vmstat};

/// The counters, and their zero points: for pages the start of the balancer, for time the start of
/// the run.
pub struct OverheadMeter {
    balancer_name: String,
    tasks: Vec<u32>,
    baseline: RunOverhead,
}

impl OverheadMeter {
    /// Starts counting. `process` is the name of the balancer's processes, `tasks` are the others.
    pub fn start(process: &str, tasks: Vec<u32>) -> Self {
        let process = process.to_owned();
        let mut meter = Self { balancer_name: process, tasks, baseline: RunOverhead::default() };
        meter.baseline = meter.total();
        meter
    }

    /// Starts the run: time counts from now on. Pages that moved before still count.
    pub fn reset_times(&mut self) {
        let RunOverhead { balancer_us, system_us, user_us, .. } = self.total();
        self.baseline = RunOverhead { balancer_us, system_us, user_us, ..self.baseline };
    }

    /// Returns the counts since then.
    pub fn read(&self) -> RunOverhead {
        let (now, zero) = (self.total(), self.baseline);
        let since = |value: fn(&RunOverhead) -> u64| value(&now).saturating_sub(value(&zero));
        RunOverhead {
            migrated: since(|overhead| overhead.migrated),
            numa_migrated: since(|overhead| overhead.numa_migrated),
            hint_faults: since(|overhead| overhead.hint_faults),
            balancer_us: since(|overhead| overhead.balancer_us),
            system_us: since(|overhead| overhead.system_us),
            user_us: since(|overhead| overhead.user_us),
        }
    }

    fn total(&self) -> RunOverhead {
        let counts = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let counter = |name| vmstat::counter(&counts, name).unwrap_or(0);
        let (user_us, system_us) = self.tasks_us();
        RunOverhead {
            migrated: counter("pgmigrate_success"),
            numa_migrated: counter("numa_pages_migrated"),
            hint_faults: counter("numa_hint_faults"),
            balancer_us: pids_named(&self.balancer_name).map(load::cpu_time_ns).sum::<u64>() / 1000,
            system_us,
            user_us,
        }
    }

    /// Returns user and system time of the tasks that live, and of those that were reaped.
    fn tasks_us(&self) -> (u64, u64) {
        let own = fs::read("/proc/self/stat").unwrap_or_default();
        let ended = stat::parse_children_cpu_times(&own).unwrap_or_default();
        let living = self
            .tasks
            .iter()
            .filter_map(|pid| stat::parse_cpu_times(&fs::read(format!("/proc/{pid}/stat")).ok()?));
        let us_per_tick = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
        living.fold((ended.0 * us_per_tick, ended.1 * us_per_tick), |sum, (user, system)| {
            (sum.0 + user * us_per_tick, sum.1 + system * us_per_tick)
        })
    }
}

/// Returns the processes with a name; none if it is empty.
fn pids_named(name: &str) -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<Pid>().ok());
    pids.filter(move |pid| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
        !name.is_empty() && comm.is_ok_and(|comm| comm.trim_end() == name)
    })
}

#[cfg(test)]
mod tests {
    use nodeward_linux::test_wait::TestDeadline;

    use super::*;

    /// Goal: when the run begins time counts from zero, and pages that moved before still count.
    #[test]
    fn a_lead_costs_no_time_but_its_pages() {
        let mut meter = OverheadMeter::start("", vec![std::process::id()]);
        meter.baseline = RunOverhead { user_us: 0, system_us: 0, migrated: 0, ..meter.baseline };
        let before = meter.total();
        meter.reset_times();
        assert_eq!(meter.baseline.migrated, 0);
        assert!(
            meter.baseline.user_us >= before.user_us
                && meter.baseline.system_us >= before.system_us
        );
    }

    /// Goal: the work of a task and of a balancer is attributed to each, including that of threads
    /// which ended. (This process is both.)
    #[test]
    fn cpu_time_is_counted() {
        // A name that no other process has: the time of one that ends is not visible any more.
        let comm = format!("gauge-{}", std::process::id());
        fs::write("/proc/self/comm", &comm).unwrap();
        let meter = OverheadMeter::start(&comm, vec![std::process::id()]);
        let busy = TestDeadline::start();
        while meter.read().user_us == 0 || meter.read().balancer_us < 10_000 {
            busy.check("this process has worked");
        }
        let before_us = meter.read().balancer_us;
        let burn_20_ms = || {
            use rustix::time::{ClockId, clock_gettime};
            while clock_gettime(ClockId::ThreadCPUTime).tv_nsec < 20_000_000 {}
        };
        std::thread::spawn(burn_20_ms).join().unwrap();
        assert!(meter.read().balancer_us >= before_us + 20_000, "{:?}", meter.read());
        assert_eq!(OverheadMeter::start("", Vec::new()).read().balancer_us, 0);
    }
}
