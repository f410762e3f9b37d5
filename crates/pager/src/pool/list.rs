//! The free runs that one CPU has at hand of one zone.

use std::collections::VecDeque;

use nodeward_policy::pcp::{AnyTuner, Limits, Tuner};

use super::arena::PageNo;
use crate::page_bits::ORDER_MAX;

const ORDERS: usize = ORDER_MAX as usize + 1;

/// A run: its first page and its order.
pub type Run = (PageNo, u32);

/// The runs of a list, those that were used last on top, and what decides how many there are.
pub struct List {
    stacks: [VecDeque<PageNo>; ORDERS],
    /// Base pages in all of them.
    pages: u32,
    tuner: AnyTuner,
    limits: Limits,
    /// Base pages that went to callers and came from them.
    pub allocated_pages: u64,
    pub freed_pages: u64,
    /// What `allocated_pages` and `freed_pages` were at the last tick, and for how many ticks.
    last_seen: (u64, u64),
    idle_ticks: u32,
}

impl List {
    /// An empty one.
    pub fn new(tuner: AnyTuner, limits: Limits) -> Self {
        Self {
            stacks: Default::default(),
            pages: 0,
            tuner,
            limits,
            allocated_pages: 0,
            freed_pages: 0,
            last_seen: (0, 0),
            idle_ticks: 0,
        }
    }

    /// Base pages in it.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Base pages that it holds at most.
    pub fn high(&self) -> u32 {
        self.tuner.high(&self.limits)
    }

    /// Hands out the run that was freed last.
    pub fn pop(&mut self, order: u32) -> Option<PageNo> {
        let run = self.stacks[order as usize].pop_back()?;
        self.pages -= 1 << order;
        self.allocated_pages += 1 << order;
        self.tuner.allocated(1 << order);
        Some(run)
    }

    /// The run that is handed out after so many others.
    pub fn upcoming(&self, order: u32, after: usize) -> Option<PageNo> {
        let stack = &self.stacks[order as usize];
        stack.get(stack.len().checked_sub(after + 1)?).copied()
    }

    /// Takes a run back from a caller; returns how many base pages are too many now.
    pub fn push(&mut self, (run, order): Run, now_ms: u64) -> u32 {
        self.stacks[order as usize].push_back(run);
        self.pages += 1 << order;
        self.freed_pages += 1 << order;
        self.tuner.freed(&self.limits, 1 << order, self.pages, now_ms)
    }

    /// How many runs should come from the zone, because there is none.
    pub fn refill(&mut self, order: u32) -> usize {
        (self.tuner.refill(&self.limits, self.pages) as usize >> order).max(1)
    }

    /// Takes a run from the zone.
    pub fn stock(&mut self, (run, order): Run) {
        self.stacks[order as usize].push_back(run);
        self.pages += 1 << order;
    }

    /// Takes out so many base pages, or all there are: those first that nobody used for longest,
    /// of this order, then of the largest.
    pub fn take_cold(&mut self, order: u32, pages: u32, took: &mut Vec<Run>) {
        let orders = std::iter::once(order).chain((0..ORDERS as u32).rev());
        let mut left = pages.min(self.pages);
        for order in orders {
            while left > 0
                && let Some(run) = self.stacks[order as usize].pop_front()
            {
                took.push((run, order));
                self.pages -= 1 << order;
                left = left.saturating_sub(1 << order);
            }
        }
    }

    /// A period is over; returns how many base pages are too many now. A list that is `foreign`, of
    /// a zone of another node than the CPU's, is emptied when nobody used it for three periods, as
    /// the kernel does.
    pub fn tick(&mut self, foreign: bool, now_ms: u64) -> u32 {
        let seen = (self.allocated_pages, self.freed_pages);
        self.idle_ticks = if seen == self.last_seen { self.idle_ticks + 1 } else { 0 };
        self.last_seen = seen;
        let too_many = self.tuner.tick(&self.limits, self.pages, now_ms);
        if foreign && self.idle_ticks >= 3 { self.pages } else { too_many }
    }

    /// Memory is short; returns how many base pages should go.
    pub fn shrink(&mut self) -> u32 {
        self.tuner.shrink(&self.limits, self.pages)
    }
}
