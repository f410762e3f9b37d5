//! Everything at once, at random.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use nodeward_model::SkipReason;
use nodeward_pager::{
    Arrive, Budget, Cancel, Migration, PageSize, Pager, Placement, Region, Supply,
};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::common::{CHUNK, HERE, MIB, Stopper, move_all, page_bytes, pager, pages, region};

/// Duration, in addition to the checks; every thread works at least once.
const TIME: Duration = Duration::from_secs(2);
const BYTES: usize = 8 * MIB;
/// A part that is discarded at random; the other parts have writers, which never see that.
const DISCARDED: Range<usize> = 2 * CHUNK..3 * CHUNK;

/// Returns random numbers of a thread: the same for the same seed. The interleaving differs.
pub fn random(seed: u64, thread: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_ne_bytes());
    bytes[8..16].copy_from_slice(&thread.to_ne_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// Returns the seed of NODEWARD_SEED, or a new one, which is printed.
pub fn seed() -> u64 {
    let given = std::env::var("NODEWARD_SEED").ok().map(|seed| seed.parse().unwrap());
    let new = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        now.tv_nsec.unsigned_abs()
    };
    let seed = given.unwrap_or_else(new);
    eprintln!("NODEWARD_SEED={seed} draws the same again");
    seed
}

/// Returns a random range of whole pages.
fn range(random: &mut TestRng, region: &Region) -> Range<usize> {
    let page = region.page_bytes();
    let count = region.bytes() / page;
    let (one, other) =
        (random.next_u32() as usize % (count + 1), random.next_u32() as usize % (count + 1));
    one.min(other) * page..one.max(other) * page
}

fn random_options<'a>(random: &mut TestRng, cancel: &'a Cancel) -> Migration<'a> {
    let supply = [Supply::Any, Supply::OneWay, Supply::Recycled][random.next_u32() as usize % 3];
    let stall = random.next_u32().is_multiple_of(4).then(|| Duration::from_micros(200));
    let batch = u64::from(random.next_u32() % 512 + 1) * page_bytes() as u64;
    Migration {
        supply,
        arrive: [None, Some(Arrive::AsTheyLeave), Some(Arrive::Huge)]
            [random.next_u32() as usize % 3],
        budget: Budget { bytes_per_s: None, stall },
        lanes: [None, Some(1), Some(2)][random.next_u32() as usize % 3],
        batch_bytes: random.next_u32().is_multiple_of(2).then_some(batch),
        even_if_there: true,
        cancel: Some(cancel),
        ..Default::default()
    }
}

/// Makes one random call of a region.
fn act(random: &mut TestRng, pager: &Pager, region: &Region) {
    let (range, cancel) = (range(random, region), Cancel::new());
    let base_pages = pages(range.len());
    match random.next_u32() % 10 {
        0..4 => {
            let report = region.migrate(range, HERE, &random_options(random, &cancel)).unwrap();
            assert_eq!(report.account.selected(), base_pages, "{report:?}");
            assert_eq!(report.account.skipped_for(SkipReason::Gone), 0, "{report:?}");
        }
        4..6 => {
            let report = region.migrate_lazily(range, &random_options(random, &cancel)).unwrap();
            assert_eq!(report.account.selected() + report.lazy_pages, base_pages, "{report:?}");
        }
        6 => {
            let _guard = region.pin(range).unwrap();
            std::thread::sleep(Duration::from_micros(u64::from(random.next_u32() % 500)));
        }
        7 => {
            region.discard(DISCARDED).unwrap();
        }
        8 => {
            let here: u64 = region.residency(range.clone()).unwrap().values().sum();
            assert!(here <= base_pages);
            region.commit(range, &Placement::Node(HERE)).unwrap();
        }
        _ => drop(pager.trim()),
    }
}

/// Adds to a word of each stretch of 64 words of all other parts until stopped, and checks each.
/// Each writer has words of its own, and knows their content.
fn write(region: &Region, writer: usize, stop: &AtomicBool) -> u64 {
    let mine = || {
        let words = region.words().iter().enumerate().skip(writer).step_by(64);
        words.filter(|(index, _)| !DISCARDED.contains(&(index * 8))).map(|(_, word)| word)
    };
    let mut round = 0;
    loop {
        for word in mine() {
            let before = word.fetch_add(1, Relaxed);
            assert_eq!(before, round, "writer {writer} lost a write, or read a torn page");
        }
        round += 1;
        if stop.load(Acquire) {
            break;
        }
    }
    mine().for_each(|word: &AtomicU64| assert_eq!(word.load(Relaxed), round));
    round
}

fn torture(page: PageSize, seed: u64) {
    let Some(pager) = pager() else { return };
    let regions = [region(&pager, BYTES, page), region(&pager, BYTES, PageSize::Base)];
    let (stop, acts) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stopper = Stopper(&stop);
        let writers = regions.iter().flat_map(|region| [(region, 0), (region, 9)]);
        let writers: Vec<_> = writers
            .map(|(region, writer)| {
                let stop = &stop;
                scope.spawn(move || write(region, writer, stop))
            })
            .collect();
        let actors: Vec<_> = (0..4)
            .map(|thread| {
                let (pager, regions, stop, acts) = (&pager, &regions, &stop, &acts);
                scope.spawn(move || {
                    let mut random = random(seed, thread);
                    loop {
                        let region = &regions[random.next_u32() as usize % 2];
                        act(&mut random, pager, region);
                        acts.fetch_add(1, Relaxed);
                        if stop.load(Acquire) {
                            break;
                        }
                    }
                })
            })
            .collect();
        std::thread::sleep(TIME);
        drop(stopper);
        actors.into_iter().for_each(|actor| actor.join().unwrap());
        writers.into_iter().for_each(|writer| assert!(writer.join().unwrap() > 0));
    });
    eprintln!("{page:?}: {} calls", acts.load(Relaxed));
    for region in &regions {
        region.commit(0..BYTES, &Placement::Local).unwrap();
        assert_eq!(move_all(region).account.moved, pages(BYTES), "nothing is held any more");
    }
}

/// Goal: many threads that migrate, leave out, pin, discard, commit and read the same regions at
/// random lose no write, and no thread waits for ever.
#[test]
fn everything_at_once() {
    torture(PageSize::Base, seed());
}

/// Goal: the same with huge pages.
#[test]
fn everything_at_once_with_huge_pages() {
    torture(PageSize::Huge, seed());
}

/// Goal: recycled pages may be freed at any time, also by several threads.
#[test]
fn kept_pages_are_freed_while_others_move() {
    let Some(pager) = pager() else { return };
    let regions = [region(&pager, BYTES, PageSize::Base), region(&pager, BYTES, PageSize::Base)];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stopper = Stopper(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Acquire) {
                    pager.trim();
                }
            });
        }
        let move_often = |region: &Region| {
            (0..50).for_each(|_| assert_eq!(move_all(region).account.moved, pages(BYTES)));
        };
        let movers = regions.each_ref().map(|region| scope.spawn(move || move_often(region)));
        movers.into_iter().for_each(|mover| mover.join().unwrap());
    });
}
