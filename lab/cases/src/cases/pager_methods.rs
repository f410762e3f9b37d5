//! The pager's choice between several move methods, and between sizes of pages at the destination.

use nodeward_model::NodeId;
use nodeward_pager::{Arrive, Migration, MigrationReport, PageSize};

use super::pager::{MIB, NODES, assert_filled, pager, pages, pages_by_node, region, with_writer};
use crate::case_outcome::{CaseFn, CaseOutcome};

pub const CASES: [(&str, CaseFn); 2] =
    [("pager_cheapest_way", cheapest_method), ("pager_arrive_huge", arrive_huge)];

/// Goal: both methods, the pager's and the kernel's, are tried and measured; pages that the kernel
/// moves are intact and reported. The choice that follows from the measurements is tested in
/// `nodeward-policy`, because times in a guest depend on the host's other load.
fn cheapest_method() -> CaseOutcome {
    const BYTES: usize = 8 * MIB;
    const TRIPS: usize = 12;
    // Small batches, so that a method that turns out to be expensive is not tried with many pages.
    const BATCH: u64 = 256 << 10;
    let pager = pager(BYTES)?;
    let region = region(&pager, BYTES, PageSize::Base, NODES[0]);
    let how = Migration { lanes: Some(2), batch_bytes: Some(BATCH), ..Default::default() };
    let trip = |to: &NodeId| region.migrate(0..BYTES, *to, &how).expect("a good range and node");
    let to = [NODES[1], NODES[0]].into_iter().cycle().take(TRIPS).collect::<Vec<_>>();
    let reports: Vec<MigrationReport> = with_writer(&region, || to.iter().map(trip).collect());
    assert_filled(&region);
    assert!(reports.iter().all(|report| report.account.moved == pages(BYTES)), "{reports:?}");
    assert_eq!(pages_by_node(&region, 0..BYTES), [(0, pages(BYTES))].into());

    let by_kernel =
        |reports: &[MigrationReport]| reports.iter().map(|r| r.by_kernel_pages).sum::<u64>();
    let all = by_kernel(&reports);
    assert!(all > 0, "the kernel's way was never tried: {reports:?}");
    let ours = reports.iter().map(|report| {
        let spent = report.step_times;
        spent.unmap_ns + spent.copy_ns + spent.map_ns + spent.supply_ns
    });
    let ours_ns = ours.sum::<u64>() / (pages(BYTES) * TRIPS as u64 - all).max(1);
    let kernel_ns = reports.iter().map(|report| report.step_times.kernel_ns).sum::<u64>() / all;
    let each = pages(BYTES) * TRIPS as u64;
    println!(
        "a page costs {ours_ns} ns by us, {kernel_ns} ns by the kernel; {all} of {each} went by \
         the kernel"
    );
    assert!(all < each, "ours was never tried: {reports:?}");
    assert!(ours_ns > 0 && kernel_ns > 0, "both are measured: {reports:?}");
    Ok(())
}

/// Goal: base pages that arrive as huge pages are on the destination and whole, beside a thread
/// that writes to them, to and fro. Each block of 2 MiB arrives so or is counted as one that did
/// not. A kernel that keeps empty page tables (before Linux 6.14) moves all of them as base pages.
fn arrive_huge() -> CaseOutcome {
    const BYTES: usize = 16 * MIB;
    const BLOCKS: u64 = 8;
    let pager = pager(BYTES)?;
    let how = Migration { arrive: Some(Arrive::Huge), ..Default::default() };
    let region = region(&pager, BYTES, PageSize::Base, NODES[0]);
    let first = region.migrate(0..BYTES, NODES[1], &how).expect("a good range and node");
    println!("{} arrived as huge pages, {} did not", first.huge_arrivals, first.huge_fallbacks);
    assert!([0, BLOCKS].contains(&first.huge_arrivals), "one kernel, one answer: {first:?}");
    for trip in 0..6 {
        let to = NODES[trip % 2];
        let report = with_writer(&region, || region.migrate(0..BYTES, to, &how));
        let report = report.expect("a good range and node");
        assert_eq!(report.account.moved, pages(BYTES), "{report:?}");
        assert!(report.huge_arrivals + report.huge_fallbacks <= BLOCKS, "{report:?}");
        assert_eq!(pages_by_node(&region, 0..BYTES), [(to.0, pages(BYTES))].into());
        if first.huge_arrivals == 0 {
            assert_eq!((report.huge_arrivals, report.huge_fallbacks), (0, BLOCKS), "{report:?}");
        }
    }
    assert_eq!(first.huge_arrivals + first.huge_fallbacks, BLOCKS, "{first:?}");
    assert_filled(&region);
    Ok(())
}
