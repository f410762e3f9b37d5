//! Cooperation with the kernel's NUMA balancing: before each decision the balancer looks what the
//! kernel does with the processes that may be moved. What it moves is left alone, and what it
//! decided stands.

use std::collections::BTreeMap;

use nodeward_machine::{Error, Machine};
use nodeward_model::NumaActivity;
use nodeward_policy::kernel_moves::PAGES_MAX;
use nodeward_policy::placement::Home;

use super::Balancer;
use super::cpu_budget::Activity;
use super::kernel_look::KernelLook;
use super::pending::pages_away;
use super::process_key::ProcessKey;
use super::process_table::ProcessState;

/// Threads of a process that are looked at, the busiest first. What has more of them is mostly
/// wider than a node, and its pages are the kernel's.
const THREADS_MAX: usize = 64;
/// Threads that are looked at in a round. Each is a file of some 10 us: 2.6 ms of a round.
const FILES_MAX: usize = 256;

impl Balancer {
    /// Looks what the kernel does with the processes that this round may move, those first that
    /// were not looked at for longest.
    pub(super) fn look_at_kernel(&mut self, machine: &dyn Machine) {
        if !self.cooperates() {
            self.processes.iter_mut().for_each(|(_, it)| it.kernel = KernelLook::default());
            return;
        }
        let now_ns = machine.now_ns();
        let mut files = FILES_MAX;
        for key in self.due_looks() {
            let Some(process) = self.processes.get_mut(key) else { continue };
            let tids = process.busiest_threads(THREADS_MAX.min(files));
            files -= tids.len();
            match tids.is_empty() {
                true => process.kernel.put_off(),
                false => process.see_kernel(now_ns, read(machine, key, &tids).as_ref()),
            }
        }
        let took_ns = self.meter.lap(machine, Activity::Looking);
        self.budget.spend(took_ns);
    }

    fn due_looks(&self) -> Vec<ProcessKey> {
        let may_move = self.processes.iter().filter(|(_, process)| self.may_move(process));
        let mut due: Vec<_> = may_move.map(|(key, it)| (it.kernel.at_ns(), key)).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, key)| key).collect()
    }

    /// Returns whether the next decision may move anything of a process. It may if the process has
    /// a home and not all of it is there, or if the process may get a home.
    fn may_move(&self, process: &ProcessState) -> bool {
        let is_free = self.excluded.of(process).is_none() || process.kernel.is_hands_off();
        let is_decided = self.is_undecided(process).is_none();
        match self.homes.home(process.entity) {
            _ if !is_free || !is_decided => false,
            None => self.is_old_enough(process),
            Some(home) => self.is_away(process, home),
        }
    }

    /// Returns whether a process has run long enough to get a home. Its load is judged with the
    /// rest.
    fn is_old_enough(&self, process: &ProcessState) -> bool {
        let ran_ns = process.seen.as_ref().map(|seen| seen.cpu_time_ns);
        ran_ns.is_some_and(|ran_ns| ran_ns >= self.settings.rules.run_ns_min)
    }

    fn is_away(&self, process: &ProcessState, home: &Home) -> bool {
        let sample = process.sample.as_ref();
        let pages = sample.map_or(0, |sample| pages_away(&sample.pages, home));
        let homes = home.thread_nodes();
        let is_out = |cpu| self.nodes.node_of(cpu).is_some_and(|node| !homes.contains(node));
        pages > PAGES_MAX || process.threads().any(|(thread, _)| is_out(thread.cpu))
    }
}

/// Reads what the kernel's balancing did for threads of a process. Threads that ended are left out;
/// `None` if the kernel does not tell.
fn read(
    machine: &dyn Machine,
    (pid, started_ticks): ProcessKey,
    tids: &[u32],
) -> Option<BTreeMap<u32, NumaActivity>> {
    let process = machine.open_process(pid).ok()?;
    let is_it = process.identity().ok()?.started_ticks == started_ticks;
    let activity = |&tid: &u32| match process.numa_activity(tid) {
        Ok(Some(activity)) => Some(Some((tid, activity))),
        Err(Error::Gone(_)) => Some(None),
        Ok(None) | Err(_) => None,
    };
    let all: Option<Vec<_>> = tids.iter().map(activity).collect();
    Some(all.filter(|_| is_it)?.into_iter().flatten().collect())
}
