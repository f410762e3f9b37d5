//! The processes that a balancer knows: one record each, with a number that never comes back.
//!
//! A record holds what the last snapshot saw of the process, its sample of residency, and what is
//! remembered of it between rounds. `snapshot` makes the policy's input of it, and `round_report`
//! its row of the report.

use std::collections::BTreeMap;

use nodeward_model::{CpuId, MachineSnapshot, NodeId, Pid, ProcessSnapshot, ThreadSnapshot};
use nodeward_policy::placement::{Decision, EntityId, Home, Reason, Verdict};

use super::pins::Pins;
use super::residency_sample::{ResidencySample, Sampling};
use super::saved_state::SavedProcess;
use super::thread_homes::ThreadHomes;
use super::thread_load::{ThreadLoad, Window};
use super::token_bucket::TokenBucket;

/// What tells a process from every other of this boot: its pid, and when it began.
pub type ProcessKey = (Pid, u64);

/// A process and what is remembered of it.
#[derive(Default)]
pub struct ProcessState {
    /// Its number.
    pub entity: EntityId,
    /// What the last snapshot saw; `None` of a process that an earlier balancer knew, before the
    /// first snapshot.
    pub seen: Option<ProcessSnapshot>,
    /// The loads of its threads, in the order of those in `seen`.
    loads: Vec<ThreadLoad>,
    /// Where its memory was when that was sampled last.
    pub sample: Option<ResidencySample>,
    /// When its memory is to be sampled again.
    pub sampling: Sampling,
    /// Its memory is on its way; it is sampled when it is there.
    pub is_moving: bool,
    /// Pages that refused to move.
    pub stuck: StuckPages,
    /// What of it may still be moved in this interval.
    pub bucket: TokenBucket,
    /// Where its threads belong while its pages are placed one by one.
    pub thread_homes: ThreadHomes,
    /// Threads that we keep somewhere, and where they might run before.
    pub pins: Pins,
    /// Why we may not act on it.
    pub denied: Option<String>,
    /// Something went wrong with it before, and was told.
    pub has_failed: bool,
    /// What was told of it last.
    told: Option<Told>,
}

/// What was decided about a process, to tell whether it changed.
type Told = (Option<Home>, Verdict, [Option<Reason>; 3]);

/// Pages of a process that refused to move.
#[derive(Default)]
pub struct StuckPages {
    /// How many, by node.
    pub by_node: BTreeMap<NodeId, u64>,
    /// How long ago the last of them did, in nanoseconds.
    pub ago_ns: u64,
}

/// The processes by what tells them apart.
#[derive(Default)]
pub struct ProcessTable {
    next: u64,
    processes: BTreeMap<ProcessKey, ProcessState>,
    keys: BTreeMap<EntityId, ProcessKey>,
    at_ns: Option<u64>,
    /// Since when loads are counted.
    loads_since_ns: Option<u64>,
}

impl ProcessTable {
    /// No processes yet; the first gets this number.
    pub fn starting_at(next: u64) -> Self {
        Self { next, ..Self::default() }
    }

    /// Goes on with numbers that were given before.
    pub fn recall(&mut self, saved: &[SavedProcess]) {
        for one in saved {
            let pins = Pins::recall(&one.pins);
            let process = ProcessState { entity: one.entity, pins, ..ProcessState::default() };
            self.next = self.next.max(one.entity.0.saturating_add(1));
            self.processes.insert((one.pid, one.started_ticks), process);
        }
    }

