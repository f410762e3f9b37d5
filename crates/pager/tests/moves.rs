//! Regions that move while they are in use, on whatever machine runs the test.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nodeward_linux::Linux;
use nodeward_linux::test_wait::rounds;
use nodeward_machine::Machine;
use nodeward_model::{NodeId, SkipReason};
use nodeward_pager::{
    Backend, Migration, PageSize, Pager, PagerOptions, Placement, PoolOptions, Region,
    RegionOptions, RunRequest, Supply,
};

const MIB: usize = 1 << 20;

/// Opens a pager that moves pages itself; `None`, with a message, where there is none.
fn pager(options: &PagerOptions) -> Option<Pager> {
    let pager = Pager::open(options).unwrap();
    let why = pager.why_not_faster().unwrap_or_default();
    match pager.backend() {
        Backend::Move => Some(pager),
        _ => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// Options of a pager that keeps `bytes` bytes even if memory gets short.
fn options_keeping(bytes: usize) -> PagerOptions {
    let pool = PoolOptions { housekeeper: false, ..Default::default() };
    PagerOptions { pool_bytes: Some(bytes as u64), pool, ..Default::default() }
}

fn region(pager: &Pager, bytes: usize, page: PageSize) -> Region {
    let region = pager.reserve(bytes, &RegionOptions { page, ..Default::default() }).unwrap();
    region.commit(0..region.bytes(), &Placement::Local).unwrap();
    region
}

/// Writes its position into every word.
fn fill(region: &Region) {
    region.words().iter().enumerate().for_each(|(index, word)| word.store(index as u64, Relaxed));
}

fn assert_filled(region: &Region) {
    let wrong = region.words().iter().enumerate().find(|(i, word)| word.load(Relaxed) != *i as u64);
    assert_eq!(wrong.map(|(index, word)| (index, word.load(Relaxed))), None);
}

fn even_if_there(supply: Supply) -> Migration<'static> {
    Migration { supply, even_if_there: true, ..Default::default() }
}

/// Goal: for all page sizes and supplies, all pages are moved and all words are unchanged.
#[test]
fn content_survives_every_backend() {
    let Some(pager) = pager(&options_keeping(64 * MIB)) else { return };
    for page in [PageSize::Base, PageSize::Huge] {
        let region = region(&pager, 16 * MIB, page);
        fill(&region);
        for supply in [Supply::OneWay, Supply::Recycled, Supply::Any] {
            let whole = 0..region.bytes();
            let report = region.migrate(whole, NodeId(0), &even_if_there(supply)).unwrap();
            eprintln!("{page:?} {supply:?} {report:?}");
            let pages = (16 * MIB / rustix::param::page_size()) as u64;
            assert_eq!(report.account.moved, pages, "{report:?}");
            assert_filled(&region);
        }
    }
}

/// Goal: free pages have one owner: the program can allocate pages that a migration emptied, and
/// pages that the program frees are destinations of the next migration.
#[test]
fn emptied_pages_and_freed_pages_are_the_same() {
    let Some(pager) = pager(&options_keeping(16 * MIB)) else { return };
    // Pages in the list of another CPU would be of no use here.
    let machine = Linux::open();
    machine.pin_current_thread(machine.usable_cpus().unwrap().first().unwrap());
    let (pool, region) = (pager.pool(), region(&pager, 8 * MIB, PageSize::Base));
    fill(&region);
    let whole = || 0..region.bytes();
    region.migrate(whole(), NodeId(0), &even_if_there(Supply::OneWay)).unwrap();
    let pages = (8 * MIB / pool.page_bytes()) as u64;
    assert_eq!(pool.stats().zone_free_pages, pages, "the 8 MiB that were moved away from");

    let wanted = RunRequest { order: 2, node: Some(NodeId(0)), ..RunRequest::default() };
    let runs: Vec<_> = (0..pages / 4).map(|_| pool.run(&wanted).unwrap()).collect();
    assert_eq!(pool.stats().held_pages, pages, "the kernel was not asked for more");
    let nothing = region.migrate(whole(), NodeId(0), &even_if_there(Supply::Recycled)).unwrap();
    assert_eq!(nothing.account.skipped_for(SkipReason::NoMemory), pages);
    drop(runs);
    pool.stats().lists.iter().for_each(|list| assert!(list.pages > 0));
    pool.tick();
    let report = region.migrate(whole(), NodeId(0), &even_if_there(Supply::Recycled)).unwrap();
    assert!(report.recycled_pages >= pages / 2, "all but what lists keep chunks with: {report:?}");
    assert_filled(&region);
}

/// Goal: no write is lost while pages move.
#[test]
fn a_writer_loses_nothing() {
    let Some(pager) = pager(&PagerOptions::default()) else { return };
    write_while_pages_move(&pager, 10);
}

/// Goal: nor while compaction moves the same pages, to make room for huge ones. Where the kernel
/// moves many at once (Linux 6.18) it does not count some of them then; see `Uffd::move_pages`.
#[test]
fn a_writer_loses_nothing_while_the_kernel_compacts_memory() {
    let Some(pager) = pager(&PagerOptions::default()) else { return };
    let compact = || std::fs::write("/proc/sys/vm/compact_memory", "1");
    if let Err(error) = compact() {
        return eprintln!("skipped: memory cannot be compacted here ({error})");
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let compactor = scope.spawn(|| {
            while !stop.load(Acquire) {
                compact().unwrap();
            }
        });
        let end = EndOnDrop(&stop);
        // Memory that was just mapped is compacted once: three chances.
        (0..3).for_each(|_| write_while_pages_move(&pager, 20));
        drop(end);
        compactor.join().unwrap();
    });
}

