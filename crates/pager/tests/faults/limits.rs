//! Budgets, progress and cancellation.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nodeward_linux::test_wait::{receive, rounds};
use nodeward_model::SkipReason;
use nodeward_pager::{Budget, Cancel, Migration, Mode, PageSize, Progress, Supply};

use crate::common::{
    CHUNK, HERE, MIB, Stopper, assert_filled, even_if_there, filled_region, move_all, page_bytes,
    pager, pages,
};

const BYTES: usize = 16 * MIB;

/// Goal: a cancelled migration ends between two batches; pages that were not reached are reported
/// as interrupted, and nothing is lost. One that was cancelled before it began does nothing.
#[test]
fn a_migration_is_cancelled() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let cancel = &Cancel::new();
    let slow = Budget { bytes_per_s: Some(1), stall: None };
    let (tell, told) = mpsc::channel();
    let under_way = |progress: Progress| {
        if progress.examined_bytes > 0 {
            tell.send(()).ok(); // fails once the receiver is gone
        }
    };
    let how = Migration { cancel: Some(cancel), budget: slow, ..even_if_there(Supply::Any) };
    let watched = Migration { progress: Some(&under_way), ..how };
    let report = std::thread::scope(|scope| {
        scope.spawn(move || {
            receive(&told, "a batch has moved");
            cancel.cancel();
        });
        region.migrate(0..BYTES, HERE, &watched).unwrap()
    });
    assert!(report.cancelled, "at one byte a second it takes half a year");
    assert_eq!(report.account.selected(), pages(BYTES), "{report:?}");
    let open = report.account.skipped_for(SkipReason::Interrupted);
    assert!(open >= pages(BYTES - 2 * CHUNK) && report.account.moved <= pages(2 * CHUNK));
    assert_filled(&region, 0..BYTES);
    assert!(cancel.is_cancelled());
    let report = region.migrate(0..BYTES, HERE, &how).unwrap();
    assert!(report.cancelled);
    assert_eq!(report.account.selected(), pages(BYTES));
    assert_eq!(move_all(&region).account.moved, pages(BYTES), "and later all is well");
}

/// Goal: progress is reported on the calling thread, never decreases, and ends with all bytes.
#[test]
fn progress_is_told() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let (me, told) = (std::thread::current().id(), RefCell::new(Vec::new()));
    let tell = |progress: Progress| {
        assert_eq!(std::thread::current().id(), me);
        told.borrow_mut().push(progress);
    };
    // 16 MiB at 64 MiB a second: a quarter of a second, in which progress is reported several
    // times, unless this thread has no CPU for so long.
    let budget = Budget { bytes_per_s: Some(64 << 20), stall: None };
    let how = Migration { progress: Some(&tell), budget, ..even_if_there(Supply::Any) };
    for _ in rounds(1, "progress is told on the way", || told.borrow().len() > 1) {
        told.borrow_mut().clear();
        region.migrate(0..BYTES, HERE, &how).unwrap();
        let told = told.borrow();
        assert!(told.is_sorted_by_key(|progress| progress.examined_bytes), "{told:?}");
        assert!(told.iter().all(|progress| progress.total_bytes == BYTES as u64));
        assert_eq!(told.last().unwrap().examined_bytes, BYTES as u64);
    }
}

/// Goal: the rate is kept. Of eight chunks each waits for the ones before it, so the last begins
/// when seven are paid for: 7 * 2 MiB / (64 MiB/s) = 219 ms.
#[test]
fn the_rate_is_kept() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let budget = Budget { bytes_per_s: Some(64 << 20), stall: None };
    let how = Migration { budget, ..even_if_there(Supply::Any) };
    let began = Instant::now();
    let report = region.migrate(0..BYTES, HERE, &how).unwrap();
    let (took, least) = (began.elapsed(), Duration::from_millis(7 * 2 * 1000 / 64));
    assert!(took >= least, "{took:?}");
    assert!(u128::from(report.took_ns) >= least.as_nanos(), "{report:?}");
    assert_eq!(report.account.moved, pages(BYTES));
}

