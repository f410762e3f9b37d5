//! Invalid ranges, nodes and settings.

use std::time::Duration;

use nodeward_model::{NodeId, Nodemask};
use nodeward_pager::{
    Budget, Error, Migration, Mode, PageSize, Pager, PagerOptions, Placement, RegionOptions, Supply,
};

use crate::common::{
    HERE, MIB, assert_filled, even_if_there, filled_region, page_bytes, pager, pages, region,
    unmap_all_lazily,
};

/// Goal: every call refuses ranges that are not whole pages or leave the region, with the reason,
/// and moves nothing.
#[test]
#[allow(clippy::reversed_empty_ranges, reason = "they are bad input")]
fn ranges_are_checked_by_every_call() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, 4 * MIB, PageSize::Base);
    let (page, end) = (page_bytes(), region.bytes());
    let bad = [
        (0..page - 1, true),
        (1..page, true),
        (8..page + 8, true),
        (0..end + page, false),
        (end + page..end + 2 * page, false),
        (page..0, false),
        (usize::MAX..0, false),
        (0..usize::MAX, false),
        (usize::MAX - page + 1..usize::MAX, false),
        (end..end + 1, false),
    ];
    let how = even_if_there(Supply::Any);
    for (range, unaligned) in bad {
        let errors = [
            region.migrate(range.clone(), HERE, &how).map(drop),
            region.migrate_lazily(range.clone(), &how).map(drop),
            region.commit(range.clone(), &Placement::Local),
            region.discard(range.clone()),
            region.residency(range.clone()).map(drop),
            region.pin(range.clone()).map(drop),
            region.exchange(range.clone(), 0..page, &how).map(drop),
            region.exchange(0..page, range.clone(), &how).map(drop),
        ];
        for error in errors.map(|result| result.expect_err("a bad range")) {
            let as_expected = match error {
                Error::Unaligned { page_bytes, .. } => unaligned && page_bytes == page,
                Error::OutOfRegion { region_bytes, .. } => !unaligned && region_bytes == end,
                _ => false,
            };
            assert!(as_expected, "{range:?}: {error}");
        }
    }
    assert_filled(&region, 0..end);
}

/// Goal: an empty range is no error, and nothing is done.
#[test]
fn empty_ranges_are_fine() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, 2 * MIB, PageSize::Base);
    let how = even_if_there(Supply::Any);
    for at in [0, page_bytes(), region.bytes()] {
        let report = region.migrate(at..at, HERE, &how).unwrap();
        assert_eq!(report.account.selected(), 0);
        assert_eq!(region.migrate_lazily(at..at, &how).unwrap().lazy_pages, 0);
        region.commit(at..at, &Placement::Local).unwrap();
        region.discard(at..at).unwrap();
        drop(region.pin(at..at).unwrap());
    }
    assert_filled(&region, 0..region.bytes());
}

/// Goal: in a region of huge pages only whole huge pages are a valid range.
#[test]
fn huge_regions_have_whole_huge_pages() {
    let Some(pager) = pager() else { return };
    let region = region(&pager, 4 * MIB, PageSize::Huge);
    let error = region.migrate(0..MIB, HERE, &even_if_there(Supply::Any)).unwrap_err();
    assert!(matches!(error, Error::Unaligned { page_bytes, .. } if page_bytes == 2 * MIB));
}

/// Goal: every call that takes a node refuses one that does not exist or has no memory.
#[test]
fn unknown_nodes_are_refused() {
    let Some(pager) = pager() else { return };
    let region = region(&pager, 2 * MIB, PageSize::Base);
    for node in [NodeId(1023), NodeId(1024), NodeId(4095), NodeId(u32::MAX)] {
        let on = Placement::Node(node);
        let options = RegionOptions { placement: on.clone(), ..Default::default() };
        let errors = [
            region.migrate(0..region.bytes(), node, &even_if_there(Supply::Any)).map(drop),
            region.commit(0..region.bytes(), &on),
            pager.reserve(MIB, &options).map(drop),
        ];
        for error in errors.map(|result| result.expect_err("an unknown node")) {
            assert!(matches!(error, Error::UnknownNode { node: named } if named == node));
            assert!(error.to_string().contains(&node.0.to_string()), "{error}");
        }
    }
    let nowhere = Placement::Interleaved(Nodemask::new());
    assert!(matches!(region.commit(0..MIB, &nowhere), Err(Error::BadOption { .. })));
}

