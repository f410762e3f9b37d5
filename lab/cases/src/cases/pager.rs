//! Memory of our own that the pager moves between nodes while it is in use.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{CpuId, NodeId, SkipReason};
use nodeward_pager::{
    Backend, Migration, MigrationReport, Mode, PageSize, Pager, PagerOptions, Placement, Region,
    RegionOptions, Supply,
};

use super::exchange::{give_back, leave_free};
use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{MemoryCgroup, vmstat, wait_until, write_optional};
use crate::numa_maps::{PagesByNode, pages_of, pages_within};

pub const CASES: [(&str, CaseFn); 9] = [
    ("pager_under_a_writer", under_a_writer),
    ("pager_placement", placement),
    ("pager_exchange_full_nodes", exchange_full_nodes),
    ("pager_lazily", lazily),
    ("pager_destination_full", destination_full),
    ("pager_destination_fills_up", destination_fills_up),
    ("pager_few_mappings", few_mappings),
    ("pager_by_remap", by_remap),
    ("pager_in_a_full_group", in_a_full_group),
];

pub const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
pub const SIZES: [PageSize; 2] = [PageSize::Base, PageSize::Huge];
pub const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];

/// Creates a pager that moves pages itself and keeps `pool` bytes on each node.
pub fn pager(pool: usize) -> Result<Pager, CaseSkipped> {
    open_with_backend(
        Backend::Move,
        &PagerOptions { pool_bytes: Some(pool as u64), ..Default::default() },
    )
}

pub fn open_with_backend(backend: Backend, options: &PagerOptions) -> Result<Pager, CaseSkipped> {
    disable_numa_balancing();
    let pager = Pager::open(options).expect("a pager");
    let why = pager.why_not_faster().unwrap_or("there is a faster one").to_owned();
    if pager.backend() == backend { Ok(pager) } else { Err(CaseSkipped(why)) }
}

/// Disables the kernel's own page moves.
pub(super) fn disable_numa_balancing() {
    write_optional("/proc/sys/kernel/numa_balancing", "0").ok(); // kernels that lack it never do
}

/// Creates a region on a node, in which each word holds its index.
pub fn region(pager: &Pager, bytes: usize, page: PageSize, node: NodeId) -> Region {
    let region = reserve(pager, bytes, page, Placement::default());
    region.commit(0..bytes, &Placement::Node(node)).expect("node has room");
    fill(&region);
    assert_eq!(pages_by_node(&region, 0..bytes), [(node.0, pages(bytes))].into());
    region
}

fn reserve(pager: &Pager, bytes: usize, page: PageSize, placement: Placement) -> Region {
    let options = RegionOptions { page, placement, ..Default::default() };
    pager.reserve(bytes, &options).expect("address space")
}

pub fn fill(region: &Region) {
    region.words().iter().zip(0..).for_each(|(word, index)| word.store(index, Relaxed));
}

pub fn assert_filled(region: &Region) {
    let wrong = region.words().iter().zip(0..).find(|(word, index)| word.load(Relaxed) != *index);
    assert!(wrong.is_none(), "{wrong:?}");
}

pub fn pages(bytes: usize) -> u64 {
    (bytes / PAGE) as u64
}

/// Returns the places of the pages of a part of a region, and checks that the pager reports the
/// same.
pub fn pages_by_node(region: &Region, part: Range<usize>) -> PagesByNode {
    let told = region.residency(part.clone()).expect("a good range");
    let told: PagesByNode = told.into_iter().map(|(node, pages)| (node.0, pages)).collect();
    if part == (0..region.bytes()) {
        let start = region.as_ptr() as u64;
        let seen = pages_within(std::process::id(), &(start..start + region.bytes() as u64));
        assert_eq!(told, seen, "what the pager and /proc/self/numa_maps say");
    }
    told
}

fn by(supply: Supply) -> Migration<'static> {
    Migration { supply, ..Default::default() }
}

