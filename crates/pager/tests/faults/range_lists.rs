//! Lists of ranges.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nodeward_model::{NodeId, SkipReason};
use nodeward_pager::{
    Budget, Cancel, Error, Migration, Mode, PageSize, Pager, PagerOptions, RangeStatus,
    RangeTarget, Region, RegionOptions, Supply,
};

use crate::common::{
    CHUNK, HERE, MIB, assert_filled, even_if_there, filled_region, page_bytes, pager, pages,
    unmap_all_lazily, while_moving,
};

const BYTES: usize = 4 * MIB;

/// Returns the entry of `count` pages from page `first` on.
fn entry(first: usize, count: usize) -> RangeTarget {
    let page = page_bytes();
    RangeTarget { range: first * page..(first + count) * page, to: HERE }
}

fn is_there(status: &RangeStatus) -> bool {
    matches!(status, RangeStatus::There)
}

/// Goal: every valid entry is moved, in whatever order and however long, and the total has each
/// page once: 3 single pages of two chunks, and 2 MiB across both.
#[test]
fn ranges_move_each() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let per_chunk = CHUNK / page_bytes();
    let list = [entry(700, 1), entry(3, 1), entry(9, 1), entry(per_chunk / 2, per_chunk)];
    let told = region.migrate_list(&list, &even_if_there(Supply::Any)).unwrap();
    assert!(told.ranges.iter().all(is_there), "{told:?}");
    // Page 700 lies in the long range: 512 / 2 + 512 = 768.
    assert_eq!(told.total.account.moved, 2 + pages(CHUNK));
    assert_eq!(told.total.account.selected(), 2 + pages(CHUNK));
    assert_filled(&region, 0..BYTES);
}

/// Goal: an empty list and an empty range are nothing to do.
#[test]
fn nothing_is_no_error() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let how = Migration::default();
    assert!(region.migrate_list(&[], &how).unwrap().ranges.is_empty());
    let told = region.migrate_list(&[entry(5, 0), entry(1024, 0)], &how).unwrap();
    assert!(told.ranges.iter().all(is_there) && told.ranges.len() == 2, "{told:?}");
    assert_eq!(told.total.account.selected(), 0);
}

/// Goal: entries that are wrong have their status, and the rest is done.
#[test]
#[allow(clippy::reversed_empty_ranges, reason = "they are bad input")]
fn bad_entries_have_their_status() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let page = page_bytes();
    let bad = |range| RangeTarget { range, to: HERE };
    let list = [
        entry(0, 1),
        bad(0..page - 1),
        bad(BYTES..BYTES + page),
        bad(page..0),
        bad(usize::MAX - page + 1..usize::MAX),
        RangeTarget { to: NodeId(900), ..entry(1, 1) },
        RangeTarget { to: NodeId(u32::MAX), ..entry(1, 1) },
        entry(1, 1),
    ];
    let told = region.migrate_list(&list, &even_if_there(Supply::Any)).unwrap();
    let refused = |index: usize| match &told.ranges[index] {
        RangeStatus::Refused(why) => why,
        other => panic!("{index}: {other:?}"),
    };
    assert!(is_there(&told.ranges[0]) && is_there(&told.ranges[7]), "{told:?}");
    assert!(matches!(refused(1), Error::Unaligned { .. }));
    for index in 2..5 {
        assert!(matches!(refused(index), Error::OutOfRegion { .. }), "{index}");
    }
    assert!(matches!(refused(5), Error::UnknownNode { .. }));
    assert!(matches!(refused(6), Error::UnknownNode { .. }));
    assert_eq!(told.total.account.moved, 2);
    assert_filled(&region, 0..BYTES);
}

/// Goal: a range that is named twice, and ranges that overlap, are moved once, and each has its
/// status; so have pages that are absent or pinned, with the reason.
#[test]
fn each_range_has_its_own_status() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let page = page_bytes();
    region.discard(20 * page..22 * page).unwrap();
    let pin = region.pin(30 * page..31 * page).unwrap();
    let list = [entry(7, 1), entry(7, 1), entry(5, 6), entry(19, 4), entry(20, 1), entry(30, 2)];
    let told = region.migrate_list(&list, &even_if_there(Supply::Any)).unwrap();
    assert!(told.ranges[..3].iter().all(is_there), "{told:?}");
    for (index, stayed, why) in
        [(3, 2, SkipReason::NotPresent), (4, 1, SkipReason::NotPresent), (5, 1, SkipReason::Pinned)]
    {
        match told.ranges[index] {
            RangeStatus::Stayed { pages, reason } => assert_eq!((pages, reason), (stayed, why)),
            ref other => panic!("{index}: {other:?}"),
        }
    }
    // Pages 5 to 10, 19 to 22 and 30 to 31: 12, of which 20 and 21 are absent and 30 is pinned.
    assert_eq!(told.total.account.moved, 9);
    assert_eq!(told.total.account.skipped_total(), 3);
    drop(pin);
    assert!(is_there(&region.migrate_list(&list[5..], &Migration::default()).unwrap().ranges[0]));
}

