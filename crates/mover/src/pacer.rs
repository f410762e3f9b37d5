//! The budget of a move, shared by its workers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nodeward_machine::Machine;
use nodeward_policy::folio_plan::FolioMove;
use nodeward_policy::pacing::{RateLimit, StallBudget};

use crate::hold_times::HoldTimes;
use crate::{MoveControl, MoveRequest};

/// Time after which a waiting worker sees a stop, in nanoseconds: a huge page takes minutes at a
/// low rate.
const NAP_NS: u64 = 100_000_000;

/// The rate limit and the stall budget of a move.
#[derive(Debug, Default)]
pub struct MovePacer {
    rate: Option<Mutex<RateLimit>>,
    stall: Option<Mutex<StallBudget>>,
    longest_hold_ns: AtomicU64,
    holds: Mutex<HoldTimes>,
    too_large_pages: AtomicU32,
    splits_huge: bool,
    over_stall_pages: AtomicU64,
    split_folios: AtomicU64,
}

impl MovePacer {
    pub fn new(request: &MoveRequest) -> Self {
        Self {
            rate: request.rate_bytes_per_s.map(|rate| Mutex::new(RateLimit::new(rate))),
            stall: request.stall_ns.map(|budget| Mutex::new(StallBudget::new(budget))),
            longest_hold_ns: AtomicU64::new(0),
            holds: Mutex::default(),
            too_large_pages: AtomicU32::new(0),
            splits_huge: request.split_huge,
            over_stall_pages: AtomicU64::new(0),
            split_folios: AtomicU64::new(0),
        }
    }

    /// Returns how many of these folios to give to the next call, and the maximum number of base
    /// pages of one run in it. Folios above the stall budget must have been taken out. A call has
    /// one destination: if the cpuset forbids that node, the kernel reports it for the call, not
    /// the pages.
    pub fn next_call(&self, folios: &[FolioMove], page_bytes: u64) -> (usize, u32) {
        let run_pages = self.run_pages();
        let together = |folio: &&FolioMove| {
            folio.to == folios[0].to && (run_pages.is_none() || !is_large(**folio))
        };
        let count = match run_pages {
            Some(_) if is_large(folios[0]) => 1,
            _ => folios.iter().take_while(together).count(),
        };
        let stretch = self.call_pages_max(page_bytes);
        let mut pages = 0;
        let fits = |folio: &&FolioMove| {
            pages += u64::from(folio.pages);
            pages <= stretch
        };
        let count = folios[..count].iter().take_while(fits).count().max(1);
        (count, run_pages.unwrap_or(u32::MAX))
    }

    /// Waits until `bytes` bytes may be moved, or a stop.
    pub fn wait_for_rate(&self, machine: &dyn Machine, control: &MoveControl, bytes: u64) {
        let Some(rate) = &self.rate else { return };
        let mut left_ns = lock(rate).reserve(machine.now_ns(), bytes);
        while left_ns > 0 && !control.is_stopped() {
            let nap_ns = left_ns.min(NAP_NS);
            machine.sleep_ns(nap_ns);
            left_ns -= nap_ns;
        }
    }

    /// Learns from the duration of a call whose runs had at most `run_pages` pages.
    pub fn record_call(&self, folios: &[FolioMove], run_pages: u32, took_ns: u64) {
        let (Some(stall), Some(first)) = (&self.stall, folios.first()) else { return };
        let pages: u64 = folios.iter().map(|folio| u64::from(folio.pages)).sum();
        let run_pages = u64::from(run_pages.max(first.pages)).min(pages).max(1);
        let hold_ns = took_ns / pages.max(1) * run_pages;
        self.longest_hold_ns.fetch_max(hold_ns, Ordering::Relaxed);
        lock(&self.holds).add(hold_ns, pages.div_ceil(run_pages));
        let mut stall = lock(stall);
        if !is_large(*first) {
            return stall.learn(pages, took_ns);
        }
        stall.learn_huge(pages, took_ns);
        if stall.is_exceeded_by(took_ns) {
            self.over_stall_pages.fetch_add(pages, Ordering::Relaxed);
        }
    }