fn migrate(region: &Region, to: NodeId, supply: Supply) -> MigrationReport {
    region.migrate(0..region.bytes(), to, &by(supply)).expect("a good range and node")
}

/// Checks that all pages of a region moved, and how.
fn assert_all_moved(report: &MigrationReport, region: &Region, to: NodeId) {
    assert_eq!(report.account.moved, pages(region.bytes()), "{report:?}");
    assert_eq!(report.account.skipped_total(), 0, "{report:?}");
    assert_eq!(pages_by_node(region, 0..region.bytes()), [(to.0, pages(region.bytes()))].into());
}

/// Runs `work` while a thread adds one to every 64th word repeatedly, at least once, and checks the
/// previous values, on every CPU in turn. Fails if a word was lost.
pub fn with_writer<T>(region: &Region, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for rounds in 0.. {
                Linux::open().pin_current_thread(CpuId(rounds as u32 % 2));
                for (word, index) in region.words().iter().step_by(64).zip((0..).step_by(64)) {
                    assert_eq!(word.fetch_add(1, Relaxed), index + rounds, "a write was lost");
                }
                if stop.load(Acquire) {
                    break;
                }
            }
        });
        let ending = StopOnDrop(&stop);
        let done = work();
        drop(ending);
        writer.join().expect("the writer lost nothing");
        fill(region);
        done
    })
}

/// Stops a thread when dropped, also when the case fails: the failure would not show while the
/// thread runs.
pub(super) struct StopOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

/// Runs `work` on a CPU of a node.
pub(super) fn on_node<T: Send>(node: NodeId, work: impl FnOnce() -> T + Send) -> T {
    let here = move || {
        Linux::open().pin_current_thread(CpuId(node.0)); // one CPU on each node, of the same number
        work()
    };
    thread::scope(|scope| scope.spawn(here).join().expect("the work is done"))
}

/// Goal: pages of both sizes move to the other node and back with either supply while a thread
/// writes; each is where the report says, and no write is lost.
fn under_a_writer() -> CaseOutcome {
    const BYTES: usize = 16 * MIB;
    let pager = pager(BYTES)?;
    for page in SIZES {
        let region = region(&pager, BYTES, page, NODES[0]);
        // A migration leaves as many pages behind as the next one back can use.
        let trips = [Supply::OneWay, Supply::Recycled, Supply::Recycled, Supply::OneWay];
        for (supply, to) in trips.into_iter().zip([1, 0, 1, 0].map(NodeId)) {
            let report = with_writer(&region, || migrate(&region, to, supply));
            assert_all_moved(&report, &region, to);
            let by_supply = [report.recycled_pages, report.one_way_pages];
            let all = pages(BYTES);
            let recycled = supply == Supply::Recycled || page == PageSize::Huge;
            assert_eq!(by_supply, if recycled { [all, 0] } else { [0, all] }, "{supply:?}");
            let ms = report.took_ns / 1_000_000;
            println!("{page:?} {supply:?} to {to}: {ms} ms, {} batches", report.batches);
            let again = migrate(&region, to, supply);
            assert_eq!((again.account.already_there, again.account.moved), (all, 0));
        }
        drop(region);
        pager.trim();
    }
    Ok(())
}

