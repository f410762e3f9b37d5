//! Signals, threads that end, panics, exec and exit.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use nodeward_linux::interference::{on_signal, send_signal};
use nodeward_linux::test_wait::{rounds, wait_until};
use nodeward_pager::{Copier, PageSize, Pager, PagerOptions, Region, Supply};
use rustix::process::Signal;
use rustix::thread::gettid;

use crate::common::{
    HERE, MIB, Stopper, assert_filled, even_if_there, filled_region, in_subprocess, is_subprocess,
    move_all, page_bytes, pager, pager_with, pages, run_subprocess, unmap_all_lazily, while_doing,
    without_housekeeper,
};

const BYTES: usize = 8 * MIB;
/// Minimum number of signals in a storm.
const SIGNALS: usize = 100;

static HANDLED: AtomicUsize = AtomicUsize::new(0);
/// How often a thread of the pager ran the handler.
static BY_US: AtomicUsize = AtomicUsize::new(0);
/// The threads of the pager.
static OURS: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];
static REGION: std::sync::OnceLock<&'static Region> = std::sync::OnceLock::new();

/// Touches a page of the region, a different one each time, and records which thread runs it.
extern "C" fn touch(_: i32) {
    let turn = HANDLED.fetch_add(1, SeqCst);
    let me = gettid().as_raw_pid() as usize;
    if OURS.iter().any(|thread| thread.load(SeqCst) == me) {
        BY_US.fetch_add(1, SeqCst);
    }
    if let Some(region) = REGION.get() {
        let word = turn * 4099 * 8 % region.words().len();
        region.words()[word].fetch_add(0, SeqCst);
    }
}

/// Returns the threads of pagers, by their names.
fn our_threads() -> Vec<i32> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let ours = threads.filter_map(|thread| {
        let thread = thread.ok()?;
        let name = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        let tid = thread.file_name().to_str()?.parse().ok()?;
        name.starts_with("nodeward-").then_some(tid)
    });
    ours.collect()
}

fn watch_for_signals(region: Region) -> &'static Region {
    let region: &'static Region = Box::leak(Box::new(region));
    assert!(REGION.set(region).is_ok());
    let ours = our_threads();
    assert!(ours.len() >= 3, "a lane, one that brings back, one for faults");
    OURS.iter().zip(ours).for_each(|(place, tid)| place.store(tid as usize, SeqCst));
    for signal in [Signal::USR1, Signal::TERM] {
        on_signal(signal.as_raw(), touch).unwrap();
    }
    region
}

/// Goal: a thread that touches pages in flight, or left out, during a storm of signals whose
/// handlers touch pages as well, loses nothing and makes progress. The pager's threads run no
/// handler.
#[test]
fn signals_storm_who_touches() {
    in_subprocess("signals::signals_storm_who_touches", || {
        let Some(pager) = pager() else { return };
        let region = watch_for_signals(filled_region(&pager, BYTES, PageSize::Base));
        let done = AtomicBool::new(false);
        let me = gettid().as_raw_pid();
        let moves = || unmap_all_lazily(region).lazy_pages + move_all(region).account.moved;
        let touches = || {
            std::thread::scope(|scope| {
                let _done = Stopper(&done);
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        send_signal(me, Signal::USR1.as_raw()).unwrap();
                        rustix::process::kill_process(rustix::process::getpid(), Signal::USR1)
                            .unwrap();
                        std::thread::sleep(std::time::Duration::from_micros(50));
                    }
                });
                let all_came = || HANDLED.load(SeqCst) >= SIGNALS;
                for round in rounds(60, "the signals of a storm came", all_came) {
                    for index in 0..region.words().len() / 64 {
                        let word = &region.words()[index * 64];
                        let value = word.fetch_add(1 << 40, Relaxed);
                        assert_eq!(value, (round << 40) + index as u64 * 64 + 1);
                    }
                }
            });
        };
        let ((), moved) = while_doing(moves, touches);
        assert!(moved > 0);
        assert_eq!(BY_US.load(SeqCst), 0, "a thread of the pager ran the program's handler");
    });
}

/// Goal: signals that are sent to the pager's own threads do not end them, and run no handler
/// there.
#[test]
fn signals_to_our_threads_are_not_heard() {
    in_subprocess("signals::signals_to_our_threads_are_not_heard", || {
        let Some(pager) = pager() else { return };
        let region = watch_for_signals(filled_region(&pager, BYTES, PageSize::Base));
        for round in 0..20 {
            unmap_all_lazily(region);
            for tid in our_threads() {
                for signal in [Signal::USR1, Signal::TERM, Signal::ALARM, Signal::HUP] {
                    send_signal(tid, signal.as_raw()).unwrap();
                }
            }
            assert_filled(region, 0..BYTES);
            assert_eq!(move_all(region).account.moved, pages(BYTES), "round {round}");
        }
        assert_eq!(HANDLED.load(SeqCst), 0);
    });
}

