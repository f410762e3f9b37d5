//! Translations cached by CPUs (TLB), and their invalidation.
//!
//! With interrupts, the CPU that changes a page table interrupts each CPU that runs a thread of the
//! process, and continues when the slowest has answered. CPUs that only may have translations left
//! from an earlier thread of the process are not interrupted: they flush when they return to it
//! (Linux since 4.20). A broadcast (arm64) reaches all CPUs whatever they run, and interrupts none.

use nodeward_scenario::Bug;

use crate::events::NEVER_NS;
use crate::hardware::CpuIndexSet;
use crate::ids::SpaceId;
use crate::world::World;

/// `shootdown = "broadcast"`.
const BROADCAST: u64 = 1;

impl World {
    /// Makes CPUs flush translations of a number of entries of a space. Returns the time that takes
    /// on this CPU (ns). For more than one entry they flush all of the space, as Linux's batches
    /// do.
    pub(crate) fn shoot_down_tlb(&mut self, cpu: usize, space: SpaceId, entries: u64) -> u64 {
        if entries == 0 || self.fault_model.has_bug(Bug::SkipFlush, self.now_ns) {
            return 0;
        }
        self.counters.flushes += 1;
        let params = &self.machine.params;
        if params.shootdown == BROADCAST {
            let told_ns = entries.saturating_mul(params.broadcast_ns);
            let ns = told_ns.min(NEVER_NS) + params.broadcast_wait_ns;
            let until_ns = self.now_ns + ns;
            self.fault_model.contents.record_flush(space, self.now_ns, |_| Some(until_ns));
            return ns;
        }
        let targets = self.flush_targets(cpu, space);
        if entries > 1 {
            self.cpus[cpu].mark_tlb_flushed(space);
            targets.iter().for_each(|target| self.cpus[target].mark_tlb_flushed(space));
        }
        let ns = self.send_flush_ipis(cpu, &targets);
        self.record_ipi_flushes(space, &targets);
        ns
    }

    /// Records when each interrupted CPU flushes: when it begins to answer.
    fn record_ipi_flushes(&mut self, space: SpaceId, targets: &CpuIndexSet) {
        let victim_ns = self.machine.params.ipi_victim_ns;
        let until_ns = |cpu: usize| self.pending_ipis.answered_ns[cpu] - victim_ns;
        let until: Vec<_> = targets.iter().map(|cpu| (cpu, until_ns(cpu))).collect();
        let of = |cpu| until.binary_search_by_key(&cpu, |&(cpu, _)| cpu).ok().map(|at| until[at].1);
        self.fault_model.contents.record_flush(space, self.now_ns, of);
    }

    /// Returns the extra time of a copy after a flush, in nanoseconds. The barrier of a broadcast
    /// waits for all outstanding accesses, and prefetching restarts after it.
    pub(crate) fn barrier_drain_ns(&self) -> u64 {
        let params = &self.machine.params;
        if params.shootdown == BROADCAST { params.broadcast_drain_ns } else { 0 }
    }

    /// Returns the other CPUs that run the space's threads. All the remaining ones flush its
    /// translations later.
    fn flush_targets(&mut self, cpu: usize, space: SpaceId) -> CpuIndexSet {
        let mut targets = CpuIndexSet::default();
        for process in self.mappers(space) {
            let of_process = self.flush_targets_of(cpu, process, space);
            of_process.iter().for_each(|target| targets.insert(target));
        }
        targets
    }

    /// Returns the CPUs that run a process's threads, to flush translations of a space that it
    /// maps.
    fn flush_targets_of(&mut self, cpu: usize, process: SpaceId, space: SpaceId) -> CpuIndexSet {
        let runs = |cpu: usize| {
            let task = self.cpus[cpu].running.map(|task| &self.tasks[task as usize]);
            task.is_some_and(|task| task.space == Some(process))
        };
        let known = &self.spaces[process].tlb_cpus;
        let run = CpuIndexSet::of(known.iter().filter(|&known| runs(known)));
        let targets = CpuIndexSet::of(run.iter().filter(|&target| target != cpu));
        let known = std::mem::replace(&mut self.spaces[process].tlb_cpus, run);
        let version = &mut self.spaces[process].tlb_cpus_version;
        *version = version.wrapping_add(1);
        for left in known.iter().filter(|&left| left != cpu && !targets.contains(left)) {
            self.cpus[left].mark_tlb_flushed(space);
        }
        targets
    }

    /// Interrupts CPUs so that they flush. Returns the time until the slowest has answered, in
    /// nanoseconds.
    fn send_flush_ipis(&mut self, cpu: usize, targets: &CpuIndexSet) -> u64 {
        let params = &self.machine.params;
        let (mut ns, victim_ns) = (params.ipi_send_ns, params.ipi_victim_ns);
        let (target_ns, remote_ns) = (params.ipi_target_ns, params.ipi_remote_ns);
        let own_node = self.layout.node_of(cpu);
        let (mut others, mut slowest_ns, mut count) = (CpuIndexSet::default(), 0, 0);
        for target in targets.iter() {
            let node = self.layout.node_of(target);
            if node != own_node && !others.contains(node) {
                others.insert(node);
                ns += remote_ns;
            }
            let late_ns = self.fault_model.ipi_delay_ns(self.now_ns, &mut self.counters);
            let answers = &mut self.pending_ipis;
            slowest_ns = answers.enqueue(target, self.now_ns, victim_ns, late_ns).max(slowest_ns);
            self.charge_interrupt(target, victim_ns);
            count += 1;
        }
        self.counters.flush_ipis += count;
        if count == 0 { 0 } else { ns + count * target_ns + slowest_ns }
    }
}
