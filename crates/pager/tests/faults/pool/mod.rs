//! Faults around a page pool, and all of them at once.

mod forks;
mod housekeeping;
mod limits;
mod mistakes;
mod torture;

use std::ptr::NonNull;
use std::time::Duration;

use nodeward_pager::{PagePool, PageRun, PoolOptions, RunRequest};
use nodeward_policy::pcp::TunerKind;

/// Options of a pool whose periodic work the test does, with periods shorter than any test step.
fn options(tuning: TunerKind) -> PoolOptions {
    let period = Duration::from_micros(100);
    PoolOptions { tuning, housekeeper: false, period, ..PoolOptions::default() }
}

fn pool() -> PagePool {
    PagePool::open(&options(TunerKind::Fixed)).unwrap()
}

fn request(order: u32) -> RunRequest {
    RunRequest { order, ..RunRequest::default() }
}

/// Returns the start address of a run.
fn start(run: &PageRun<'_>) -> NonNull<u8> {
    NonNull::from(&run[0])
}

fn address(start: NonNull<u8>) -> u64 {
    start.as_ptr() as u64
}

/// Asserts that no run is in use, and that all memory can be freed.
fn assert_idle(pool: &PagePool) {
    let stats = pool.stats();
    assert_eq!((stats.in_use_pages, stats.allocated_pages), (0, stats.freed_pages), "{stats:?}");
    pool.give_back();
    assert_eq!(pool.stats().held_pages, 0);
}