/// Goal: memory comes from the node that it was reserved for, whichever thread touches it, and
/// committed memory from the named nodes.
fn placement() -> CaseOutcome {
    const BYTES: usize = 4 * MIB;
    let pager = pager(0)?;
    // A fault of each 16th page shows its node; a huge page comes whole.
    let touch = |region: &Region| {
        let words = region.words().iter().step_by(16 * PAGE / 8);
        words.for_each(|word| word.store(1, Relaxed));
    };
    let both = Placement::Interleaved([NODES[0], NODES[1]].into_iter().collect());
    let half = pages(BYTES) / 2;
    for (page, some) in SIZES.into_iter().zip([half / 16, half]) {
        let touched = reserve(&pager, BYTES, page, Placement::Node(NODES[1]));
        on_node(NODES[0], || touch(&touched));
        assert_eq!(pages_by_node(&touched, 0..BYTES), [(1, some * 2)].into());
        let touched = reserve(&pager, BYTES, page, both.clone());
        on_node(NODES[0], || touch(&touched));
        assert_eq!(pages_by_node(&touched, 0..BYTES), [(0, some), (1, some)].into());
        let local = reserve(&pager, BYTES, page, Placement::Local);
        on_node(NODES[1], || touch(&local));
        assert_eq!(pages_by_node(&local, 0..BYTES), [(1, some * 2)].into());
        let committed = reserve(&pager, BYTES, page, Placement::Local);
        committed.commit(0..BYTES, &both).expect("the nodes have room");
        assert_eq!(pages_by_node(&committed, 0..BYTES), [(0, half), (1, half)].into());
        assert_eq!(pages_by_node(&committed, 0..2 * MIB), [(0, 512)].into());
        // Half of it is there already, and the account says so.
        let report = migrate(&committed, NODES[1], Supply::Any);
        assert_eq!((report.account.moved, report.account.already_there), (half, half));
        assert_eq!(pages_by_node(&committed, 0..BYTES), [(1, half * 2)].into());
    }
    Ok(())
}

/// Goal: two ranges change places though each node has room for a fraction of them.
fn exchange_full_nodes() -> CaseOutcome {
    const HALF: usize = 64 * MIB;
    let pager = pager(8 * MIB)?;
    for page in SIZES {
        let region = reserve(&pager, 2 * HALF, page, Placement::Local);
        for (node, start) in NODES.into_iter().zip([0, HALF]) {
            region.commit(start..start + HALF, &Placement::Node(node)).expect("node has room");
        }
        fill(&region);
        leave_free(48 << 10);
        let report = region.exchange(0..HALF, HALF..2 * HALF, &Migration::default());
        let report = report.expect("good ranges");
        let first = pages_by_node(&region, 0..HALF);
        let second = pages_by_node(&region, HALF..2 * HALF);
        give_back();
        assert_eq!(report.account.moved, pages(2 * HALF), "{report:?}");
        assert_eq!((first, second), ([(1, pages(HALF))].into(), [(0, pages(HALF))].into()));
        assert_filled(&region);
        println!("{page:?} exchanged: {} of them recycled", report.recycled_pages);
        drop(region);
        pager.trim();
    }
    Ok(())
}

/// Goal: pages that are left out move to the node of the thread that touches them, a granule at a
/// time; untouched ones stay.
fn lazily() -> CaseOutcome {
    const BYTES: usize = 16 * MIB;
    let pager = pager(0)?;
    for (page, granule) in SIZES.into_iter().zip([256 << 10, 2 * MIB]) {
        let region = region(&pager, BYTES, page, NODES[0]);
        let before = pages_of(std::process::id())[&0];
        let how = Migration::default();
        let report = region.migrate_lazily(0..BYTES, &how).expect("a good range");
        assert_eq!(report.lazy_pages, pages(BYTES), "{report:?}");
        assert_eq!(pages_by_node(&region, 0..BYTES), PagesByNode::new());
        let word = |at: usize| region.words()[at / 8].load(Relaxed);
        let touched = [0, 4 * MIB + 4096, 8 * MIB];
        let values = on_node(NODES[1], || touched.map(word));
        assert_eq!(values, touched.map(|at| at as u64 / 8));
        let pulled = pages(touched.len() * granule);
        assert_eq!(pages_by_node(&region, 0..BYTES), [(1, pulled)].into());
        // A thread that is there already does not move the pages that it touches.
        assert_eq!(on_node(NODES[0], || word(12 * MIB)), 12 * MIB as u64 / 8);
        let placed = [(0, pages(granule)), (1, pulled)].into();
        assert_eq!(pages_by_node(&region, 0..BYTES), placed);
        on_node(NODES[1], || assert_filled(&region));
        let all: PagesByNode = [(0, pages(granule)), (1, pages(BYTES - granule))].into();
        assert_eq!(pages_by_node(&region, 0..BYTES), all);
        // The source pages are free: none is kept. Other parts of this process may take or free a
        // few. The thread behind faults frees the last chunk after it woke the thread that touched
        // it.
        wait_until("the pages are free", || {
            let gone = before.saturating_sub(pages_of(std::process::id())[&0]);
            gone.abs_diff(all[&1]) < 64
        });
    }
    Ok(())
}

