//! Many threads that allocate, free, and hand runs to each other, at random.

use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use nodeward_linux::test_wait::wait_until;
use nodeward_pager::{PagePool, PageRun, PageSize, PoolError, PoolOptions, RunRequest};
use nodeward_policy::pcp::TunerKind;
use proptest::prelude::Rng;
use proptest::test_runner::TestRng;

use super::{assert_idle, options};
use crate::common::Stopper;
use crate::torture::{random, seed};

/// Minimum time for each kind of pool.
const TIME: Duration = Duration::from_millis(600);
/// Size on each node; less than the threads would use.
const ZONE_BYTES: u64 = 24 << 20;
/// Maximum number of runs that one thread has.
const RUNS_MAX: usize = 24;

/// A run, and the unique word that its owner wrote into it.
struct MarkedRun<'p> {
    run: PageRun<'p>,
    word: u64,
}

impl<'p> MarkedRun<'p> {
    fn new(mut run: PageRun<'p>, word: u64) -> Self {
        let page_bytes = run.len() >> run.order();
        for page in run.chunks_mut(page_bytes) {
            page[..8].copy_from_slice(&word.to_ne_bytes());
            page[page_bytes - 8..].copy_from_slice(&word.to_ne_bytes());
        }
        Self { run, word }
    }

    /// Checks that no other thread wrote to it, and frees it.
    fn check(self) {
        let page_bytes = self.run.len() >> self.run.order();
        for page in self.run.chunks(page_bytes) {
            let words = [&page[..8], &page[page_bytes - 8..]];
            assert!(words.iter().all(|word| **word == self.word.to_ne_bytes()), "two had it");
        }
    }
}

/// The state that the threads share.
struct Ring<'p> {
    pool: &'p PagePool,
    /// Runs that any thread may take and free.
    handed_over: Mutex<Vec<MarkedRun<'p>>>,
    words: AtomicU64,
    allocated_pages: AtomicU64,
    refused: AtomicU64,
    remote: AtomicU64,
    stop: AtomicBool,
}

impl<'p> Ring<'p> {
    fn new(pool: &'p PagePool) -> Self {
        Self {
            pool,
            handed_over: Mutex::default(),
            words: AtomicU64::new(1),
            allocated_pages: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            remote: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Allocates a random run; small orders are more frequent.
    fn allocate(&self, random: &mut TestRng) -> Option<MarkedRun<'p>> {
        let order = random.next_u32() % (self.pool.order_max() + 1);
        let order = random.next_u32() % (order + 1);
        let zeroed = random.next_u32().is_multiple_of(4);
        match self.pool.run(&RunRequest { order, zeroed, node: None }) {
            Ok(run) => {
                assert!(!zeroed || run.iter().all(|&byte| byte == 0), "not zeroed");
                self.allocated_pages.fetch_add(1 << order, Relaxed);
                Some(MarkedRun::new(run, self.words.fetch_add(1, Relaxed)))
            }
            Err(PoolError::NoMemory { .. }) => {
                self.refused.fetch_add(1, Relaxed);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Runs one thread: takes and gives until it is stopped.
    fn work(&self, mut random: TestRng) {
        let mut own = Vec::new();
        while !self.stop.load(Acquire) {
            match random.next_u32() % 10 {
                0..5 if own.len() < RUNS_MAX => own.extend(self.allocate(&mut random)),
                0..8 if !own.is_empty() => {
                    own.swap_remove(random.next_u32() as usize % own.len()).check();
                }
                8 => self.handed_over.lock().unwrap().extend(own.pop()),
                _ => {
                    let taken = self.handed_over.lock().unwrap().pop();
                    self.remote.fetch_add(u64::from(taken.is_some()), Relaxed);
                    taken.into_iter().for_each(MarkedRun::check);
                }
            }
        }
        own.into_iter().for_each(MarkedRun::check);
    }

    /// Does the pool's periodic work all the time, unlike any housekeeper.
    fn tick(&self, mut random: TestRng) {
        let nodes = nodes();
        let bytes = self.pool.page_bytes() as u64;
        while !self.stop.load(Acquire) {
            match random.next_u32() % 8 {
                0 => _ = self.pool.give_back(),
                1..4 => self.pool.tick(),
                _ => {
                    let stats = self.pool.stats();
                    assert!(stats.held_pages * bytes <= nodes * ZONE_BYTES, "{stats:?}");
                }
            }
        }
    }
}

/// Returns the number of zones.
fn nodes() -> u64 {
    let online = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let names = online.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("node")).count().max(1) as u64
}

fn torture(options: &PoolOptions, seed: u64) {
    let pool = PagePool::open(&PoolOptions { zone_bytes: Some(ZONE_BYTES), ..options.clone() });
    let pool = pool.unwrap();
    let ring = Ring::new(&pool);
    // So that threads are preempted at any place.
    let threads = 2 * std::thread::available_parallelism().unwrap().get().min(8) as u64 + 1;
    std::thread::scope(|scope| {
        let _stopper = Stopper(&ring.stop);
        let ring = &ring;
        for thread in 0..threads {
            scope.spawn(move || ring.work(random(seed, thread)));
        }
        scope.spawn(move || ring.tick(random(seed, threads)));
        std::thread::sleep(TIME);
        wait_until("a run was freed by another thread", || ring.remote.load(Relaxed) > 0);
    });
    let Ring { handed_over, allocated_pages, refused, remote, .. } = ring;
    handed_over.into_inner().unwrap().into_iter().for_each(MarkedRun::check);
    let (allocated, remote) = (allocated_pages.into_inner(), remote.into_inner());
    eprintln!("{options:?}: {allocated} pages, {remote} runs by others, {refused:?} refusals");
    assert_eq!(pool.stats().allocated_pages, allocated);
    assert_idle(&pool);
}

/// Goal: no page is handed out twice, none is lost, and all are counted, whatever many threads do
/// at once, with lists under any tuner, and without lists.
#[test]
fn everything_at_once() {
    let seed = seed();
    TunerKind::ALL.into_iter().for_each(|tuning| torture(&options(tuning), seed));
    let without = PoolOptions { high_default: Some(0), ..options(TunerKind::Fixed) };
    torture(&without, seed);
}

/// Goal: the same with huge pages, and with a housekeeper that never rests.
#[test]
fn everything_at_once_with_huge_pages() {
    let busy = PoolOptions {
        housekeeper: true,
        page: PageSize::Huge,
        period: Duration::from_micros(1),
        ..options(TunerKind::Events)
    };
    torture(&busy, seed());
}