/// Goal: sizes that no machine has end in an error, not in a crash.
#[test]
fn absurd_sizes_are_refused() {
    let Some(pager) = pager() else { return };
    for bytes in [0, usize::MAX, usize::MAX - MIB, usize::MAX / 2, 1 << 60] {
        let error = pager.reserve(bytes, &RegionOptions::default()).expect_err("absurd");
        assert!(!error.to_string().is_empty());
    }
    let small = pager.reserve(1, &RegionOptions::default()).unwrap();
    assert_eq!(small.bytes(), 2 * MIB, "rounded up");
}

/// Goal: settings without a sensible meaning are refused; odd but meaningful ones are accepted.
#[test]
fn settings_are_checked() {
    for lanes in [0, 257, u32::MAX] {
        let options = PagerOptions { lanes: Some(lanes), ..Default::default() };
        let error = Pager::open(&options).expect_err("a number of lanes");
        assert!(matches!(error, Error::BadOption { .. }), "{error}");
    }
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, 2 * MIB, PageSize::Base);
    let whole = 0..region.bytes();
    let how = || even_if_there(Supply::Any);
    let bad = [
        Migration { batch_bytes: Some(0), ..how() },
        Migration { batch_bytes: Some(page_bytes() as u64 - 1), ..how() },
        Migration { batch_bytes: Some(2 * MIB as u64 + 1), ..how() },
        Migration { batch_bytes: Some(u64::MAX), ..how() },
        Migration { lanes: Some(0), ..how() },
    ];
    for how in bad {
        let error = region.migrate(whole.clone(), HERE, &how).expect_err("a setting");
        assert!(matches!(error, Error::BadOption { .. }), "{error}");
    }
    let stall = |stall| Budget { stall: Some(stall), ..Default::default() };
    let odd = [
        Migration { lanes: Some(u32::MAX), ..how() },
        Migration { budget: stall(Duration::ZERO), ..how() },
        Migration { budget: stall(Duration::MAX), ..how() },
    ];
    for how in odd {
        let report = region.migrate(whole.clone(), HERE, &how).unwrap();
        assert_eq!(report.account.selected(), (2 * MIB / page_bytes()) as u64);
        assert_filled(&region, whole.clone());
    }
}

/// Goal: only two ranges of equal length without a common page are exchanged.
#[test]
fn an_exchange_needs_two_ranges() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, 8 * MIB, PageSize::Base);
    let page = page_bytes();
    let bad = [
        (0..2 * MIB, 2 * MIB..5 * MIB),
        (0..2 * MIB, MIB..3 * MIB),
        (0..2 * MIB, 0..2 * MIB),
        (0..page, page..page),
        (0..4 * MIB, MIB..2 * MIB),
    ];
    for (one, other) in bad {
        let error = region.exchange(one, other, &even_if_there(Supply::Any)).expect_err("ranges");
        assert!(matches!(error, Error::BadOption { .. }), "{error}");
    }
    let report =
        region.exchange(0..2 * MIB, 4 * MIB..6 * MIB, &even_if_there(Supply::Any)).unwrap();
    assert_eq!(report.account.moved, (4 * MIB / page) as u64, "both ranges");
    assert_filled(&region, 0..region.bytes());
}

/// Goal: lazy migration is refused in a region that the kernel moves, with the reason and the
/// remedy.
#[test]
fn a_lazy_migration_by_the_kernel_is_refused_with_a_reason() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, 2 * MIB, PageSize::Base);
    region.set_mode(Mode::Kernel).unwrap();
    let error = region.migrate_lazily(0..2 * MIB, &Migration::default()).unwrap_err();
    assert!(matches!(error, Error::BadOption { .. }), "{error:?}");
    let expected =
        "the kernel moves this region, and leaves nothing out; set its mode to `Auto` first";
    assert_eq!(error.to_string(), expected);
    region.set_mode(Mode::Auto).unwrap();
    assert_eq!(unmap_all_lazily(&region).lazy_pages, pages(2 * MIB));
}
