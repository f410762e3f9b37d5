//! Base pages that arrive as huge pages.
//!
//! Whether they can depends on the kernel (Linux 6.14, CONFIG_PT_RECLAIM) and on free huge pages.
//! So each test holds what is promised everywhere, that nothing is lost and every block is counted,
//! and more where [`can_arrive`] says so.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nodeward_linux::interference::{MemoryChange, change_memory};
use nodeward_linux::own_process::{OwnPagemap, disable_huge_pages};
use nodeward_model::SkipReason;
use nodeward_pager::{
    Arrive, Budget, Migration, MigrationReport, PageSize, Pager, Region, RegionOptions, Supply,
};

use crate::common::{
    CHUNK, HERE, MIB, assert_filled, even_if_there, fill, filled_region, in_subprocess, page_bytes,
    pager, pages, unmap_all_lazily, while_doing, words,
};

/// 8 MiB: four blocks.
const BYTES: usize = 8 * MIB;

fn as_huge(supply: Supply) -> Migration<'static> {
    Migration { arrive: Some(Arrive::Huge), ..even_if_there(supply) }
}

fn move_as_huge(region: &Region, supply: Supply) -> MigrationReport {
    region.migrate(0..region.bytes(), HERE, &as_huge(supply)).unwrap()
}

/// Returns how many blocks of a region are one huge page each.
fn huge_blocks(region: &Region) -> u64 {
    let pagemap = OwnPagemap::open().unwrap();
    let start = region.as_ptr() as u64;
    let blocks = (start..start + region.bytes() as u64).step_by(CHUNK);
    let is_huge = |block: &u64| pagemap.is_huge_page(*block..*block + CHUNK as u64).unwrap();
    blocks.filter(is_huge).count() as u64
}

/// Returns whether base pages can arrive as a huge page here and now, with a message if not.
fn can_arrive(pager: &Pager) -> bool {
    let region = filled_region(pager, 2 * MIB, PageSize::Base);
    let can = move_as_huge(&region, Supply::OneWay).huge_arrivals == 1;
    if !can {
        eprintln!("no huge page arrives here: the kernel keeps page tables, or has none free");
    }
    can
}

/// Goal: all base pages of a region arrive as huge pages, with their content, fresh ones first.
/// They go on as huge pages, to recycled ones, and count as arrivals only once. A migration without
/// the option breaks nothing.
#[test]
fn base_pages_arrive_as_huge_pages() {
    let Some(pager) = pager() else { return };
    let all = can_arrive(&pager);
    let region = filled_region(&pager, BYTES, PageSize::Base);
    assert_eq!(huge_blocks(&region), 0);
    let first = move_as_huge(&region, Supply::OneWay);
    assert_eq!(first.account.moved, pages(BYTES), "{first:?}");
    assert_eq!(first.huge_arrivals + first.huge_fallbacks, 4, "{first:?}");
    assert_eq!(huge_blocks(&region), first.huge_arrivals);
    assert_filled(&region, 0..BYTES);
    let mut again = MigrationReport::default();
    for _ in 0..2 {
        again = move_as_huge(&region, Supply::Any);
        assert_eq!(again.account.moved, pages(BYTES), "{again:?}");
        assert_filled(&region, 0..BYTES);
    }
    if all {
        assert_eq!((first.huge_arrivals, first.one_way_pages), (4, pages(BYTES)), "{first:?}");
        assert_eq!((again.huge_arrivals, again.huge_fallbacks), (0, 0), "{again:?}");
        assert_eq!((again.recycled_pages, huge_blocks(&region)), (pages(BYTES), 4), "{again:?}");
    }
    let plain = region.migrate(0..BYTES, HERE, &even_if_there(Supply::Any)).unwrap();
    assert_eq!(plain.account.moved, pages(BYTES), "{plain:?}");
    assert_eq!((plain.huge_arrivals, plain.huge_fallbacks), (0, 0), "{plain:?}");
    assert_filled(&region, 0..BYTES);
}

/// Goal: what a region was made with holds for migrations that do not say, and what they say goes
/// before it.
#[test]
fn the_region_has_a_default() {
    let Some(pager) = pager() else { return };
    let options = RegionOptions { arrive: Arrive::Huge, ..Default::default() };
    let region = pager.reserve(BYTES, &options).unwrap();
    fill(&region, 0..BYTES);
    let how = Migration { arrive: Some(Arrive::AsTheyLeave), ..even_if_there(Supply::OneWay) };
    let report = region.migrate(0..BYTES, HERE, &how).unwrap();
    assert_eq!((report.huge_arrivals, report.huge_fallbacks), (0, 0), "{report:?}");
    let report = region.migrate(0..BYTES, HERE, &even_if_there(Supply::OneWay)).unwrap();
    assert_eq!(report.huge_arrivals + report.huge_fallbacks, 4, "{report:?}");
    assert_filled(&region, 0..BYTES);
}

