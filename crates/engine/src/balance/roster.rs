//! The processes that a balancer knows, each with a number that never comes back.

use std::collections::BTreeMap;

use nodeward_model::{Bound, CpuId, Glance, Name, NodeId, Pid, ProcessGlance, ThreadGlance};
use nodeward_policy::damping::Retry;
use nodeward_policy::placement::{EntityId, Home, Reason, Verdict, wanted_ppm};

use super::memory::Known;
use super::pins::Pins;
use super::purse::Purse;
use super::seats::Seats;

/// Pages that refused to move are taken to do so for an hour: trying in vain costs time.
const STUCK_NS: u64 = 3_600_000_000_000;

/// What tells a process from every other of this boot: its pid, and when it began.
pub type Key = (Pid, u64);

/// What was decided about a process, to tell whether it changed.
pub type Told = (Option<Home>, Verdict, [Option<Reason>; 3]);

/// A process and what is remembered of it.
#[derive(Default)]
pub struct Member {
    /// Its number.
    pub entity: EntityId,
    /// How it looks now; `None` before its first look.
    pub now: Option<ProcessGlance>,
    /// The load of its threads, in the order of `now`.
    pub loads: Vec<Load>,
    /// What the last dear look saw.
    pub sight: Option<Sight>,
    /// When it may be looked into again without need, and how long the wait after that is.
    pub look_wait: Retry,
    /// How long the next dear look may take, in nanoseconds, if the last one was cut short.
    pub look_ns: u64,
    /// Why we may not act on it.
    pub denied: Option<String>,
    /// Something went wrong with it before, and was told.
    pub failed: bool,
    /// Its memory was moved and not looked at since.
    pub must_look: bool,
    /// Its memory is on its way; it is looked into when it is there.
    pub is_moving: bool,
    /// Pages that refused to move, by node.
    pub stuck: BTreeMap<NodeId, u64>,
    /// How long ago the last of them did, in nanoseconds.
    pub stuck_ago_ns: u64,
    /// What of it may still be moved in this interval.
    pub purse: Purse,
    /// What was told of it last.
    pub told: Option<Told>,
    /// Where its threads belong while its pages are placed one by one.
    pub seats: Seats,
    /// Threads that we keep somewhere, and where they might run before.
    pub pins: Pins,
}

/// The load of a thread since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub tid: u32,
    /// CPU time since it began, in nanoseconds.
    pub cpu_time_ns: u64,
    /// How much of one CPU it had.
    pub load_ppm: u32,
    /// For how long it waited for a CPU since it began, in nanoseconds.
    pub waited_ns: u64,
    /// In what part of the time it did.
    pub wait_ppm: u32,
}

/// What a dear look saw.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// When, by the machine's clock.
    pub at_ns: u64,
    /// What the process was called and what it had at the time.
    pub name: Name,
    pub own_bytes: u64,
    /// The node that most of its load was on.
    pub busiest: Option<NodeId>,
    /// What program it ran.
    pub program: u32,
    /// Pages by node.
    pub pages: BTreeMap<NodeId, u64>,
    /// Of those the ones that a policy binds.
    pub bound_pages: BTreeMap<NodeId, u64>,
    /// What the program told the kernel about its memory, and when that was read.
    pub bound: Bound,
    pub bound_at_ns: u64,
}

/// The processes by what tells them apart.
#[derive(Default)]
pub struct Roster {
    next: u64,
    members: BTreeMap<Key, Member>,
    keys: BTreeMap<EntityId, Key>,
    at_ns: Option<u64>,
    /// Since when loads are counted.
    loads_since_ns: Option<u64>,
}

impl Roster {
    /// No processes yet; the first gets this number.
    pub fn starting_at(next: u64) -> Self {
        Self { next, ..Self::default() }
    }

    /// Goes on with numbers that were given before.
    pub fn recall(&mut self, known: &[Known]) {
        for known in known {
            let pins = Pins::recall(&known.pins);
            let member = Member { entity: known.entity, pins, ..Member::default() };
            self.next = self.next.max(known.entity.0.saturating_add(1));
            self.members.insert((known.pid, known.started_ticks), member);
        }
    }

    /// The number that the next process gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes in what was seen. Returns the time since the look before, in nanoseconds, `None` at
    /// the first look, and those that are gone. Loads are those of this time at least: what runs
    /// in turns has none or all of a CPU in a short one.
    pub fn see(&mut self, glance: &Glance, load_ns_min: u64) -> (Option<u64>, Vec<EntityId>) {
        let since = |at_ns: Option<u64>| at_ns.map(|at_ns| glance.at_ns.saturating_sub(at_ns));
        let elapsed_ns = since(self.at_ns);
        self.at_ns = Some(glance.at_ns);
        let is_back = self.loads_since_ns > Some(glance.at_ns);
        let window = match since(self.loads_since_ns) {
            Some(ns) if ns < load_ns_min && !is_back => Window::TooShort,
            counted_ns => Window::Since(counted_ns),
        };
        if window != Window::TooShort {
            self.loads_since_ns = Some(glance.at_ns);
        }
        let mut earlier = std::mem::take(&mut self.members);
        for process in &glance.processes {
            let key = (process.pid, process.started_ticks);
            let mut member = earlier.remove(&key).unwrap_or_else(|| {
                self.next += 1;
                Member { entity: EntityId(self.next - 1), ..Member::default() }
            });
            member.see(process, window);
            member.forget_stuck(elapsed_ns.unwrap_or(0));
            self.members.insert(key, member);
        }
        self.keys = self.members.iter().map(|(&key, member)| (member.entity, key)).collect();
        (elapsed_ns, earlier.into_values().map(|member| member.entity).collect())
    }

