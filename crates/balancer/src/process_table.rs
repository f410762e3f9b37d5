//! The process table: one record for each process, with a number that is never used again.
//!
//! A record holds the last snapshot of the process, its last residency sample, and what the
//! balancer remembers of it between rounds. `snapshot` makes the policy's input from it,
//! `round_report` its row of the report.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_model::{
    CpuId, MachineSnapshot, MemoryPolicies, NodeId, NumaActivity, ProcessSnapshot, Range,
    ThreadSnapshot,
};
use nodeward_policy::placement::EntityId;

use super::group_part::{GroupPart, KnownTraits};
use super::kernel_look::KernelLook;
use super::mapped_segments::MappedSegment;
use super::pins::Pins;
use super::process_key::ProcessKey;
use super::reported_decision::ReportedDecision;
use super::residency_sample::{ResidencySample, Sampling};
use super::saved_state::SavedProcess;
use super::stuck_pages::StuckPages;
use super::thread_homes::ThreadHomes;
use super::thread_load::{ThreadLoad, Window};
use super::token_bucket::TokenBucket;

/// The record of a process.
#[derive(Default)]
pub struct ProcessState {
    /// The number of the process.
    pub entity: EntityId,
    /// The process in the last snapshot; `None` for a process that an earlier balancer knew, until
    /// the first snapshot.
    pub seen: Option<ProcessSnapshot>,
    /// The loads of its threads, in the order of the threads in `seen`.
    loads: Vec<ThreadLoad>,
    /// The last sample of the process's residency.
    pub sample: Option<ResidencySample>,
    /// The time at which the residency is to be sampled again.
    pub sampling: Sampling,
    /// The process's memory is being moved. It is sampled when the move has ended.
    pub is_moving: bool,
    /// The segments that it maps, alone or with others; `None` if that was not read yet.
    pub mapped: Option<Vec<MappedSegment>>,
    /// Pages that could not be moved.
    pub stuck: StuckPages,
    /// The rest of the process's own budget in this interval.
    pub bucket: TokenBucket,
    /// The nodes of its threads, while its pages are placed one by one.
    pub thread_homes: ThreadHomes,
    /// The actions of the kernel's NUMA balancing on the process.
    pub kernel: KernelLook,
    /// The process's pinned threads, with their affinity before.
    pub pins: Pins,
    /// The reason for which we may not act on the process.
    pub denied: Option<String>,
    /// An operation on the process failed before, and a notice was given.
    pub has_failed: bool,
    /// Whether the notice that no source observes it was given.
    pub told_no_source: bool,
    /// The parts of the process that belong to groups.
    pub parts: Vec<GroupPart>,
    /// The facts that patterns of groups test, as they were read last.
    pub traits: Option<KnownTraits>,
    /// The decision that was reported last.
    pub told: ReportedDecision,
}

/// The processes by key.
#[derive(Default)]
pub struct ProcessTable {
    next: u64,
    processes: BTreeMap<ProcessKey, ProcessState>,
    keys: BTreeMap<EntityId, ProcessKey>,
    at_ns: Option<u64>,
    /// Start of the period over which loads are measured.
    loads_since_ns: Option<u64>,
}

impl ProcessTable {
    /// Creates an empty table; the first process gets this number.
    pub fn starting_at(next: u64) -> Self {
        Self { next, ..Self::default() }
    }

    /// Restores the numbers that an earlier balancer gave.
    pub fn recall(&mut self, saved: &[SavedProcess]) {
        for one in saved {
            let pins = Pins::recall(&one.pins);
            let part = |&(group, entity): &(EntityId, EntityId)| GroupPart {
                entity,
                group,
                ..GroupPart::default()
            };
            let parts = one.parts.iter().map(part).collect();
            let process =
                ProcessState { entity: one.entity, pins, parts, ..ProcessState::default() };
            let last = process.numbers().into_iter().max().unwrap_or_default();
            self.next = self.next.max(last.0.saturating_add(1));
            self.processes.insert((one.pid, one.started_ticks), process);
        }
    }

    /// Returns the number that the next process gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Enters a snapshot. Returns the time since the one before in nanoseconds (`None` at the
    /// first), and the processes that are gone. Loads are measured over `load_ns_min` at least,
    /// because over a short time a thread that runs in turns has none or all of a CPU.
    pub fn see(
        &mut self,
        machine_snapshot: MachineSnapshot,
        load_ns_min: u64,
    ) -> (Option<u64>, Vec<EntityId>) {
        let since =
            |at_ns: Option<u64>| at_ns.map(|at_ns| machine_snapshot.at_ns.saturating_sub(at_ns));
        let elapsed_ns = since(self.at_ns);
        self.at_ns = Some(machine_snapshot.at_ns);
        let is_back = self.loads_since_ns > Some(machine_snapshot.at_ns);
        let window = match since(self.loads_since_ns) {
            Some(ns) if ns < load_ns_min && !is_back => Window::TooShort,
            counted_ns => Window::Since(counted_ns),
        };
        if window != Window::TooShort {
            self.loads_since_ns = Some(machine_snapshot.at_ns);
        }
        let mut earlier = std::mem::take(&mut self.processes);
        for process in machine_snapshot.processes {
            let key = (process.pid, process.started_ticks);
            let mut state = earlier.remove(&key).unwrap_or_else(|| {
                let entity = self.new_number();
                ProcessState { entity, ..ProcessState::default() }
            });
            state.see(process, window);
            state.stuck.pass(elapsed_ns.unwrap_or(0));
            state.parts.iter_mut().for_each(|part| part.stuck.pass(elapsed_ns.unwrap_or(0)));
            self.processes.insert(key, state);
        }
        self.enter_numbers();
        (elapsed_ns, earlier.into_values().flat_map(|state| state.numbers()).collect())
    }