/// Goal: a list of a million entries ends, and has as many statuses; every page moved once for
/// each window of 65,536 entries at most.
#[test]
fn a_million_entries() {
    const ENTRIES: usize = 1_000_000;
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let all = BYTES / page_bytes();
    // 7919 is a prime number, so every page has its turn.
    let list: Vec<_> = (0..ENTRIES).map(|index| entry(index * 7919 % all, 1)).collect();
    let told = region.migrate_list(&list, &even_if_there(Supply::Any)).unwrap();
    assert_eq!(told.ranges.len(), ENTRIES);
    assert!(told.ranges.iter().all(is_there));
    let windows = ENTRIES.div_ceil(1 << 16) as u64;
    assert_eq!(told.total.account.moved, windows * pages(BYTES));
    assert_filled(&region, 0..BYTES);
}

/// Goal: a list beside a migration of everything and on pages that are left out loses nothing, and
/// every range arrives.
#[test]
fn lists_wait_for_others() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    unmap_all_lazily(&region);
    let list: Vec<_> = (0..pages(BYTES) as usize).step_by(3).map(|page| entry(page, 1)).collect();
    let lists = || {
        for _ in 0..10 {
            let told = region.migrate_list(&list, &even_if_there(Supply::Any)).unwrap();
            assert!(told.ranges.iter().all(is_there));
            assert_eq!(told.total.account.moved, list.len() as u64);
        }
    };
    let ((), moved) = while_moving(&region, lists);
    assert!(moved > 0);
    assert_filled(&region, 0..BYTES);
}

/// Goal: ranges of a region of huge pages are moved as such, and a part of one is refused.
#[test]
fn huge_pages_are_listed_whole() {
    let Some(pager) = pager() else { return };
    let options = RegionOptions { page: PageSize::Huge, ..RegionOptions::default() };
    match pager.reserve(BYTES, &options) {
        Err(why @ Error::NoHugePages { .. }) => return eprintln!("skipped: {why}"),
        other => drop(other.unwrap()),
    }
    let region = filled_region(&pager, BYTES, PageSize::Huge);
    let whole = RangeTarget { range: CHUNK..2 * CHUNK, to: HERE };
    let told = region.migrate_list(&[whole, entry(0, 1)], &even_if_there(Supply::Any)).unwrap();
    assert!(is_there(&told.ranges[0]), "{told:?}");
    assert!(matches!(told.ranges[1], RangeStatus::Refused(Error::Unaligned { .. })), "{told:?}");
    assert_eq!(told.total.account.moved, pages(CHUNK));
    assert_filled(&region, 0..BYTES);
}

/// Goal: a list that was cancelled says of each range that it was interrupted.
#[test]
fn a_cancelled_list_says_so() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let cancel = Cancel::new();
    cancel.cancel();
    let how = Migration { cancel: Some(&cancel), ..even_if_there(Supply::Any) };
    let told = region.migrate_list(&[entry(0, 2), entry(600, 1)], &how).unwrap();
    assert!(told.total.cancelled);
    assert_eq!(told.total.account.skipped_for(SkipReason::Interrupted), 3);
    let interrupted = |status: &RangeStatus| {
        matches!(status, RangeStatus::Stayed { reason: SkipReason::Interrupted, .. })
    };
    assert!(told.ranges.iter().all(interrupted), "{told:?}");
}

/// Goal: a list that waits for its rate ends when it is cancelled: at a byte a second the second
/// chunk would wait for two hours.
#[test]
fn a_waiting_list_can_be_cancelled() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let cancel = Cancel::new();
    let budget = Budget { bytes_per_s: Some(1), stall: None };
    let how = Migration { cancel: Some(&cancel), budget, ..even_if_there(Supply::Any) };
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            cancel.cancel();
        });
        region.migrate_list(&[entry(0, 2), entry(600, 1)], &how).unwrap()
    });
    assert!(told.total.cancelled, "{told:?}");
    assert!(told.total.account.skipped_for(SkipReason::Interrupted) >= 1, "{told:?}");
    assert_filled(&region, 0..BYTES);
}

/// Goal: where the kernel moves the pages, lists have the same statuses: of two pages one is there.
#[test]
fn lists_work_where_only_the_kernel_moves() {
    let options = PagerOptions { kernel_only: true, ..PagerOptions::default() };
    let by_kernel = Pager::open(&options).unwrap();
    let plain = by_kernel.reserve(BYTES, &RegionOptions::default()).unwrap();
    check_kernel_list(&plain);
    let Some(pager) = pager() else { return };
    let managed = pager.reserve(BYTES, &RegionOptions::default()).unwrap();
    managed.set_mode(Mode::Kernel).unwrap();
    check_kernel_list(&managed);
}

fn check_kernel_list(region: &Region) {
    region.words()[0].store(1, Relaxed);
    let list = [entry(0, 2), entry(0, 1), entry(1 << 40, 1)];
    let told = region.migrate_list(&list, &Migration::default()).unwrap();
    match told.ranges[0] {
        RangeStatus::Stayed { pages, reason } => {
            assert_eq!((pages, reason), (1, SkipReason::NotPresent));
        }
        ref other => panic!("{other:?}"),
    }
    assert!(is_there(&told.ranges[1]) && matches!(told.ranges[2], RangeStatus::Refused(_)));
    assert_eq!(told.total.account.already_there, 1);
}