    /// Every member, in ascending order of pids.
    pub fn members(&self) -> impl Iterator<Item = (Key, &Member)> {
        self.members.iter().map(|(&key, member)| (key, member))
    }

    /// Every member, to be changed.
    pub fn members_mut(&mut self) -> impl Iterator<Item = (Key, &mut Member)> {
        self.members.iter_mut().map(|(&key, member)| (key, member))
    }

    /// One of them.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut Member> {
        self.members.get_mut(&key)
    }

    /// Who had a number at the last look.
    pub fn key(&self, entity: EntityId) -> Option<Key> {
        self.keys.get(&entity).copied()
    }

    /// The member with a number at the last look.
    pub fn by_number(&mut self, entity: EntityId) -> Option<&mut Member> {
        self.members.get_mut(self.keys.get(&entity)?)
    }

    /// Threads of all processes.
    pub fn threads(&self) -> u64 {
        let threads = |member: &Member| member.now.as_ref().map_or(0, |now| now.threads.len());
        self.members.values().map(threads).sum::<usize>() as u64
    }
}

impl Member {
    fn see(&mut self, process: &ProcessGlance, window: Window) {
        let is_first = self.now.is_none();
        let mut earlier = std::mem::take(&mut self.loads).into_iter().peekable();
        let load = |thread: &ThreadGlance| {
            while earlier.next_if(|load| load.tid < thread.tid).is_some() {}
            let before = earlier.next_if(|load| load.tid == thread.tid);
            load(thread, before, is_first, window)
        };
        self.loads = process.threads.iter().map(load).collect();
        self.now = Some(process.clone());
    }

    /// Time passes: who held pages may have let them go.
    fn forget_stuck(&mut self, ns: u64) {
        self.stuck_ago_ns = self.stuck_ago_ns.saturating_add(ns);
        if self.stuck_ago_ns >= STUCK_NS {
            self.stuck.clear();
        }
    }

    /// Takes in where its threads are now, and nothing else.
    pub fn follow(&mut self, cpus: &BTreeMap<u32, CpuId>) {
        for thread in self.now.iter_mut().flat_map(|now| &mut now.threads) {
            if let Some(&cpu) = cpus.get(&thread.tid) {
                thread.cpu = cpu;
            }
        }
    }

    /// What its threads had of CPUs or waited for, in ppm of a CPU.
    pub fn wanted_ppm(&self) -> u64 {
        self.loads.iter().map(|load| wanted_ppm(load.load_ppm, load.wait_ppm)).sum()
    }

    /// Takes what it had of CPUs for nothing.
    pub fn disregard_load(&mut self) {
        for load in &mut self.loads {
            (load.load_ppm, load.wait_ppm) = (0, 0);
        }
    }

    /// Load of all its threads, in ppm of a CPU.
    pub fn load_ppm(&self) -> u64 {
        self.loads.iter().map(|load| u64::from(load.load_ppm)).sum()
    }
}

/// For how long loads were counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Window {
    /// For too short a time: they stay as they are.
    TooShort,
    /// For so many nanoseconds; `None` if there was no look before.
    Since(Option<u64>),
}

/// The load of a thread that had been seen before or not. Where no time passed, or the clock went
/// back, what was known of it stays.
fn load(thread: &ThreadGlance, before: Option<Load>, is_first: bool, window: Window) -> Load {
    let elapsed_ns = match (window, before) {
        (Window::TooShort, Some(before)) => return before,
        (Window::TooShort, None) => None,
        (Window::Since(elapsed_ns), _) => elapsed_ns,
    };
    let earlier = before.unwrap_or_default();
    let since = |now_ns: u64, before_ns: u64| match before {
        Some(_) => now_ns.saturating_sub(before_ns),
        // Of a process that was there before us nobody knows when it ran.
        None if is_first => now_ns.min(elapsed_ns.unwrap_or(0)),
        None => now_ns,
    };
    let ran_ns = since(thread.cpu_time_ns, earlier.cpu_time_ns);
    let waited_ns = since(thread.waited_ns, earlier.waited_ns);
    let part = |ns: u64, known_ppm: u32| match elapsed_ns {
        None | Some(0) => known_ppm,
        Some(elapsed_ns) => {
            let ppm = u128::from(ns) * 1_000_000 / u128::from(elapsed_ns);
            u32::try_from(ppm.min(1_000_000)).unwrap_or(0)
        }
    };
    Load {
        tid: thread.tid,
        cpu_time_ns: thread.cpu_time_ns,
        load_ppm: part(ran_ns, earlier.load_ppm),
        waited_ns: thread.waited_ns,
        wait_ppm: part(waited_ns, earlier.wait_ppm),
    }
}

impl Sight {
    /// Pages that cannot be moved: bound, or stuck so far.
    pub fn fixed_pages(&self, stuck: &BTreeMap<NodeId, u64>) -> BTreeMap<NodeId, u64> {
        let of =
            |pages: &BTreeMap<NodeId, u64>, node: &NodeId| pages.get(node).copied().unwrap_or(0);
        let fixed = |(node, &pages): (&NodeId, &u64)| {
            (*node, pages.min(of(&self.bound_pages, node) + of(stuck, node)))
        };
        self.pages.iter().map(fixed).filter(|&(_, pages)| pages > 0).collect()
    }
}