/// Goal: a stall budget makes batches smaller, down to 4 pages however slow the machine is, and a
/// batch is never longer than requested.
#[test]
fn stall_budgets_shrink_batches() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let batches = |stall, batch_bytes| {
        let budget = Budget { bytes_per_s: None, stall };
        let how = Migration { budget, batch_bytes, lanes: Some(1), ..even_if_there(Supply::Any) };
        let report = region.migrate(0..BYTES, HERE, &how).unwrap();
        assert_eq!(report.account.moved, pages(BYTES), "{report:?}");
        assert_filled(&region, 0..BYTES);
        report.batches
    };
    let free = batches(None, None);
    assert!(free >= (BYTES / CHUNK) as u64, "{free}");
    // A nanosecond is never enough, so all batches have the minimum.
    let tight = batches(Some(Duration::from_nanos(1)), None);
    assert!(tight >= pages(BYTES) / 4, "{tight}");
    let small = batches(None, Some(16 * page_bytes() as u64));
    assert!(small >= pages(BYTES) / 16 && small < tight, "{small}");
}

/// Goal: huge pages that take longer than the budget stay, with that reason, once the time is
/// known.
#[test]
fn huge_pages_above_the_budget_stay() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Huge);
    let budget = Budget { bytes_per_s: None, stall: Some(Duration::from_nanos(1)) };
    let how = Migration { budget, lanes: Some(1), ..even_if_there(Supply::Any) };
    let report = region.migrate(0..BYTES, HERE, &how).unwrap();
    // The first is tried, because its time is not known yet.
    assert_eq!(report.account.moved, pages(CHUNK), "{report:?}");
    let stayed = report.account.skipped_for(SkipReason::StallBudget);
    assert_eq!(stayed, pages(BYTES - CHUNK), "{report:?}");
    assert_filled(&region, 0..BYTES);
}

/// Goal: a panic in a progress callback leaves the region intact, and the lanes working.
#[test]
fn a_progress_callback_panics() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let panics = |_| panic!("on purpose");
    let how = Migration { progress: Some(&panics), ..even_if_there(Supply::Any) };
    let migrate = || region.migrate(0..BYTES, HERE, &how);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(migrate));
    assert!(outcome.is_err());
    assert_filled(&region, 0..BYTES);
    assert_eq!(move_all(&region).account.moved, pages(BYTES));
}

/// Goal: a region whose last handle is dropped while another thread migrates it ends after that
/// migration; the handle of the pager may be dropped first.
#[test]
fn regions_end_in_any_order() {
    let Some(pager) = pager() else { return };
    for round in 0..10 {
        let pager = pager.clone();
        let region = std::sync::Arc::new(filled_region(&pager, 4 * MIB, PageSize::Base));
        drop(pager);
        let cancelled = std::sync::Arc::new(Cancel::new());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stopper = Stopper(&stop);
            let (other, cancel) = (region.clone(), cancelled.clone());
            let migrates = scope.spawn(|| {
                let (region, cancel) = (other, cancel); // ends with this thread
                let how = Migration { cancel: Some(&cancel), ..even_if_there(Supply::Any) };
                while !stop.load(Acquire) {
                    region.migrate(0..4 * MIB, HERE, &how).unwrap();
                }
            });
            assert_filled(&region, 0..4 * MIB);
            if round % 2 == 0 {
                crate::common::unmap_all_lazily(&region);
            }
            drop(region);
            cancelled.cancel();
            drop(stopper);
            migrates.join().unwrap();
        });
    }
    let region = filled_region(&pager, 4 * MIB, PageSize::Base);
    region.words()[0].fetch_add(0, Relaxed);
    assert_eq!(move_all(&region).account.moved, pages(4 * MIB));
}

/// Goal: a region that is switched to migration by the kernel has nothing left out, so its report
/// counts every page.
#[test]
fn the_kernel_takes_over_what_is_left_out() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    assert_eq!(crate::common::unmap_all_lazily(&region).lazy_pages, pages(BYTES));
    region.set_mode(Mode::Kernel).unwrap();
    let report = region.migrate(0..BYTES, HERE, &Migration::default()).unwrap();
    assert_eq!(report.account.skipped_for(SkipReason::NotPresent), 0, "{report:?}");
    assert_eq!(report.account.selected(), pages(BYTES), "{report:?}");
    assert_filled(&region, 0..BYTES);
    region.set_mode(Mode::Auto).unwrap();
    assert_eq!(move_all(&region).account.moved, pages(BYTES));
}