    /// Enters that the machine was idle until now: what threads run from the last snapshot to the
    /// next one, they run from now on.
    pub fn rested_until(&mut self, at_ns: u64) {
        self.loads_since_ns = self.loads_since_ns.map(|_| at_ns);
    }

    /// Returns a number that was never given.
    pub fn new_number(&mut self) -> EntityId {
        self.next += 1;
        EntityId(self.next - 1)
    }

    /// Enters what of each process belongs to groups; a part of the same group keeps its number.
    /// Returns the parts that are no more.
    pub fn set_parts(&mut self, parts: Vec<(ProcessKey, Vec<GroupPart>)>) -> Vec<EntityId> {
        let mut gone = Vec::new();
        for (key, parts) in parts {
            let Some(mut process) = self.processes.remove(&key) else { continue };
            let mut earlier = std::mem::take(&mut process.parts);
            let changed = earlier.len() != parts.len()
                || earlier.iter().zip(&parts).any(|(a, b)| !a.has_same_memory(b));
            for mut part in parts {
                let same = earlier.iter().position(|it| it.group == part.group);
                let known = same.map(|at| earlier.swap_remove(at));
                (part.entity, part.stuck) = match known {
                    Some(known) => (known.entity, known.stuck),
                    None => (self.new_number(), StuckPages::default()),
                };
                process.parts.push(part);
            }
            process.sampling.is_due |= changed && process.sample.is_some();
            gone.extend(earlier.into_iter().map(|part| part.entity));
            self.processes.insert(key, process);
        }
        self.enter_numbers();
        gone
    }

    fn enter_numbers(&mut self) {
        let numbers = |(&key, state): (&ProcessKey, &ProcessState)| {
            state.numbers().into_iter().map(move |number| (number, key))
        };
        self.keys = self.processes.iter().flat_map(numbers).collect();
    }

    /// Returns every process, in ascending order of pids.
    pub fn iter(&self) -> impl Iterator<Item = (ProcessKey, &ProcessState)> {
        self.processes.iter().map(|(&key, state)| (key, state))
    }

    /// Returns every process, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ProcessKey, &mut ProcessState)> {
        self.processes.iter_mut().map(|(&key, state)| (key, state))
    }

    /// Returns the process with this key.
    pub fn get(&self, key: ProcessKey) -> Option<&ProcessState> {
        self.processes.get(&key)
    }

    /// Returns the process with this key, to be changed.
    pub fn get_mut(&mut self, key: ProcessKey) -> Option<&mut ProcessState> {
        self.processes.get_mut(&key)
    }

    /// Returns the key of the process that had a number at the last snapshot.
    pub fn key(&self, entity: EntityId) -> Option<ProcessKey> {
        self.keys.get(&entity).copied()
    }

    /// Returns the process that had this number, or a part of it, at the last snapshot.
    pub fn by_number(&mut self, entity: EntityId) -> Option<&mut ProcessState> {
        self.processes.get_mut(self.keys.get(&entity)?)
    }

    /// Returns the number of threads of all processes.
    pub fn threads(&self) -> u64 {
        let threads = |state: &ProcessState| state.seen.as_ref().map_or(0, |it| it.threads.len());
        self.processes.values().map(threads).sum::<usize>() as u64
    }
}

impl ProcessState {
    /// Returns the process's threads with their loads.
    pub fn threads(&self) -> impl Iterator<Item = (&ThreadSnapshot, &ThreadLoad)> {
        self.seen.iter().flat_map(|seen| &seen.threads).zip(&self.loads)
    }

    /// Returns the number of threads.
    pub fn thread_count(&self) -> u64 {
        self.loads.len() as u64
    }

    /// Returns the load of all threads together, in millionths of a CPU.
    pub fn load_ppm(&self) -> u64 {
        self.loads.iter().map(|load| u64::from(load.load_ppm)).sum()
    }

    /// Returns the CPU time that its threads had or waited for, in millionths of a CPU.
    pub fn wanted_ppm(&self) -> u64 {
        self.loads.iter().map(ThreadLoad::wanted_ppm).sum()
    }

