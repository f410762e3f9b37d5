//! Small calls, which the calling thread carries out itself: beside each other, beside forks,
//! signals and ends of threads, and from within the pager.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use nodeward_linux::interference::{ChildExit, on_signal, run_in_child, send_signal};
use nodeward_pager::{
    Copier, Error, Memcpy, PageSize, PagerOptions, Placement, RangeTarget, Region, RegionOptions,
    Supply,
};
use proptest::prelude::Rng;
use rustix::process::Signal;
use rustix::thread::gettid;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use crate::common::{
    CHUNK, HERE, MIB, Stopper, assert_filled, even_if_there, filled_region, first_wrong_word,
    in_subprocess, page_bytes, pager, pager_with, region, unmap_all_lazily, while_moving,
    without_housekeeper,
};
use crate::torture::{random, seed};

const BYTES: usize = 4 * MIB;
/// A part that is discarded at random. Words of the other part are counted.
const DISCARDED: std::ops::Range<usize> = CHUNK / 2..CHUNK;
/// The most pages of a range: two chunks can have a part of it.
const PAGES_MAX: usize = 20;
/// Repetitions of what takes about a millisecond, and of single calls.
const ROUNDS: u64 = 50;
const CALLS: usize = 2000;

/// Returns a random small range, also across chunks.
fn small_range(random: &mut impl Rng, within: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let page = page_bytes();
    let pages = within.len() / page;
    let first = random.next_u32() as usize % pages;
    let count = (random.next_u32() as usize % PAGES_MAX + 1).min(pages - first);
    within.start + first * page..within.start + (first + count) * page
}

/// Makes one small call, whichever it is.
fn call(random: &mut impl Rng, region: &Region) {
    let range = small_range(random, &(0..BYTES));
    let supply = [Supply::Any, Supply::OneWay][random.next_u32() as usize % 2];
    let how = even_if_there(supply);
    match random.next_u32() % 9 {
        0 | 1 => drop(region.pin(range).unwrap()),
        2 => region.discard(small_range(random, &DISCARDED)).unwrap(),
        3 => region.commit(range, &Placement::Node(HERE)).unwrap(),
        4 => drop(region.residency(range).unwrap()),
        5 => {
            let list = [range, small_range(random, &(0..BYTES))];
            let list = list.map(|range| RangeTarget { range, to: HERE });
            drop(region.migrate_list(&list, &how).unwrap());
        }
        6 => {
            let half = BYTES / 2;
            let one = small_range(random, &(0..half));
            let other = one.start + half..one.end + half;
            // A range may have lost all of its pages to a discard.
            let done = region.exchange(one, other, &how);
            assert!(matches!(done, Ok(_) | Err(Error::BadOption { .. })), "{done:?}");
        }
        _ => {
            let report = region.migrate(range.clone(), HERE, &how).unwrap();
            let pages = (range.len() / page_bytes()) as u64;
            let account = &report.account;
            assert_eq!(account.moved + account.already_there + account.skipped_total(), pages);
        }
    }
}

/// Adds one to a word of every page of the part that is not discarded, `times` times.
fn count_up(region: &Region, thread: usize, times: u64) {
    for _ in 0..times {
        for start in (0..BYTES).step_by(page_bytes()).filter(|page| !DISCARDED.contains(page)) {
            region.words()[start / 8 + thread].fetch_add(1, Relaxed);
        }
    }
}

/// Goal: pins, discards, commits, exchanges and migrations of overlapping small ranges, from four
/// threads at once, beside lanes that move everything and threads that write: no write is lost, and
/// nothing stands still.
#[test]
fn overlapping_calls_lose_nothing() {
    let Some(pager) = pager() else { return };
    let region = region(&pager, BYTES, PageSize::Base);
    let (seed, calls) = (seed(), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    let times = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let stopper = Stopper(&stop);
        for thread in 0..4 {
            let (region, stop, calls) = (&region, &stop, &calls);
            scope.spawn(move || {
                let mut random = random(seed, thread);
                while !stop.load(Acquire) {
                    call(&mut random, region);
                    calls.fetch_add(1, Relaxed);
                }
            });
        }
        let writers = || {
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let (region, times) = (&region, &times);
                    scope.spawn(move || {
                        for _ in 0..ROUNDS {
                            count_up(region, thread, 1);
                            times.fetch_add(u64::from(thread == 0), Relaxed);
                        }
                    });
                }
            });
        };
        let ((), moved) = while_moving(&region, writers);
        assert!(moved > 0);
        drop(stopper);
    });
    assert!(calls.load(Relaxed) > 0);
    for start in (0..BYTES).step_by(page_bytes()).filter(|page| !DISCARDED.contains(page)) {
        let counts = [0, 1].map(|thread| region.words()[start / 8 + thread].load(Relaxed));
        assert_eq!(counts, [times.load(Relaxed); 2], "page {}", start / page_bytes());
    }
}