/// Checks a migration to a node that cannot take everything, whatever it could take.
fn assert_exact(report: &MigrationReport, region: &Region, before: &PagesByNode) {
    let moved = report.account.moved;
    let there = before.get(&1).copied().unwrap_or(0);
    assert_eq!(report.account.selected(), pages(region.bytes()), "{report:?}");
    assert_eq!(report.account.already_there, there, "{report:?}");
    let after = pages_by_node(region, 0..region.bytes());
    assert_eq!(after.get(&1).copied().unwrap_or(0), there + moved, "{report:?}");
    assert_eq!(after.values().sum::<u64>(), pages(region.bytes()), "{report:?}");
}

/// Goal: a node that fills up takes what it can, and the rest stays and is reported; no process is
/// killed. (Node 1 is small there.)
fn destination_full() -> CaseOutcome {
    const BYTES: usize = 128 * MIB;
    let pager = pager(16 * MIB)?;
    let killed = vmstat("oom_kill");
    for (page, supply) in [(0, Supply::Any), (0, Supply::OneWay), (1, Supply::Any)] {
        let region = region(&pager, BYTES, SIZES[page], NODES[0]);
        let before = pages_by_node(&region, 0..BYTES);
        let report = with_writer(&region, || migrate(&region, NODES[1], supply));
        println!("{:?} {supply:?}: {:?}", SIZES[page], report.account);
        assert_exact(&report, &region, &before);
        let full = [SkipReason::NoMemory, SkipReason::NoHugePage, SkipReason::WrongNode];
        let left: u64 = full.into_iter().map(|why| report.account.skipped_for(why)).sum();
        assert_eq!(left, report.account.skipped_total(), "{report:?}");
        assert!(left > 0 && report.account.moved > 0, "{report:?}");
        assert_filled(&region);
        drop(region);
        pager.trim();
    }
    assert_eq!(vmstat("oom_kill"), killed);
    Ok(())
}

/// Goal: where others take the room while we use it, pages that the kernel had to place elsewhere
/// are not reported as moved. (Node 1 is small there.)
fn destination_fills_up() -> CaseOutcome {
    const BYTES: usize = 48 * MIB;
    const ROUNDS: usize = 3;
    let pager = pager(0)?;
    let killed = vmstat("oom_kill");
    let (mut moved, mut left) = (0, 0);
    let taken = AtomicUsize::new(0);
    let ((order, orders), (given, back)) = (channel(), channel());
    thread::scope(|scope| {
        // It ends with `order`, also when this thread panics.
        let order = order;
        let count = &taken;
        scope.spawn(move || hog_node(NODES[1], orders, count, &given));
        for round in 0..ROUNDS {
            for page in SIZES {
                let region = region(&pager, BYTES, page, NODES[0]);
                let before = pages_by_node(&region, 0..BYTES);
                taken.store(0, Release);
                order.send(()).expect("the other thread waits");
                // Once while the node is still empty, once when it is nearly full, and so on.
                while taken.load(Acquire) < round * 48 * MIB {
                    thread::yield_now();
                }
                let report = migrate(&region, NODES[1], Supply::OneWay);
                println!("{page:?}: {:?}", report.account);
                back.recv().expect("the other thread gives back");
                assert_exact(&report, &region, &before);
                assert_filled(&region);
                moved += report.account.moved;
                left += report.account.skipped_total();
            }
        }
    });
    assert!(moved > 0 && left > 0, "{moved} moved, {left} left");
    assert_eq!(vmstat("oom_kill"), killed);
    Ok(())
}

