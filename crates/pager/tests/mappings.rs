//! A process may have 65530 mappings (vm.max_map_count). A pager needs few, whatever moves.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_model::NodeId;
use nodeward_pager::{
    Backend, Migration, PageSize, Pager, PagerOptions, Placement, Region, RegionOptions,
};

const MIB: usize = 1 << 20;
const BYTES: usize = 1 << 30;

fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

fn even_if_there() -> Migration<'static> {
    Migration { even_if_there: true, ..Default::default() }
}

/// Moves parts in an order that leaves gaps, then all, then leaves all out and touches a part.
/// Returns the maximum number of mappings seen.
fn move_in_every_way(region: &Region) -> usize {
    let mut most = 0;
    let mut look = || most = mappings().max(most);
    let how = even_if_there();
    let page = region.page_bytes();
    for start in (0..64 * MIB.max(page)).step_by(2 * page) {
        region.migrate(start..start + page, NodeId(0), &how).unwrap();
    }
    look();
    let report = region.migrate(0..BYTES, NodeId(0), &how).unwrap();
    assert_eq!(report.account.skipped_total(), 0, "{report:?}");
    look();
    for start in (0..BYTES / 2).step_by(4 * MIB) {
        region.migrate_lazily(start..start + 2 * MIB, &how).unwrap();
    }
    look();
    let report = region.migrate_lazily(0..BYTES, &how).unwrap();
    assert_eq!(report.account.skipped_total(), 0, "{report:?}");
    look();
    let touched = region.words().iter().step_by(3 * MIB / 8);
    assert_eq!(touched.map(|word| word.load(Relaxed)).sum::<u64>(), 0);
    look();
    most
}

/// Goal: under 100 more mappings for a gibibyte of either page size, whatever moves.
#[test]
fn mappings_stay_few() {
    let pager = Pager::open(&PagerOptions::default()).unwrap();
    if pager.backend() != Backend::Move {
        return eprintln!("skipped: {}", pager.why_not_faster().unwrap_or_default());
    }
    for page in [PageSize::Base, PageSize::Huge] {
        let before = mappings();
        let options = RegionOptions { page, ..Default::default() };
        let region = pager.reserve(BYTES, &options).unwrap();
        region.commit(0..BYTES, &Placement::Local).unwrap();
        let most = move_in_every_way(&region);
        eprintln!("{page:?}: {before} mappings before, {most} at most");
        assert!(most < before + 100, "{page:?}: {before} mappings before, {most} at most");
    }
}
