//! Regions whose pages the kernel moves, on whatever machine runs the test. On one node all pages
//! are there already; on several they go to each in turn, while a thread writes to them.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use nodeward_linux::interference::{MemoryChange, change_memory};
use nodeward_linux::nodes;
use nodeward_linux::test_wait::wait_for;
use nodeward_model::{NodeId, SkipReason};
use nodeward_pager::{
    Backend, Error, Migration, Mode, Pager, PagerOptions, Placement, Progress, Region,
    RegionOptions,
};

const MIB: usize = 1 << 20;

fn by_kernel_only() -> Pager {
    let options = PagerOptions { kernel_only: true, ..Default::default() };
    Pager::open(&options).unwrap()
}

fn nodes() -> Vec<NodeId> {
    let topology = nodeward_linux::sysfs::read_topology(Path::new("/")).unwrap();
    let allowed = nodes::nodestring_context(Path::new("/"), &topology).unwrap().allowed;
    allowed.and(&topology.nodes_with_memory()).iter().collect()
}

/// Returns whether the kernel's NUMA balancing may move pages during the test.
fn is_balancing() -> bool {
    let switch = fs::read_to_string("/proc/sys/kernel/numa_balancing");
    switch.is_ok_and(|text| text.trim() != "0")
}

/// Ends the writer also when an assertion fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Moves the first half of a region to each node, while a thread counts in the words of the whole.
/// Checks that account and residency cover every page, and that no count is lost.
fn visits_every_node(region: &Region) {
    let ended = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        let writer = scope.spawn(|| count_until(&ended, region));
        let end = EndOnDrop(&ended);
        nodes().into_iter().for_each(|node| migrates_to(region, node));
        drop(end);
        writer.join().unwrap()
    });
    assert!(region.words().iter().step_by(64).all(|word| word.load(Relaxed) == rounds));
}

fn count_until(ended: &AtomicBool, region: &Region) -> u64 {
    let mut rounds = 0;
    while !ended.load(Relaxed) {
        region.words().iter().step_by(64).for_each(|word| {
            word.fetch_add(1, Relaxed);
        });
        rounds += 1;
    }
    rounds
}

fn migrates_to(region: &Region, node: NodeId) {
    let half = region.bytes() / 2;
    let pages = (half / rustix::param::page_size()) as u64;
    let there = |found: &BTreeMap<NodeId, u64>| found.get(&node).copied().unwrap_or(0);
    let before = residency(region, half);
    let report = region.migrate(0..half, node, &Migration::default()).unwrap();
    let after = residency(region, half);
    let told = format!("{before:?} {report:?} {after:?}");
    assert_eq!(report.account.selected(), pages, "{told}");
    if is_balancing() {
        return; // Pages may have moved concurrently, before and after.
    }
    // A fault of the writer may hold a page just then, and compaction some: at most 32 at a time on
    // each CPU. Three retries are not always enough.
    let (open, cpus) = (report.account.skipped_total(), thread::available_parallelism().unwrap());
    assert!(open <= 32 * (cpus.get() as u64 + 1), "{told}");
    let expected = there(&before).saturating_sub(open)..=there(&before);
    assert!(expected.contains(&report.account.already_there), "{told}");
    assert!(there(&after) >= pages - open, "{told}");
}

/// Returns the nodes of the first pages of a region, once each of them is on one: during compaction
/// the kernel takes some out of sight for a moment.
fn residency(region: &Region, bytes: usize) -> BTreeMap<NodeId, u64> {
    let pages = (bytes / rustix::param::page_size()) as u64;
    wait_for("every page is somewhere", || {
        let found = region.residency(0..bytes).unwrap();
        (found.values().sum::<u64>() == pages).then_some(found)
    })
}

#[test]
fn a_pager_of_the_kernels_moves_and_counts() {
    let pager = by_kernel_only();
    assert_eq!((pager.backend(), pager.copier()), (Backend::Kernel, None));
    let region = pager.reserve(8 * MIB, &RegionOptions::default()).unwrap();
    region.commit(0..region.bytes(), &Placement::Local).unwrap();
    visits_every_node(&region);
}

/// Goal: a region that the pager could move may be left to the kernel, and be taken back.
#[test]
fn a_managed_region_may_be_left_to_the_kernel() {
    let pager = Pager::open(&PagerOptions::default()).unwrap();
    let region = pager.reserve(8 * MIB, &RegionOptions::default()).unwrap();
    region.commit(0..region.bytes(), &Placement::Local).unwrap();
    region.set_mode(Mode::Kernel).unwrap();
    visits_every_node(&region);
    assert_eq!(region.set_mode(Mode::Auto).is_ok(), pager.backend() != Backend::Kernel);
}

/// Goal: pages that were never touched are reported as not present, and stay so.
#[test]
fn what_was_never_touched_is_not_there() {
    let region = by_kernel_only().reserve(4 * MIB, &RegionOptions::default()).unwrap();
    region.commit(0..MIB, &Placement::Local).unwrap();
    let last = std::cell::Cell::new(Progress::default());
    let progress = |progress| last.set(progress);
    let how = Migration { progress: Some(&progress), ..Default::default() };
    let report = region.migrate(0..4 * MIB, nodes()[0], &how).unwrap();
    let pages = |bytes: usize| (bytes / rustix::param::page_size()) as u64;
    assert_eq!(report.account.skipped, [(SkipReason::NotPresent, pages(3 * MIB))].into());
    assert_eq!(region.residency(0..4 * MIB).unwrap().values().sum::<u64>(), pages(MIB));
    let all = 4 * MIB as u64;
    assert_eq!(last.get(), Progress { examined_bytes: all, total_bytes: all });
}

/// Goal: parts that the program has protected are left out, their neighbours are not, and they can
/// be committed afterwards. Of 1024 pages, 2 are read-only and 3 inaccessible: 1019 are brought in.
#[test]
fn what_is_protected_is_not_committed() {
    let page = rustix::param::page_size();
    let protect = |region: &Region, pages: Range<usize>, how| {
        let words = pages.start * page / 8..pages.end * page / 8;
        change_memory(&region.words()[words], how).unwrap();
    };
    for placement in [Placement::Local, Placement::Node(nodes()[0])] {
        let region = by_kernel_only().reserve(1024 * page, &RegionOptions::default()).unwrap();
        let there = || region.residency(0..1024 * page).unwrap().values().sum::<u64>();
        protect(&region, 100..102, MemoryChange::ProtectReadOnly);
        protect(&region, 1021..1024, MemoryChange::ProtectNone);
        region.commit(0..1024 * page, &placement).unwrap();
        wait_for("1019 pages are there", || (there() == 1019).then_some(()));
        protect(&region, 0..1024, MemoryChange::Unprotect);
        region.commit(0..1024 * page, &placement).unwrap();
        wait_for("all pages are there", || (there() == 1024).then_some(()));
    }
}

/// Goal: operations that need userfaultfd are refused with the reason.
#[test]
fn what_the_kernel_cannot_do_is_refused() {
    let region = by_kernel_only().reserve(4 * MIB, &RegionOptions::default()).unwrap();
    let lazy = region.migrate_lazily(0..MIB, &Migration::default()).unwrap_err();
    assert!(matches!(lazy, Error::NeedsUserfaultfd { .. }), "{lazy}");
    assert!(lazy.to_string().contains("kernel_only"), "{lazy}");
    let nowhere = region.migrate(0..MIB, NodeId(1000), &Migration::default()).unwrap_err();
    assert!(matches!(nowhere, Error::UnknownNode { node: NodeId(1000) }), "{nowhere}");
}