/// Goal: small calls on chunks whose pages are left out bring them back, and nothing is lost.
#[test]
fn lazy_pages_come_back_for_small_calls() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let page = page_bytes();
    let calls: [&dyn Fn(); 4] = [
        &|| drop(region.pin(0..page).unwrap()),
        &|| region.commit(page..2 * page, &Placement::Local).unwrap(),
        &|| drop(region.migrate(0..page, HERE, &even_if_there(Supply::OneWay)).unwrap()),
        &|| region.discard(0..0).unwrap(),
    ];
    for call in calls {
        assert!(unmap_all_lazily(&region).lazy_pages > 0);
        call();
        assert_filled(&region, 0..BYTES);
    }
    unmap_all_lazily(&region);
    region.discard(0..page).unwrap();
    assert_eq!(first_wrong_word(&region, page..BYTES), None);
    assert_eq!(region.words()[0].load(Relaxed), 0, "discarded");
}

/// Goal: a child that is made in the middle of small calls of other threads has every word.
#[test]
fn children_have_all_words() {
    in_subprocess("callers::children_have_all_words", || {
        let Some(pager) = pager() else { return };
        let region = filled_region(&pager, BYTES, PageSize::Base);
        let (seed, stop) = (seed(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let stopper = Stopper(&stop);
            for thread in 0..2 {
                let (region, stop) = (&region, &stop);
                scope.spawn(move || {
                    let mut random = random(seed, thread);
                    while !stop.load(Acquire) {
                        let range = small_range(&mut random, &(0..BYTES));
                        let how = even_if_there(Supply::Any);
                        region.migrate(range.clone(), HERE, &how).unwrap();
                        drop(region.pin(range).unwrap());
                    }
                });
            }
            for _ in 0..ROUNDS {
                let is_whole = || u8::from(first_wrong_word(&region, 0..BYTES).is_some());
                assert_eq!(run_in_child(is_whole).unwrap(), ChildExit::Code(0));
            }
            drop(stopper);
        });
        let in_child = || u8::from(!matches!(region.pin(0..page_bytes()), Err(Error::Forked)));
        assert_eq!(run_in_child(in_child).unwrap(), ChildExit::Code(0));
        assert_filled(&region, 0..BYTES);
    });
}

static REGION: OnceLock<&'static Region> = OnceLock::new();
static HANDLED: AtomicUsize = AtomicUsize::new(0);

/// Touches a page of the first chunk, and calls the pager's only function for signal handlers.
extern "C" fn touch(_: i32) {
    let turn = HANDLED.fetch_add(1, SeqCst);
    if let Some(region) = REGION.get() {
        region.words()[turn * 4099 * 8 % (CHUNK / 8)].fetch_add(0, SeqCst);
    }
}

/// Goal: a signal handler that touches the pages that its thread is about to move, pin or commit
/// holds up nobody: it runs before or after the pages are out.
#[test]
fn signals_storm_who_calls() {
    in_subprocess("callers::signals_storm_who_calls", || {
        let Some(pager) = pager() else { return };
        let region: &'static Region =
            Box::leak(Box::new(filled_region(&pager, BYTES, PageSize::Base)));
        assert!(REGION.set(region).is_ok());
        on_signal(Signal::USR1.as_raw(), touch).unwrap();
        let (stop, me) = (AtomicBool::new(false), gettid().as_raw_pid());
        std::thread::scope(|scope| {
            let stopper = Stopper(&stop);
            scope.spawn(|| {
                while !stop.load(Acquire) {
                    send_signal(me, Signal::USR1.as_raw()).unwrap();
                    std::thread::yield_now();
                }
            });
            let mut random = random(seed(), 0);
            let mut calls = 0;
            while calls < CALLS || HANDLED.load(SeqCst) < 100 {
                let range = small_range(&mut random, &(0..CHUNK));
                region.migrate(range.clone(), HERE, &even_if_there(Supply::Any)).unwrap();
                drop(region.pin(range.clone()).unwrap());
                region.commit(range, &Placement::Node(HERE)).unwrap();
                calls += 1;
            }
            drop(stopper);
        });
        assert_filled(region, 0..BYTES);
    });
}