/// Goal: blocks that are not whole arrive as base pages, and are counted: one with a hole, one of
/// which a page is pinned, one of which only the half is to move. The fourth arrives as a huge page
/// where that can be.
#[test]
fn blocks_that_are_not_whole_fall_back() {
    let Some(pager) = pager() else { return };
    let can = can_arrive(&pager);
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let hole = 300 * page_bytes()..301 * page_bytes();
    change_memory(&region.words()[words(hole.clone())], MemoryChange::Discard).unwrap();
    let pinned = CHUNK + 7 * page_bytes()..CHUNK + 8 * page_bytes();
    let guard = region.pin(pinned).unwrap();
    let range = 0..BYTES - CHUNK / 2;
    let report = region.migrate(range, HERE, &as_huge(Supply::Any)).unwrap();
    drop(guard);
    assert_eq!(report.account.skipped_for(SkipReason::NotPresent), 1, "{report:?}");
    assert_eq!(report.account.skipped_for(SkipReason::Pinned), 1, "{report:?}");
    assert_eq!(report.account.moved, pages(BYTES - CHUNK / 2) - 2, "{report:?}");
    let expected = if can { (1, 3) } else { (0, 4) };
    assert_eq!((report.huge_arrivals, report.huge_fallbacks), expected, "{report:?}");
    fill(&region, hole);
    assert_filled(&region, 0..BYTES);
}

/// Goal: where 2 MiB at a time are not allowed, or only recycled pages are, base pages arrive as
/// such. What is one huge page by then moves in parts, too.
#[test]
fn options_that_exclude_it() {
    let Some(pager) = pager() else { return };
    let small = Migration { batch_bytes: Some(64 << 10), ..as_huge(Supply::Any) };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    region.migrate(0..BYTES, HERE, &even_if_there(Supply::OneWay)).unwrap(); // fills the pool
    let paced = Migration {
        budget: Budget { stall: Some(Duration::from_micros(1)), ..Default::default() },
        ..as_huge(Supply::Any)
    };
    for how in [&small, &paced, &as_huge(Supply::Recycled)] {
        let report = region.migrate(0..BYTES, HERE, how).unwrap();
        assert_eq!((report.huge_arrivals, report.huge_fallbacks), (0, 4), "{report:?}");
        assert_filled(&region, 0..BYTES);
    }
    move_as_huge(&region, Supply::OneWay);
    for how in [&small, &paced] {
        let report = region.migrate(0..BYTES, HERE, how).unwrap();
        assert_eq!(report.account.moved, pages(BYTES), "{report:?}");
        assert_filled(&region, 0..BYTES);
    }
}

/// Goal: where the process gets no huge pages, base pages arrive as such, in a region that has huge
/// ones already, too.
#[test]
fn no_huge_pages_to_arrive_in() {
    in_subprocess("huge_arrival::no_huge_pages_to_arrive_in", || {
        let Some(pager) = pager() else { return };
        let base = filled_region(&pager, BYTES, PageSize::Base);
        let huge = filled_region(&pager, BYTES, PageSize::Huge);
        disable_huge_pages().unwrap();
        for region in [&base, &huge] {
            let report = move_as_huge(region, Supply::OneWay);
            assert_eq!(report.account.moved, pages(BYTES), "{report:?}");
            assert_eq!(report.huge_arrivals, 0, "{report:?}");
            assert_filled(region, 0..BYTES);
        }
    });
}

/// Goal: a region of huge pages that has base pages, because the kernel had no others or the
/// program broke them, gets huge pages again.
#[test]
fn broken_huge_pages_become_whole() {
    let Some(pager) = pager() else { return };
    let can = can_arrive(&pager);
    let region = filled_region(&pager, BYTES, PageSize::Huge);
    let page = CHUNK..CHUNK + page_bytes();
    change_memory(&region.words()[words(page.clone())], MemoryChange::Discard).unwrap();
    fill(&region, page);
    let before = huge_blocks(&region);
    let report = move_as_huge(&region, Supply::Any);
    assert_eq!(report.account.moved, pages(BYTES), "{report:?}");
    if can {
        assert_eq!((report.huge_arrivals, huge_blocks(&region)), (4 - before, 4), "{report:?}");
    }
    assert_filled(&region, 0..BYTES);
}

/// Goal: a block that arrived as a huge page can be left out lazily, pulled in by granules, pinned,
/// discarded in part, and move again.
#[test]
fn what_arrived_is_memory_like_any_other() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    for _ in 0..3 {
        move_as_huge(&region, Supply::Any);
        assert_eq!(unmap_all_lazily(&region).lazy_pages, pages(BYTES));
        assert_filled(&region, 0..BYTES);
        let part = CHUNK + 5 * page_bytes()..CHUNK + 9 * page_bytes();
        region.discard(part.clone()).unwrap();
        assert!(region.words()[words(part.clone())].iter().all(|word| word.load(Relaxed) == 0));
        fill(&region, part.clone());
        drop(region.pin(part).unwrap());
        assert_filled(&region, 0..BYTES);
    }
}

/// Goal: threads that write while their pages arrive as huge pages, and so bring page tables back,
/// lose no write: each word is the number of rounds that wrote it.
#[test]
fn threads_write_while_pages_arrive() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    region.words().iter().for_each(|word| word.store(0, Relaxed));
    let move_on = || {
        // As base pages, so that the next time they arrive again.
        let plain = Migration { batch_bytes: Some(256 << 10), ..even_if_there(Supply::OneWay) };
        let moved = [as_huge(Supply::Any), plain]
            .map(|how| region.migrate(0..BYTES, HERE, &how).unwrap().account.moved);
        moved.iter().sum()
    };
    let rounds = 40;
    let step = page_bytes() / 8 / 2;
    let ((), moved) = while_doing(move_on, || {
        for _ in 0..rounds {
            let words = region.words().iter().step_by(step);
            words.for_each(|word| _ = word.fetch_add(1, Relaxed));
        }
    });
    assert!(moved > 0);
    let words = region.words().iter().step_by(step);
    assert_eq!(words.map(|word| word.load(Relaxed)).find(|&count| count != rounds), None);
}