    /// The number that the next process gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes in a snapshot. Returns the time since the one before, in nanoseconds, `None` at the
    /// first, and the processes that are gone. Loads are those of `load_ns_min` at least: a thread
    /// that runs in turns has none or all of a CPU in a short time.
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
                self.next += 1;
                ProcessState { entity: EntityId(self.next - 1), ..ProcessState::default() }
            });
            state.see(process, window);
            state.stuck.pass(elapsed_ns.unwrap_or(0));
            self.processes.insert(key, state);
        }
        self.keys = self.processes.iter().map(|(&key, state)| (state.entity, key)).collect();
        (elapsed_ns, earlier.into_values().map(|state| state.entity).collect())
    }

    /// Every process, in ascending order of pids.
    pub fn iter(&self) -> impl Iterator<Item = (ProcessKey, &ProcessState)> {
        self.processes.iter().map(|(&key, state)| (key, state))
    }

    /// Every process, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ProcessKey, &mut ProcessState)> {
        self.processes.iter_mut().map(|(&key, state)| (key, state))
    }

    /// One of them.
    pub fn get_mut(&mut self, key: ProcessKey) -> Option<&mut ProcessState> {
        self.processes.get_mut(&key)
    }

    /// The process that had a number at the last snapshot.
    pub fn key(&self, entity: EntityId) -> Option<ProcessKey> {
        self.keys.get(&entity).copied()
    }

    /// The process with a number at the last snapshot.
    pub fn by_number(&mut self, entity: EntityId) -> Option<&mut ProcessState> {
        self.processes.get_mut(self.keys.get(&entity)?)
    }

    /// Threads of all processes.
    pub fn threads(&self) -> u64 {
        let threads = |state: &ProcessState| state.seen.as_ref().map_or(0, |it| it.threads.len());
        self.processes.values().map(threads).sum::<usize>() as u64
    }
}

impl ProcessState {
    /// Its threads with their loads.
    pub fn threads(&self) -> impl Iterator<Item = (&ThreadSnapshot, &ThreadLoad)> {
        self.seen.iter().flat_map(|seen| &seen.threads).zip(&self.loads)
    }

    /// How many threads it has.
    pub fn thread_count(&self) -> u64 {
        self.loads.len() as u64
    }

    /// The load of all its threads, in millionths of a CPU.
    pub fn load_ppm(&self) -> u64 {
        self.loads.iter().map(|load| u64::from(load.load_ppm)).sum()
    }

    /// What its threads had of CPUs or waited for, in millionths of a CPU.
    pub fn wanted_ppm(&self) -> u64 {
        self.loads.iter().map(ThreadLoad::wanted_ppm).sum()
    }

    /// Takes what it had of CPUs for nothing.
    pub fn disregard_load(&mut self) {
        for load in &mut self.loads {
            (load.load_ppm, load.wait_ppm) = (0, 0);
        }
    }

    /// Takes in where its threads are now, and nothing else.
    pub fn follow(&mut self, cpus: &BTreeMap<u32, CpuId>) {
        for thread in self.seen.iter_mut().flat_map(|seen| &mut seen.threads) {
            if let Some(&cpu) = cpus.get(&thread.tid) {
                thread.cpu = cpu;
            }
        }
    }

    /// Forgets pins that somebody else changed.
    pub fn forget_pins_of_others(&mut self) {
        if let Some(seen) = &self.seen {
            self.pins.keep(&seen.threads);
        }
    }

    /// Pages that cannot be moved: bound, or stuck so far.
    pub fn fixed_pages(&self) -> BTreeMap<NodeId, u64> {
        let Some(sample) = &self.sample else { return BTreeMap::new() };
        let of =
            |pages: &BTreeMap<NodeId, u64>, node: &NodeId| pages.get(node).copied().unwrap_or(0);
        let fixed = |(node, &pages): (&NodeId, &u64)| {
            (*node, pages.min(of(&sample.bound_pages, node) + of(&self.stuck.by_node, node)))
        };
        sample.pages.iter().map(fixed).filter(|&(_, pages)| pages > 0).collect()
    }

    /// Notes what is told of it; whether that is new.
    pub fn tell(&mut self, decision: &Decision, home: Option<&Home>) -> bool {
        let reasons = [Some(decision.reason), decision.threads, decision.memory];
        let told = (home.cloned(), decision.verdict, reasons);
        let is_new = self.told.as_ref() != Some(&told);
        self.told = Some(told);
        is_new
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

impl StuckPages {
    /// Pages that refused to move are taken to do so for an hour: trying in vain costs time, and
    /// whoever holds them may have let them go by then.
    const LASTS_NS: u64 = 3_600_000_000_000;

    fn pass(&mut self, ns: u64) {
        self.ago_ns = self.ago_ns.saturating_add(ns);
        if self.ago_ns >= Self::LASTS_NS {
            self.by_node.clear();
        }
    }
}
