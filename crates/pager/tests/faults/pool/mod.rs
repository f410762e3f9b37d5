//! What goes wrong around a page pool, and everything at once.

mod forks;
mod housekeeping;
mod limits;
mod mistakes;
mod torture;

use std::ptr::NonNull;
use std::time::Duration;

use nodeward_pager::{PagePool, PageRun, PoolOptions, Wanted};
use nodeward_policy::pcp::Tuning;

/// A pool that is looked after by the test, with periods that are over before one looks.
fn options(tuning: Tuning) -> PoolOptions {
    let period = Duration::from_micros(100);
    PoolOptions { tuning, housekeeper: false, period, ..PoolOptions::default() }
}

fn pool() -> PagePool {
    PagePool::open(&options(Tuning::Fixed)).unwrap()
}

fn of_order(order: u32) -> Wanted {
    Wanted { order, ..Wanted::default() }
}

/// Where a run begins.
fn start(run: &PageRun<'_>) -> NonNull<u8> {
    NonNull::from(&run[0])
}

fn address(start: NonNull<u8>) -> u64 {
    start.as_ptr() as u64
}

/// That nobody has anything, and all of it can go.
fn assert_idle(pool: &PagePool) {
    let stats = pool.stats();
    assert_eq!((stats.in_use_pages, stats.allocated_pages), (0, stats.freed_pages), "{stats:?}");
    pool.give_back();
    assert_eq!(pool.stats().held_pages, 0);
}