    /// Returns the threads that want most CPU time, `most` of them at most.
    pub fn busiest_threads(&self, most: usize) -> Vec<u32> {
        let key = |(thread, load): (&ThreadSnapshot, &ThreadLoad)| {
            (Reverse(load.wanted_ppm()), thread.tid)
        };
        let mut threads: Vec<_> = self.threads().map(key).collect();
        threads.sort_unstable();
        threads.into_iter().take(most).map(|(_, tid)| tid).collect()
    }

    /// Takes in what the kernel did for threads; `None`: that is not known. When it is done with
    /// the process, nobody knows any more where its memory is.
    pub fn see_kernel(&mut self, now_ns: u64, threads: Option<&BTreeMap<u32, NumaActivity>>) {
        let alive = self.seen.as_ref().map_or(&[][..], |seen| &seen.threads);
        self.kernel.keep(|tid| alive.binary_search_by_key(&tid, |thread| thread.tid).is_ok());
        let was_moved = self.kernel.is_hands_off();
        self.kernel.see(now_ns, threads);
        if was_moved && !self.kernel.is_hands_off() {
            (self.sample, self.sampling) = (None, Sampling::default());
        }
    }

    /// Sets the load of all threads to zero.
    pub fn disregard_load(&mut self) {
        for load in &mut self.loads {
            (load.load_ppm, load.wait_ppm) = (0, 0);
        }
    }

    /// Enters the CPUs on which its threads are now, and changes nothing else.
    pub fn follow(&mut self, cpus: &BTreeMap<u32, CpuId>) {
        for thread in self.seen.iter_mut().flat_map(|seen| &mut seen.threads) {
            if let Some(&cpu) = cpus.get(&thread.tid) {
                thread.cpu = cpu;
            }
        }
    }

    /// Forgets pins that another program changed.
    pub fn forget_pins_of_others(&mut self) {
        if let Some(seen) = &self.seen {
            self.pins.keep(&seen.threads);
        }
    }

    /// Returns the number of the process and those of its parts.
    pub fn numbers(&self) -> Vec<EntityId> {
        let parts = self.parts.iter().map(|part| part.entity);
        std::iter::once(self.entity).chain(parts).collect()
    }

    /// Returns the part that has a number; `None`: what belongs to no group.
    pub fn part(&self, entity: EntityId) -> Option<&GroupPart> {
        self.parts.iter().find(|part| part.entity == entity)
    }

    /// Returns the part that a thread belongs to, if it is in a group.
    pub fn part_of_thread(&self, tid: u32) -> Option<&GroupPart> {
        self.parts.iter().find(|part| part.threads.contains(&tid))
    }

    /// Returns its addresses whose pages are not the balancer's to move, in ascending order: those
    /// that a policy binds, and those that it moves itself.
    pub fn tied_ranges(&self, bound: &MemoryPolicies) -> Vec<Range> {
        let self_moved = self.parts.iter().flat_map(|part| &part.self_moved);
        let mut tied: Vec<Range> = bound.policy_ranges.iter().chain(self_moved).copied().collect();
        tied.sort_by_key(|range| range.start);
        tied
    }

    /// Returns the user other than root to whose group a part of it belongs.
    pub fn user_of(&self, entity: EntityId) -> Option<u32> {
        self.part(entity)?.user
    }

    /// Returns the pages of it, or of a part of it, that could not be moved.
    pub fn stuck_mut(&mut self, entity: EntityId) -> &mut StuckPages {
        let part = self.parts.iter_mut().find(|part| part.entity == entity);
        part.map_or(&mut self.stuck, |part| &mut part.stuck)
    }

    /// Returns the pages of it, or of a part of it, that cannot be moved: bound by a policy, or
    /// refused before.
    pub fn fixed_pages(&self, entity: EntityId) -> BTreeMap<NodeId, u64> {
        let Some(sample) = &self.sample else { return BTreeMap::new() };
        let stuck = self.part(entity).map_or(&self.stuck, |part| &part.stuck);
        let of =
            |pages: &BTreeMap<NodeId, u64>, node: &NodeId| pages.get(node).copied().unwrap_or(0);
        let fixed = |(node, &pages): (&NodeId, &u64)| {
            (*node, pages.min(of(sample.bound_of(entity), node) + of(&stuck.by_node, node)))
        };
        sample.pages_of(entity).iter().map(fixed).filter(|&(_, pages)| pages > 0).collect()
    }

    fn see(&mut self, process: ProcessSnapshot, window: Window) {
        let is_first = self.seen.is_none();
        let mut earlier = std::mem::take(&mut self.loads).into_iter().peekable();
        let load = |thread: &ThreadSnapshot| {
            while earlier.next_if(|load| load.tid < thread.tid).is_some() {}
            let before = earlier.next_if(|load| load.tid == thread.tid);
            ThreadLoad::measure(thread, before, is_first, window)
        };
        self.loads = process.threads.iter().map(load).collect();
        self.seen = Some(process);
    }
}
