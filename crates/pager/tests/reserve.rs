//! Address space that is reserved costs no memory, however much it is.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_model::NodeId;
use nodeward_pager::{Migration, Pager, PagerOptions, RegionOptions};

const MIB: usize = 1 << 20;
const TIB: usize = 1 << 40;

/// Returns the memory of this process, including its page tables, in bytes.
fn memory_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let kib = |field: &str| -> usize {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    (kib("RssAnon:") + kib("VmPTE:")) << 10
}

/// Goal: 64 TiB can be reserved, used at both ends, moved there and freed, for less than 128 KiB a
/// TiB. Of that the table of chunks takes 16 (16 bytes for each of 1024 GiB), and 84 KiB for each
/// GiB that is used.
#[test]
fn a_reserve_costs_little() {
    const BYTES: usize = 64 * TIB;
    let pager = Pager::open(&PagerOptions::default()).unwrap();
    let before = memory_bytes();
    let region = match pager.reserve(BYTES, &RegionOptions::default()) {
        Ok(region) => region,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let ends = [0..2 * MIB, BYTES - 2 * MIB..BYTES];
    for end in ends.clone() {
        region.words()[end.start / 8].store(7, Relaxed);
        let how = Migration { even_if_there: true, ..Default::default() };
        let report = region.migrate(end.clone(), NodeId(0), &how);
        let skipped = report.map_or(0, |report| report.account.skipped_total());
        assert!(skipped <= (2 * MIB / 4096) as u64);
    }
    // Two chunks, and the pages that were emptied.
    let cost = memory_bytes().saturating_sub(before);
    eprintln!("{} KiB for 64 TiB", cost >> 10);
    assert!(cost < 64 * (128 << 10), "{cost} bytes");
    assert!(ends.into_iter().all(|end| region.words()[end.start / 8].load(Relaxed) == 7));
    drop(region);
}
