//! Programs, and a kernel feature (KSM), that change memory which the pager moves.

use std::sync::atomic::Ordering::Relaxed;

use nodeward_linux::interference::{
    ChildExit, MemoryChange, change_memory, merge_equal_pages, run_in_child,
};
use nodeward_model::SkipReason;
use nodeward_pager::{Backend, Migration, PagerOptions, Placement, Region, RegionOptions, Supply};

use super::pager::{
    MIB, NODES, SIZES, assert_filled, fill, open_with_backend, pager, pages, pages_by_node, region,
};
use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{kib, read, wait_until, write, write_optional};

pub const CASES: [(&str, CaseFn); 2] =
    [("pager_merged", merged), ("pager_by_remap_meddled", by_remap_with_interference)];

/// A way to bring back pages that were left out.
type PullTrigger = (&'static str, fn(&Region));

const PULL_TRIGGERS: [PullTrigger; 5] = [
    ("touch", |region| assert!(is_alike(region))),
    ("fork", |region| {
        let ended = run_in_child(|| u8::from(!is_alike(region))).expect("a child");
        assert_eq!(ended, ChildExit::Code(0));
    }),
    ("migrate", |region| {
        let report = region.migrate(0..region.bytes(), NODES[1], &Migration::default());
        let account = report.expect("a good range and node").account;
        assert_eq!(account.selected(), pages(region.bytes()), "{account:?}");
    }),
    ("pin", |region| drop(region.pin(0..region.bytes()).expect("a good range"))),
    ("discard", |region| {
        region.discard(0..2 * MIB).expect("a good range");
        assert!(region.words()[..2 * MIB / 8].iter().all(|word| word.load(Relaxed) == 0));
        fill_alike(region);
    }),
];

fn fill_alike(region: &Region) {
    region.words().iter().zip(0..).for_each(|(word, index)| word.store(index % 512 + 1, Relaxed));
}

fn is_alike(region: &Region) -> bool {
    region.words().iter().zip(0..).all(|(word, index)| word.load(Relaxed) == index % 512 + 1)
}

/// Goal: pages that KSM merged while they were left out come back with their content, in whichever
/// way they are brought back.
fn merged() -> CaseOutcome {
    const BYTES: usize = 4 * MIB;
    merge_equal_pages(false)
        .map_err(|error| CaseSkipped(format!("PR_SET_MEMORY_MERGE: {error}")))?;
    write_optional("/sys/kernel/mm/ksm/pages_to_scan", "100000")?;
    write("/sys/kernel/mm/ksm/sleep_millisecs", "1");
    write("/sys/kernel/mm/ksm/run", "1");
    let pager = pager(0)?;
    let merged = || -> u64 {
        let text = read("/proc/self/ksm_merging_pages");
        text.trim().parse().expect("a number")
    };
    for page in SIZES {
        for (name, come_home) in PULL_TRIGGERS {
            let region = region(&pager, BYTES, page, NODES[0]);
            fill_alike(&region);
            let report = region.migrate_lazily(0..BYTES, &Migration::default());
            assert_eq!(report.expect("a good range").lazy_pages, pages(BYTES));
            merge_equal_pages(true).expect("as before");
            wait_until("pages are merged", || merged() > pages(BYTES) * 9 / 10);
            come_home(&region);
            assert!(is_alike(&region), "{page:?} {name}");
            merge_equal_pages(false).expect("as before");
            println!("{page:?} {name}: home");
        }
    }
    write("/sys/kernel/mm/ksm/run", "2");
    Ok(())
}

/// Goal: where pages leave by mremap(2), those that are hidden, protected or locked stay as
/// unmovable, and so does a file; locked pages stay locked, and every call returns.
fn by_remap_with_interference() -> CaseOutcome {
    const BYTES: usize = 8 * MIB;
    const PART: std::ops::Range<usize> = MIB..2 * MIB;
    let pager = open_with_backend(Backend::Remap, &PagerOptions::default())?;
    let declared = RegionOptions { free_of_dma: true, ..Default::default() };
    let region = pager.reserve(BYTES, &declared).expect("address space");
    region.commit(0..BYTES, &Placement::Node(NODES[0])).expect("node 0 has room");
    fill(&region);
    let part = &region.words()[PART.start / 8..PART.end / 8];
    // The kernel's own migration, which is tried now and then, moves what is locked or hidden and
    // leaves it so.
    let migrate = |to| {
        let how = Migration { supply: Supply::OneWay, ..Migration::default() };
        region.migrate(0..BYTES, to, &how).expect("a good range and node").account
    };
    let stays = pages(PART.len());
    let mut nodes = NODES.into_iter().cycle().skip(1);
    let mut assert_stays = |how| {
        change_memory(part, how).expect("the words are ours");
        let account = migrate(nodes.next().expect("without end"));
        assert_eq!(account.skipped_for(SkipReason::Unmovable), stays, "{how:?} {account:?}");
        assert_eq!(account.moved, pages(BYTES) - stays, "{how:?} {account:?}");
        println!("{how:?}: stays");
    };
    for how in [MemoryChange::ProtectNone, MemoryChange::ProtectReadOnly] {
        assert_stays(how);
        change_memory(part, MemoryChange::Unprotect).expect("the words are ours");
        assert_filled(&region);
        assert_eq!(pages_by_node(&region, PART), [(0, stays)].into());
    }
    assert_stays(MemoryChange::Lock);
    assert_eq!(kib("/proc/self/status", "VmLck"), PART.len() as u64 / 1024);
    assert_filled(&region);
    assert_stays(MemoryChange::MapFile);
    Ok(())
}
