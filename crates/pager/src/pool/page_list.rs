//! The list of free runs of one zone that one CPU holds.

use std::collections::VecDeque;

use nodeward_policy::pcp::{AnyTuner, ListLimits, Tuner};

use super::arena::PageNo;
use crate::page_bits::ORDER_MAX;

const ORDERS: usize = ORDER_MAX as usize + 1;

/// A run without owner: its first page and its order.
#[derive(Clone, Copy, Debug)]
pub struct FreeRun {
    pub page: PageNo,
    pub order: u32,
}

/// The runs of a list, the most recently used ones on top, and the tuner that decides its length.
pub struct CpuPageList {
    stacks: [VecDeque<PageNo>; ORDERS],
    /// Base pages in all stacks.
    pages: u32,
    tuner: AnyTuner,
    limits: ListLimits,
    /// Base pages that went to callers, and that came from them.
    pub allocated_pages: u64,
    pub freed_pages: u64,
    /// Values of `allocated_pages` and `freed_pages` at the last tick, and the number of ticks for
    /// which they have been the same.
    last_counts: (u64, u64),
    idle_ticks: u32,
}

impl CpuPageList {
    /// An empty list.
    pub fn new(tuner: AnyTuner, limits: ListLimits) -> Self {
        Self {
            stacks: Default::default(),
            pages: 0,
            tuner,
            limits,
            allocated_pages: 0,
            freed_pages: 0,
            last_counts: (0, 0),
            idle_ticks: 0,
        }
    }

    /// Returns the number of base pages in it.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the maximum number of base pages that it holds.
    pub fn high(&self) -> u32 {
        self.tuner.high(&self.limits)
    }

    /// Takes the run that was freed last.
    pub fn pop(&mut self, order: u32) -> Option<PageNo> {
        let run = self.stacks[order as usize].pop_back()?;
        self.pages -= 1 << order;
        self.allocated_pages += 1 << order;
        self.tuner.allocated(1 << order);
        Some(run)
    }

    /// Returns the run that `pop` will return after `after` other ones.
    pub fn peek(&self, order: u32, after: usize) -> Option<PageNo> {
        let stack = &self.stacks[order as usize];
        stack.get(stack.len().checked_sub(after + 1)?).copied()
    }

    /// Adds a run that a caller freed. Returns how many base pages are above the limit now.
    pub fn push(&mut self, FreeRun { page, order }: FreeRun, now_ms: u64) -> u32 {
        self.stacks[order as usize].push_back(page);
        self.pages += 1 << order;
        self.freed_pages += 1 << order;
        self.tuner.freed(&self.limits, 1 << order, self.pages, now_ms)
    }

    /// Returns how many runs to fetch from the zone, because the list has none.
    pub fn refill(&mut self, order: u32) -> usize {
        (self.tuner.refill(&self.limits, self.pages) as usize >> order).max(1)
    }

    /// Adds a run from the zone.
    pub fn push_from_zone(&mut self, FreeRun { page, order }: FreeRun) {
        self.stacks[order as usize].push_back(page);
        self.pages += 1 << order;
    }

    /// Removes `pages` base pages, or all if there are fewer: of this order first, then of the
    /// largest, the least recently used runs first.
    pub fn take_cold(&mut self, order: u32, pages: u32, took: &mut Vec<FreeRun>) {
        let orders = std::iter::once(order).chain((0..ORDERS as u32).rev());
        let mut left = pages.min(self.pages);
        for order in orders {
            while left > 0
                && let Some(page) = self.stacks[order as usize].pop_front()
            {
                took.push(FreeRun { page, order });
                self.pages -= 1 << order;
                left = left.saturating_sub(1 << order);
            }
        }
    }

    /// Ends a period. Returns how many base pages are above the limit now. A `foreign` list, of a
    /// zone of another node than the CPU's, is emptied after three periods without use, as in the
    /// kernel.
    pub fn tick(&mut self, foreign: bool, now_ms: u64) -> u32 {
        let seen = (self.allocated_pages, self.freed_pages);
        self.idle_ticks = if seen == self.last_counts { self.idle_ticks + 1 } else { 0 };
        self.last_counts = seen;
        let too_many = self.tuner.tick(&self.limits, self.pages, now_ms);
        if foreign && self.idle_ticks >= 3 { self.pages } else { too_many }
    }

    /// Reacts to short memory. Returns how many base pages to give up.
    pub fn shrink(&mut self) -> u32 {
        self.tuner.shrink(&self.limits, self.pages)
    }
}