/// Goal: threads that end right after a small call, and a program that exits in the middle of many,
/// leave the pager in order.
#[test]
fn callers_end() {
    const TEST: &str = "callers::callers_end";
    in_subprocess(TEST, || {
        let Some(pager) = pager() else { return };
        let region: &'static Region =
            Box::leak(Box::new(filled_region(&pager, BYTES, PageSize::Base)));
        for turn in 0..ROUNDS {
            let enders = (0..4).map(|thread| {
                std::thread::spawn(move || {
                    let mut random = random(turn, thread);
                    let range = small_range(&mut random, &(0..BYTES));
                    region.migrate(range.clone(), HERE, &even_if_there(Supply::Any)).unwrap();
                    drop(region.pin(range).unwrap());
                })
            });
            let enders: Vec<_> = enders.collect();
            enders.into_iter().for_each(|ender| ender.join().unwrap());
        }
        assert_filled(region, 0..BYTES);
        let exits = || {
            // The child has the memory, but no pager: its calls are refused while it exits.
            let refused = region.discard(0..page_bytes());
            u8::from(!matches!(refused, Err(Error::Forked)))
        };
        assert_eq!(run_in_child(exits).unwrap(), ChildExit::Code(0));
        for thread in 0..4 {
            std::thread::spawn(move || {
                let mut random = random(7, thread);
                loop {
                    call(&mut random, region);
                }
            });
        }
        println!("1 passed"); // what the harness cannot say any more
        std::process::exit(0);
    });
}

/// A copier that makes calls itself.
struct CallingCopier {
    region: OnceLock<Region>,
    refused: AtomicUsize,
}

impl Copier for CallingCopier {
    fn name(&self) -> &'static str {
        "calling"
    }

    fn copy(&self, to: &mut [u8], from: &[u8]) {
        if let Some(region) = self.region.get() {
            let page = page_bytes();
            let how = even_if_there(Supply::Any);
            let list = [RangeTarget { range: 0..page, to: HERE }];
            let errors = [
                region.pin(0..page).map(drop),
                region.discard(0..page),
                region.migrate(0..page, HERE, &how).map(drop),
                region.migrate_list(&list, &how).map(drop),
                region.migrate_lazily(0..page, &how).map(drop),
                region.exchange(0..page, page..2 * page, &how).map(drop),
                region.commit(0..page, &Placement::Local),
                region.residency(0..page).map(drop),
            ];
            for error in errors {
                assert!(matches!(error, Err(Error::WithinPager)), "{error:?}");
                self.refused.fetch_add(1, Relaxed);
            }
        }
        Memcpy.copy(to, from);
    }
}

/// Goal: calls from within the pager, by a copier that runs on a lane, on the thread behind faults
/// or on the calling thread, are refused: they would wait for themselves.
#[test]
fn copiers_do_not_call() {
    let copier = Arc::new(CallingCopier { region: OnceLock::new(), refused: AtomicUsize::new(0) });
    let options = PagerOptions { copier: Some(copier.clone()), ..without_housekeeper() };
    let Some(pager) = pager_with(&options) else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let kept = region.migrate(0..BYTES, HERE, &even_if_there(Supply::OneWay)).unwrap();
    assert!(kept.account.moved > 0, "pages to copy to");
    let other = pager.reserve(CHUNK, &RegionOptions::default()).unwrap();
    assert!(copier.region.set(other).is_ok());
    let by = |act: &dyn Fn()| {
        let before = copier.refused.load(Relaxed);
        act();
        assert!(copier.refused.load(Relaxed) > before, "it copied and called");
    };
    let recycled = even_if_there(Supply::Recycled);
    by(&|| drop(region.migrate(0..page_bytes(), HERE, &recycled).unwrap()));
    by(&|| drop(region.migrate(0..BYTES, HERE, &recycled).unwrap()));
    by(&|| {
        unmap_all_lazily(&region);
        assert_eq!(region.words()[0].load(Relaxed), 1);
    });
    assert_filled(&region, 0..BYTES);
    drop(region);
    // The region that the copier calls holds the pager.
    std::mem::forget(pager);
}

/// Goal: no small call opens a file of /proc or /sys: on a thread that the kernel kills for opening
/// any, all of them work, for 300 ms: that is three looks at the room on nodes by another thread.
#[test]
fn small_calls_open_no_file() {
    in_subprocess("callers::small_calls_open_no_file", || {
        let Some(pager) = pager() else { return };
        let region = filled_region(&pager, BYTES, PageSize::Base);
        region.residency(0..page_bytes()).unwrap(); // waits for what is read once, after the start
        let rules = [libc::SYS_openat, libc::SYS_openat2].map(|call| (call, Vec::new()));
        let machine = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(
            BTreeMap::from(rules),
            SeccompAction::Allow,
            SeccompAction::KillProcess,
            machine,
        );
        let program: BpfProgram = filter.unwrap().try_into().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                apply_filter(&program).unwrap();
                let mut random = random(seed(), 0);
                // At most 40 pages each, 4000 in all: as many as are granted without a look.
                for _ in 0..100 {
                    call(&mut random, &region);
                    std::thread::sleep(std::time::Duration::from_millis(3));
                }
            });
        });
    });
}