/// Moves a region at least `times` times while a thread counts in it. Pages may be held for a
/// moment, by the kernel: it goes on until none was.
fn write_while_pages_move(pager: &Pager, times: u64) {
    let region = region(pager, 32 * MIB, PageSize::Base);
    let stop = AtomicBool::new(false);
    let pages = (32 * MIB / rustix::param::page_size()) as u64;
    let whole = Cell::new(false);
    std::thread::scope(|scope| {
        let _end = EndOnDrop(&stop);
        let writer = scope.spawn(|| count_rounds(&region, &stop));
        for _ in rounds(times, "every page of a region moves", || whole.get()) {
            let how = even_if_there(Supply::Any);
            let report = region.migrate(0..region.bytes(), NodeId(0), &how).unwrap();
            assert_eq!(report.account.selected(), pages, "{report:?}");
            whole.set(whole.get() || report.account.moved == pages);
        }
        stop.store(true, Release);
        assert!(writer.join().unwrap() > 0);
    });
}

/// Ends threads that count or compact, also when an assertion fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

/// Adds 1 to one word in 64 repeatedly, and checks that each word is as it was left.
fn count_rounds(region: &Region, stop: &AtomicBool) -> u64 {
    let mut rounds = 0;
    loop {
        for word in region.words().iter().step_by(64) {
            assert_eq!(word.fetch_add(1, Relaxed), rounds);
        }
        rounds += 1;
        if stop.load(Acquire) {
            return rounds;
        }
    }
}

/// Goal: pages that are left out come back by a touch, and untouched pages cost nothing.
#[test]
fn lazy_pages_come_by_touch() {
    let Some(pager) = pager(&PagerOptions::default()) else { return };
    for page in [PageSize::Base, PageSize::Huge] {
        let region = region(&pager, 16 * MIB, page);
        fill(&region);
        let how = even_if_there(Supply::Any);
        let report = region.migrate_lazily(0..region.bytes(), &how).unwrap();
        assert_eq!(report.lazy_pages, (16 * MIB / rustix::param::page_size()) as u64);
        assert_filled(&region);
        let report = region.migrate_lazily(0..region.bytes(), &how).unwrap();
        assert_eq!(report.account.skipped_total(), 0, "{report:?}");
    }
}

/// Goal: memory that was never touched reads as zero, and a migration reports it as not present.
#[test]
fn untouched_memory_reads_as_zero() {
    let Some(pager) = pager(&PagerOptions::default()) else { return };
    let region = pager.reserve(4 * MIB, &RegionOptions::default()).unwrap();
    assert!(region.words().iter().step_by(1000).all(|word| word.load(Relaxed) == 0));
    region.discard(0..2 * MIB).unwrap();
    let report = region.migrate(0..2 * MIB, NodeId(0), &even_if_there(Supply::Any)).unwrap();
    let pages = (2 * MIB / rustix::param::page_size()) as u64;
    assert_eq!(report.account.skipped_for(SkipReason::NotPresent), pages);
}