/// With each order, takes more memory of a node than it has, and frees it. The excess comes from
/// another node. It is one block, because allocators keep small ones.
fn hog_node(node: NodeId, orders: Receiver<()>, taken: &AtomicUsize, given: &Sender<()>) {
    const BYTES: usize = 160 * MIB;
    nodeward_linux::mempolicy::prefer_memory(node).expect("the node is ours to use");
    for () in orders {
        let mut block: Vec<u8> = Vec::with_capacity(BYTES);
        while block.len() < BYTES {
            block.extend_from_slice(&[1; MIB]);
            taken.store(block.len(), Release);
        }
        drop(block);
        if given.send(()).is_err() {
            return;
        }
    }
}

/// Goal: however much is moved or left out, mappings stay few: a process may have 65530 of them.
fn few_mappings() -> CaseOutcome {
    const BYTES: usize = 96 * MIB;
    let pager = pager(16 * MIB)?;
    for page in SIZES {
        let region = region(&pager, BYTES, page, NODES[0]);
        // The first large job starts the pager's threads, which have mappings of their own.
        migrate(&region, NODES[1], Supply::Any);
        migrate(&region, NODES[0], Supply::Any);
        let before = mappings();
        // Of 48 huge pages every other one alone: those that are out are not contiguous.
        for (step, to) in [(2, NODES[1]), (1, NODES[1]), (3, NODES[0])] {
            for start in (0..BYTES).step_by(2 * MIB * step) {
                let part = start..start + 2 * MIB;
                let report = region.migrate(part, to, &by(Supply::Any)).expect("a good range");
                assert_eq!(report.account.skipped_total(), 0, "{report:?}");
            }
            assert_few_more(before, 24);
        }
        region.migrate_lazily(0..BYTES, &by(Supply::Any)).expect("a good range");
        assert_few_more(before, 24);
        let touched = region.words().iter().step_by(3 * MIB / 8);
        let sum = on_node(NODES[1], || touched.map(|word| word.load(Relaxed)).sum::<u64>());
        assert!(sum > 0, "words say where they are");
        assert_few_more(before, 24);
        assert_filled(&region);
    }
    Ok(())
}

