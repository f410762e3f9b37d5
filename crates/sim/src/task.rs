//! A thread: what it is about to do, and where it stands in line.

use nodeward_scenario::Access;

use crate::space::SpaceId;
use crate::world::World;

/// The index of a task.
pub type TaskId = u32;

/// A set of CPUs by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    /// With these CPUs.
    pub fn of(cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }

    /// Adds one.
    pub fn insert(&mut self, cpu: usize) {
        if self.0.len() <= cpu / 64 {
            self.0.resize(cpu / 64 + 1, 0);
        }
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Whether one is in it.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// Takes one out.
    pub fn remove(&mut self, cpu: usize) {
        if let Some(word) = self.0.get_mut(cpu / 64) {
            *word &= !(1 << (cpu % 64));
        }
    }

    /// Adds one, or takes it out.
    pub fn put(&mut self, cpu: usize, is_in: bool) {
        if is_in { self.insert(cpu) } else { self.remove(cpu) }
    }

    /// Whether none is in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// All, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |(index, &word): (usize, &u64)| {
            let next = |left: &u64| Some(left & (left - 1)).filter(|&left| left != 0);
            let lefts = std::iter::successors(Some(word).filter(|&word| word != 0), next);
            lefts.map(move |left| index * 64 + left.trailing_zeros() as usize)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

/// What CPU time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// The program itself.
    User,
    /// Page faults and giving memory back.
    Fault,
    /// A step of a migration.
    Unmap,
    /// Telling other CPUs.
    Flush,
    /// Copying.
    Copy,
    /// Bringing pages back into sight.
    Map,
    /// Anything else in the kernel.
    Kernel,
}

impl Spent {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::User, Self::Fault, Self::Unmap, Self::Flush, Self::Copy, Self::Map, Self::Kernel];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Fault => "fault",
            Self::Unmap => "unmap",
            Self::Flush => "flush",
            Self::Copy => "copy",
            Self::Map => "map",
            Self::Kernel => "kernel",
        }
    }
}

/// Memory that is gone through: granules of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose.
    pub space: SpaceId,
    /// Which of its regions.
    pub region: usize,
    /// The first granule.
    pub first: usize,
    /// How many, 1 or more.
    pub granules: usize,
}

/// Cache lines that are asked for. What a program asks for misses caches unless they hold the part.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Of which memory.
    pub part: Part,
    /// How many are left.
    pub lines: u64,
    /// How.
    pub access: Access,
    /// Whether they are used again: then a part that fits the cache is found there.
    pub reused: bool,
}

/// Memory of one node that is copied to another one. What the kernel does is not interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copying {
    /// From this node, by index.
    pub from: usize,
    /// To this one.
    pub to: usize,
    /// Cache lines that are left.
    pub lines: u64,
}

/// What a task does next.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Uses a CPU for so many nanoseconds of an idle core. What the kernel does is not interrupted.
    Busy(Spent, u64),
    /// Goes through memory.
    Lines(Lines),
    /// Copies memory in the kernel.
    Copy(Copying),
    /// Stands until somebody wakes it.
    Wait,
    /// Sleeps until this time.
    Sleep(u64),
    /// Ends.
    Exit,
}

/// What a task is made of: it says what to do next, as a whole, when the last thing is done.
/// Whatever it changes in the world happens at the world's present time.
pub trait Program: Send {
    /// The next thing to do.
    fn next(&mut self, world: &mut World, task: TaskId) -> Op;

    /// Brings its memory in, without time.
    fn populate(&mut self, _world: &mut World, _task: TaskId) {}
}

/// What a task is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In line for a CPU.
    Ready,
    /// On it.
    Running,
    /// Until somebody wakes it, or a time comes.
    Waiting,
    /// Gone.
    Ended,
}

/// A thread. What each turn needs stands first: with thousands of tasks it is caches of the host
/// that decide how long a turn takes, so order and alignment are given.
#[repr(C, align(64))]
pub struct Task {
    /// What it is in the middle of.
    pub op: Option<Op>,
    /// The CPU it is on, or was on last.
    pub cpu: usize,
    /// CPU time that it had, weighed, in nanoseconds: who has the least is next.
    pub vruntime_ns: u64,
    /// CPU time that it had.
    pub ran_ns: u64,
    /// When it last left a CPU.
    pub ran_at_ns: u64,
    /// Whose memory it has; none for a thread of the kernel.
    pub space: Option<SpaceId>,
    /// The workload that it belongs to, by index; none for a thread of the kernel.
    pub workload: Option<usize>,
    /// The index of the node where it is at home.
    pub home: Option<usize>,
    /// What it does; not there while it decides what to do next.
    pub program: Option<Box<dyn Program>>,
    /// Whether it comes before others: threads that the kernel waits for.
    pub urgent: bool,
    /// What it is about.
    pub state: State,
    /// Whether it was woken while it was not waiting.
    pub woken: bool,
    /// Where it may run.
    pub allowed: CpuSet,
}

impl Task {
    /// A thread of the kernel that may run on these CPUs, at first on the first of them.
    pub fn new(allowed: CpuSet, program: Box<dyn Program>) -> Self {
        let cpu = allowed.iter().next().unwrap_or(0);
        Self {
            program: Some(program),
            op: None,
            space: None,
            workload: None,
            cpu,
            allowed,
            home: None,
            urgent: false,
            state: State::Ready,
            woken: false,
            vruntime_ns: 0,
            ran_at_ns: 0,
            ran_ns: 0,
        }
    }
}
