//! Huge pages that are not available, or are split.

use std::sync::atomic::Ordering::Relaxed;

use nodeward_linux::interference::{MemoryChange, change_memory};
use nodeward_linux::own_process::disable_huge_pages;
use nodeward_model::SkipReason;
use nodeward_pager::{Error, PageSize, Placement, RegionOptions};

use crate::common::{
    CHUNK, MIB, assert_filled, fill, filled_region, in_subprocess, move_all, page_bytes, pager,
    pages, region, unmap_all_lazily, words,
};

/// Goal: where the process gets no huge pages, a region of them is refused with the reason.
#[test]
fn no_huge_pages_is_an_error() {
    in_subprocess("huge::no_huge_pages_is_an_error", || {
        let Some(pager) = pager() else { return };
        let before = filled_region(&pager, 4 * MIB, PageSize::Huge);
        disable_huge_pages().unwrap();
        let options = RegionOptions { page: PageSize::Huge, ..Default::default() };
        let error = pager.reserve(4 * MIB, &options).unwrap_err();
        assert!(matches!(error, Error::NoHugePages { .. }), "{error}");
        assert!(error.to_string().contains("PR_SET_THP_DISABLE"), "{error}");
        // A region that has some already keeps its content, however its pages move now.
        move_all(&before);
        unmap_all_lazily(&before);
        assert_filled(&before, 0..4 * MIB);
    });
}

/// Goal: a fault in a hole of a huge page whose rest is left out brings zeros into the hole only.
#[test]
fn a_hole_in_what_is_left_out() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, 4 * MIB, PageSize::Huge);
    let hole = CHUNK + 300 * page_bytes()..CHUNK + 301 * page_bytes();
    change_memory(&region.words()[words(hole.clone())], MemoryChange::Discard).unwrap();
    let report = unmap_all_lazily(&region);
    assert_eq!(report.lazy_pages, pages(4 * MIB) - 1, "{report:?}");
    assert_eq!(report.account.skipped_for(SkipReason::NotPresent), 1, "{report:?}");
    assert!(region.words()[words(hole.clone())].iter().all(|word| word.load(Relaxed) == 0));
    fill(&region, hole);
    assert_filled(&region, 0..4 * MIB);
}

/// Goal: huge pages that the program split, or of which it has only parts, move as base pages, and
/// as huge ones where they are whole.
#[test]
fn broken_huge_pages_move() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, 6 * MIB, PageSize::Huge);
    // The second chunk may not have huge pages any more; the third has holes.
    change_memory(&region.words()[words(CHUNK..2 * CHUNK)], MemoryChange::BasePages).unwrap();
    for page in (0..512).step_by(3) {
        let start = 2 * CHUNK + page * page_bytes();
        change_memory(&region.words()[words(start..start + page_bytes())], MemoryChange::Discard)
            .unwrap();
    }
    let holes = 171; // 512 / 3, rounded up
    for _ in 0..3 {
        let report = move_all(&region);
        assert_eq!(report.account.skipped_for(SkipReason::NotPresent), holes, "{report:?}");
        assert_eq!(report.account.moved, pages(6 * MIB) - holes, "{report:?}");
        assert_filled(&region, 0..2 * CHUNK);
    }
    for page in (0..512).step_by(3) {
        let start = 2 * CHUNK + page * page_bytes();
        fill(&region, start..start + page_bytes());
    }
    assert_filled(&region, 0..6 * MIB);
}

/// Goal: a part of a region of huge pages that was never touched is supplied at its first touch,
/// while the rest moves.
#[test]
fn only_a_part_is_there() {
    let Some(pager) = pager() else { return };
    let options = RegionOptions { page: PageSize::Huge, ..Default::default() };
    let region_of_parts = pager.reserve(8 * MIB, &options).unwrap();
    region_of_parts.commit(CHUNK..2 * CHUNK, &Placement::Local).unwrap();
    let report = move_all(&region_of_parts);
    assert_eq!(report.account.skipped_for(SkipReason::NotPresent), pages(6 * MIB), "{report:?}");
    crate::common::while_moving(&region_of_parts, || fill(&region_of_parts, 0..8 * MIB));
    assert_filled(&region_of_parts, 0..8 * MIB);
    assert_eq!(move_all(&region_of_parts).account.moved, pages(8 * MIB));
    drop(region(&pager, 2 * MIB, PageSize::Huge));
}
