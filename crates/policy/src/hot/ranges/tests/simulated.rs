//! A process whose accesses are known: threads on nodes, each with pages of its own.

use crate::hot::PageRoom;
use nodeward_model::topology::Distances;
use nodeward_model::{NodeId, PageSet, Range};

use super::super::super::samples::{PeriodTimes, SampleHistory, SamplePeriod};
use super::super::super::{MissCosts, PageAccessCounts, TimeRules};
use super::super::{MappedRange, RangePlan, plan_ranges};

pub const PAGE: u64 = 4096;
pub const MS: u64 = 1_000_000;
/// Where its first mapping begins: at no round address.
pub const BASE: u64 = 0x7f12_3456_7000;
/// What a local and a remote access take with the computing before it, in tenths of nanoseconds: a
/// local miss takes 100 ns, and 30 % of the time.
const LOCAL_TURN: u64 = 3333;
const REMOTE_TURN: u64 = 4333;

/// A generator of numbers from one seed (splitmix64).
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// A thread that uses its own pages evenly, and now and then any page.
#[derive(Clone)]
pub struct Worker {
    pub node: u32,
    /// Its own pages; a page may be named more than once.
    pub own: Vec<u64>,
    /// One in so many accesses is to any page of the process; none if 0.
    pub any_one_in: u64,
}

/// A process with one mapping.
#[derive(Clone)]
pub struct Simulated {
    pub workers: Vec<Worker>,
    /// The node of each page.
    pub on: Vec<u32>,
    pub moved: u64,
}

impl Simulated {
    /// A process whose pages are all on one node.
    pub fn new(pages: u64, workers: Vec<Worker>) -> Self {
        Self { workers, on: vec![0; pages as usize], moved: 0 }
    }

    /// The part of accesses that are local, in ppm: the mean of the threads.
    pub fn local_ppm(&self) -> u64 {
        let ppm = |worker: &Worker| {
            let part = |pages: &mut dyn Iterator<Item = u64>| {
                let (mut all, mut local) = (0, 0);
                for page in pages {
                    all += 1;
                    local += u64::from(self.on[page as usize] == worker.node);
                }
                local * 1_000_000 / all
            };
            let own = part(&mut worker.own.iter().copied());
            match worker.any_one_in {
                0 => own,
                n => (own * (n - 1) + part(&mut (0..self.on.len() as u64))) / n,
            }
        };
        self.workers.iter().map(ppm).sum::<u64>() / self.workers.len() as u64
    }

    /// Ticks of a timer, so many for each thread: a slow access is found more often.
    pub fn ticks(&self, each: u64, draws: &mut Draws) -> PageAccessCounts {
        let mut ticks = PageAccessCounts::new(PAGE);
        for worker in &self.workers {
            for _ in 0..each {
                let page = self.tick(worker, draws);
                ticks.add(BASE + page * PAGE + draws.below(PAGE), NodeId(worker.node), 1);
            }
        }
        ticks
    }

    fn tick(&self, worker: &Worker, draws: &mut Draws) -> u64 {
        loop {
            let is_any = worker.any_one_in > 0 && draws.below(worker.any_one_in) == 0;
            let page = match is_any {
                true => draws.below(self.on.len() as u64),
                false => worker.own[draws.below(worker.own.len() as u64) as usize],
            };
            let is_local = self.on[page as usize] == worker.node;
            let turn = if is_local { LOCAL_TURN } else { REMOTE_TURN };
            if draws.below(REMOTE_TURN) < turn {
                return page;
            }
        }
    }

    /// A period in which a timer ticked so often for each thread, at 1 kHz.
    pub fn period(&self, each: u64, draws: &mut Draws) -> SamplePeriod {
        let times = PeriodTimes { period_ns: each * MS, tick_ns: MS };
        let on = |address: u64| Some(NodeId(self.on[((address - BASE) / PAGE) as usize]));
        SamplePeriod::new(&self.ticks(each, draws), times, on)
    }

    /// Its memory, populated.
    pub fn memory(&self) -> Vec<MappedRange> {
        let range = Range::new(BASE, BASE + self.on.len() as u64 * PAGE);
        vec![MappedRange { range, populated: vec![range] }]
    }

    /// The plan by a history.
    pub fn plan(&self, history: &SampleHistory) -> RangePlan {
        plan_ranges(history, &self.memory(), &rules())
    }

    /// Carries out a plan, and forgets samples of what moved.
    pub fn act(&mut self, plan: &RangePlan, history: &mut SampleHistory) {
        let mut moved = PageSet::new(PAGE);
        for each in &plan.moves {
            let pages = (each.range.start - BASE) / PAGE..(each.range.end - BASE) / PAGE;
            for page in pages {
                let on = &mut self.on[page as usize];
                self.moved += u64::from(*on != each.to.0);
                *on = each.to.0;
            }
            moved.insert_range(each.range);
        }
        history.forget(&moved);
    }

    /// Periods after each of which the process is placed; the least locality after any, in ppm.
    pub fn run(
        &mut self,
        periods: u64,
        each: u64,
        history: &mut SampleHistory,
        draws: &mut Draws,
    ) -> u64 {
        let mut least = u64::MAX;
        for _ in 0..periods {
            history.push(self.period(each, draws));
            self.act(&self.plan(history), history);
            least = least.min(self.local_ppm());
        }
        least
    }
}

/// Four nodes, every other one at twice the local distance; 30 % of the time is waiting for local
/// memory. A move costs 64 lines x 200 ns + 1 us = 13.8 us a page, and must pay within 10 s.
pub fn rules() -> TimeRules {
    let distances =
        Distances::from_rule((0..4).map(NodeId), |from, to| if from == to { 10 } else { 20 });
    TimeRules {
        costs: MissCosts::typical(Some(distances), 1000),
        destinations: (0..4).map(NodeId).collect(),
        memory_bound_ppm: 300_000,
        horizon_ns: 10_000 * MS,
        room: PageRoom::of_all(u64::MAX),
    }
}