    /// Returns an estimate of the longest time that a run of pages was held, from the call's
    /// average time per page: the kernel reports no times within a call. `None` without a budget.
    pub fn longest_hold_ns(&self) -> Option<u64> {
        self.stall.as_ref().map(|_| self.longest_hold_ns.load(Ordering::Relaxed))
    }

    /// Returns such estimates for all runs of pages so far; none without a budget.
    pub fn holds(&self) -> HoldTimes {
        *lock(&self.holds)
    }

    /// Returns the size of the largest folio that may be moved, whole or split, in base pages.
    pub fn folio_pages_max(&self) -> u32 {
        if self.splits_huge { u32::MAX } else { self.whole_folio_pages_max() }
    }

    /// Returns whether a folio of this many base pages may not be moved whole.
    pub fn is_too_large(&self, folio_pages: u32) -> bool {
        folio_pages > self.whole_folio_pages_max()
    }

    /// Returns the size of the largest folio that may be moved whole, in base pages.
    fn whole_folio_pages_max(&self) -> u32 {
        let pages_max = |stall: &Mutex<StallBudget>| match self.splits_huge {
            true => lock(stall).folio_pages_max(),
            false => lock(stall).lone_folio_pages_max(),
        };
        self.stall.as_ref().map_or(u32::MAX, pages_max)
    }

    /// Returns whether huge pages that are too large are split.
    pub fn splits_huge(&self) -> bool {
        self.splits_huge
    }

    /// Records that a folio was split.
    pub fn record_split(&self) {
        self.split_folios.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of folios that were split.
    pub fn split_folios(&self) -> u64 {
        self.split_folios.load(Ordering::Relaxed)
    }

    /// Returns the base pages of huge pages that moved alone and were held for longer than the
    /// stall budget.
    pub fn over_stall_pages(&self) -> u64 {
        self.over_stall_pages.load(Ordering::Relaxed)
    }

    /// Records that a folio of this many base pages stayed because of the budget.
    pub fn note_too_large(&self, folio_pages: u32) {
        self.too_large_pages.fetch_max(folio_pages, Ordering::Relaxed);
    }

    /// Returns the stall budget that would have allowed every folio to move; `None` if the present
    /// one did.
    pub fn stall_needed_ns(&self) -> Option<u64> {
        let pages = self.too_large_pages.load(Ordering::Relaxed);
        let stall = self.stall.as_ref().filter(|_| pages > 0)?;
        lock(stall).budget_for_ns(pages)
    }

    /// Returns the maximum number of base pages held together; `None` if there is no budget.
    fn run_pages(&self) -> Option<u32> {
        self.stall.as_ref().map(|stall| lock(stall).run_pages())
    }

    /// Returns the maximum number of base pages per call, by the rate limit and by the budget.
    fn call_pages_max(&self, page_bytes: u64) -> u64 {
        let by_rate = self.rate.as_ref().map(|rate| lock(rate).burst_bytes_max() / page_bytes);
        let by_stall = self.stall.as_ref().map(|stall| lock(stall).call_pages());
        by_rate.into_iter().chain(by_stall).min().unwrap_or(u64::MAX)
    }
}

/// Folios of at least this many base pages are timed separately: copying dominates their cost.
fn is_large(folio: FolioMove) -> bool {
    folio.pages >= 64
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::FakeMachine;

    use super::*;

    /// Goal: after 1 GiB at 1 MiB a second the next page waits for 1024 s, but not for longer than
    /// to a stop.
    #[test]
    fn a_stop_ends_the_wait_for_a_rate() {
        for (is_stopped, waited_s) in [(false, 1024), (true, 0)] {
            let machine = FakeMachine::new(false);
            let rate = Some(Mutex::new(RateLimit::new(1 << 20)));
            let pacer = MovePacer { rate, ..MovePacer::default() };
            let control = MoveControl::default();
            pacer.wait_for_rate(&machine, &control, 1 << 30);
            if is_stopped {
                control.stop();
            }
            pacer.wait_for_rate(&machine, &control, 4096);
            assert_eq!(machine.now_ns() / 1_000_000_000, waited_s);
        }
    }
}