struct Failing {
    /// Number of copies that succeed.
    left: AtomicUsize,
}

impl Copier for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn copy(&self, to: &mut [u8], from: &[u8]) {
        let left = self.left.fetch_sub(1, SeqCst);
        assert!(left > 0, "this copier fails on purpose");
        to.copy_from_slice(from);
    }
}

/// Checks that a test, run in a process of its own, ends by SIGABRT.
fn ends_by_abort(test: &str, body: impl FnOnce()) {
    if is_subprocess(test) {
        body();
        // Reached only by a process that went on without pages that were out.
        std::process::exit(0);
    }
    let output = run_subprocess(test);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("skipped: ") {
        return eprintln!("{said}");
    }
    assert_eq!(output.status.signal(), Some(Signal::ABORT.as_raw()), "{said}");
    assert!(said.contains("on purpose") && said.contains("aborting"), "{said}");
}

fn failing_pager() -> Option<(Pager, Region)> {
    let copier = Arc::new(Failing { left: AtomicUsize::new(1) });
    let options = PagerOptions { copier: Some(copier), ..without_housekeeper() };
    let pager = pager_with(&options)?;
    let region = filled_region(&pager, BYTES, PageSize::Base);
    // Fills the pool, without the copier.
    region.migrate(0..BYTES, HERE, &even_if_there(Supply::OneWay)).unwrap();
    Some((pager, region))
}

/// Goal: a lane that panics in the middle of a batch aborts the process.
#[test]
fn a_panic_in_a_lane_aborts() {
    ends_by_abort("signals::a_panic_in_a_lane_aborts", || {
        let Some((_pager, region)) = failing_pager() else { return };
        region.migrate(0..BYTES, HERE, &even_if_there(Supply::Recycled)).unwrap();
    });
}

/// Goal: so does the thread behind faults.
#[test]
fn a_panic_in_the_fault_handler_aborts() {
    ends_by_abort("signals::a_panic_in_the_fault_handler_aborts", || {
        let Some((_pager, region)) = failing_pager() else { return };
        unmap_all_lazily(&region);
        assert_filled(&region, 0..BYTES);
    });
}

/// Goal: a program that calls exec, or exits, while pages move and are left out, behaves as it
/// would without a pager.
#[test]
fn exec_and_exit_in_the_middle() {
    const TEST: &str = "signals::exec_and_exit_in_the_middle";
    if is_subprocess(TEST) {
        let Some(pager) = pager() else { return };
        let lazy: &Region = Box::leak(Box::new(filled_region(&pager, BYTES, PageSize::Base)));
        let moving: &Region = Box::leak(Box::new(filled_region(&pager, BYTES, PageSize::Base)));
        unmap_all_lazily(lazy);
        static MOVED: AtomicU64 = AtomicU64::new(0);
        std::thread::spawn(|| {
            loop {
                MOVED.fetch_add(move_all(moving).account.moved, SeqCst);
            }
        });
        wait_until("pages have moved", || MOVED.load(SeqCst) > 0);
        if std::env::var_os("NODEWARD_EXIT").is_some() {
            std::process::exit(0);
        }
        panic!("{}", Command::new("true").exec());
    }
    for how in ["NODEWARD_EXEC", "NODEWARD_EXIT"] {
        let status = Command::new(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--nocapture"])
            .envs([("NODEWARD_AGAIN", TEST), (how, "1")])
            .status()
            .unwrap();
        assert!(status.success(), "{how}: {status}");
    }
}

/// Goal: threads that end right after they touched a page in flight leave the pager in order.
#[test]
fn touchers_end() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, BYTES, PageSize::Base);
    let threads = || {
        for round in 0..40u64 {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let region = &region;
                    scope.spawn(move || {
                        let start = thread * 3 * page_bytes() + round as usize * page_bytes();
                        region.words()[start / 8 + 1].fetch_add(1, Relaxed);
                        region.words()[start / 8 + 1].fetch_sub(1, Relaxed);
                    });
                }
            });
        }
    };
    let moves = || unmap_all_lazily(&region).lazy_pages + move_all(&region).account.moved;
    let ((), moved) = while_doing(moves, threads);
    assert!(moved > 0);
    assert_filled(&region, 0..BYTES);
}