/// Goal: on a kernel without UFFDIO_MOVE the pager moves memory that is declared free of DMA by
/// mremap(2): nothing is lost, missing pages are reported, and mappings stay few. Other memory does
/// not use that method.
fn by_remap() -> CaseOutcome {
    const BYTES: usize = 8 * MIB;
    let pager = open_with_backend(Backend::Remap, &PagerOptions::default())?;
    let declared = RegionOptions { free_of_dma: true, ..Default::default() };
    let region = pager.reserve(BYTES, &declared).expect("address space");
    region.commit(0..BYTES, &Placement::Node(NODES[0])).expect("node 0 has room");
    fill(&region);
    let before = mappings();
    for (to, supply) in [(1, Supply::OneWay), (0, Supply::Any), (1, Supply::Any)] {
        let to = NodeId(to);
        let report = with_writer(&region, || migrate(&region, to, supply));
        assert_all_moved(&report, &region, to);
        assert_eq!(report.one_way_pages, pages(BYTES), "{report:?}");
        println!("to {to}: {} ms, {} batches", report.took_ns / 1_000_000, report.batches);
    }
    let report = migrate(&region, NODES[0], Supply::Recycled);
    assert_eq!(report.account.skipped_for(SkipReason::NoMemory), pages(BYTES), "{report:?}");

    // Every fourth page of a chunk moves alone, so that the rest is 128 ranges.
    for start in (0..2 * MIB).step_by(4 * PAGE) {
        let report = region.migrate(start..start + PAGE, NODES[0], &Migration::default());
        assert_eq!(report.expect("a good range").account.moved, 1);
    }
    let most = AtomicUsize::new(0);
    let look = |_| _ = most.fetch_max(mappings(), Relaxed);
    let how = Migration { progress: Some(&look), ..Default::default() };
    let report = with_writer(&region, || region.migrate(0..BYTES, NODES[0], &how));
    let account = report.expect("a good range").account;
    assert_eq!((account.moved, account.already_there), (pages(BYTES) - 128, 128));
    assert_eq!(pages_by_node(&region, 0..BYTES), [(0, pages(BYTES))].into());
    assert!(most.into_inner() < before + 100, "{before} mappings before");
    assert_few_more(before, 100);

    region.discard(4 * MIB..6 * MIB).expect("a good range");
    let account = migrate(&region, NODES[1], Supply::Any).account;
    assert_eq!(account.skipped_for(SkipReason::NotPresent), pages(2 * MIB));
    assert_eq!(account.moved, pages(BYTES - 2 * MIB));
    assert_eq!(region.words()[5 * MIB / 8].load(Relaxed), 0);

    let lazily = region.migrate_lazily(0..BYTES, &Migration::default());
    let told = lazily.expect_err("not without UFFDIO_MOVE").to_string();
    assert!(told.contains("UFFDIO_MOVE does not work here"), "{told}");
    let huge = RegionOptions { page: PageSize::Huge, ..declared };
    for options in [RegionOptions::default(), huge] {
        let region = pager.reserve(BYTES, &options).expect("address space");
        assert!(region.set_mode(Mode::Auto).is_err(), "only the kernel moves {options:?}");
        region.commit(0..BYTES, &Placement::Node(NODES[0])).expect("node 0 has room");
        fill(&region);
        let report = with_writer(&region, || migrate(&region, NODES[1], Supply::Any));
        assert_all_moved(&report, &region, NODES[1]);
        assert_eq!(report.batches, 0, "none of ours: {report:?}");
    }
    Ok(())
}

/// Goal: where a cgroup has no room for copies nothing moves, but for what was freed meanwhile, and
/// no process is killed; where it has a little, all pages move one after another.
fn in_a_full_group() -> CaseOutcome {
    const BYTES: usize = 32 * MIB;
    disable_numa_balancing();
    let pager = Pager::open(&PagerOptions::default()).expect("a pager");
    if pager.backend() == Backend::Kernel {
        return Err(CaseSkipped(pager.why_not_faster().unwrap_or_default().to_owned()));
    }
    // Only the faster method has huge pages.
    for page in SIZES.into_iter().take(if pager.backend() == Backend::Move { 2 } else { 1 }) {
        let group = MemoryCgroup::enter("pager")?;
        let options = RegionOptions { page, free_of_dma: true, ..Default::default() };
        let region = pager.reserve(BYTES, &options).expect("address space");
        region.commit(0..BYTES, &Placement::Node(NODES[0])).expect("node 0 has room");
        fill(&region);
        let killed = vmstat("oom_kill");
        group.limit_above_usage(4 << 20);
        let report = with_writer(&region, || migrate(&region, NODES[1], Supply::OneWay));
        let stayed = pages_by_node(&region, 0..BYTES)[&0];
        assert!(stayed >= pages(BYTES - 4 * MIB), "{report:?}");
        assert_eq!(report.account.skipped_for(SkipReason::NoMemory), stayed);
        group.limit_above_usage(24 << 20);
        let report = with_writer(&region, || migrate(&region, NODES[1], Supply::OneWay));
        assert_all_moved(&report, &region, NODES[1]);
        assert_eq!(vmstat("oom_kill"), killed);
        drop(region);
        pager.trim();
    }
    Ok(())
}

fn mappings() -> usize {
    crate::guest::read("/proc/self/maps").lines().count()
}

fn assert_few_more(before: usize, most: usize) {
    assert!(mappings() < before + most, "{before} mappings before, {} now", mappings());
}
