//! The lab's counter, on a machine that counts: its counts against the known accesses of a program.
//! Counts only: speed does not matter here.

use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;

use nodeward_lab_counts::mark::{Mark, mark};
use nodeward_lab_counts::{
    AccessCount, CounterSnapshot, CountsReader, LINE_WORDS, MappedWords, read_lines,
};
use nodeward_linux::mempolicy;
use nodeward_linux::own_process::{self, AreaBacking, MappedArea};
use nodeward_model::{NodeId, Nodemask};

use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::pin_this_thread;
use crate::load::LoadProcess;
use crate::nodeward::{move_load, skip_counts};

pub const CASES: [(&str, CaseFn); 4] = [
    ("counts_are_exact", exact),
    ("counts_behind_the_cache", behind_the_cache),
    ("counts_by_process", by_process),
    ("counts_of_frames_are_a_source", frames_are_a_source),
];

const LINE_BYTES: usize = 64;
/// Maximum number of accesses beside a program's own loads: to the stack, above all.
const SLACK: u64 = 2000;

fn reader() -> Result<CountsReader<MappedWords>, CaseSkipped> {
    CountsReader::open_in_guest().map_err(|why| CaseSkipped(why.to_string()))
}

/// Returns the bytes of a node's cache.
fn cache(reader: &CountsReader<MappedWords>) -> usize {
    usize::try_from(reader.layout().llc.bytes).expect("it is small")
}

/// Returns memory of a node, touched.
fn memory(bytes: usize, node: u32) -> MappedArea {
    own_process::disable_huge_pages().expect("a process may do without");
    mempolicy::bind_memory(&Nodemask::from_iter([NodeId(node)])).expect("the node has memory");
    let area = MappedArea::map(bytes, AreaBacking::Anonymous).expect("there is memory");
    area.words().iter().step_by(LINE_WORDS).for_each(|word| word.store(1, Relaxed));
    mempolicy::default_memory().expect("the default is always there");
    area
}

/// Counts the accesses of this process during `work`, in a slot of its own; nothing else is counted
/// by frame.
fn counted(slot: u8, reader: &CountsReader<MappedWords>, work: impl FnOnce()) -> CounterSnapshot {
    mark(Mark::Attach(slot));
    mark(Mark::Zero);
    mark(Mark::Start);
    work();
    mark(Mark::Stop);
    let counts = reader.snapshot().expect("the counts can be read");
    mark(Mark::Start);
    mark(Mark::Detach(slot));
    counts
}

fn cell(counts: &CounterSnapshot, slot: usize, cpu: usize, node: usize) -> AccessCount {
    counts.slot(slot).map_or(AccessCount::default(), |slot| slot.cells[cpu][node])
}

/// Goal: a program that reads a number of lines of a node from a CPU has that number of accesses
/// counted for this CPU and this node, and for no other pair; if nothing of it can be cached, that
/// number of misses.
fn exact() -> CaseOutcome {
    let reader = reader()?;
    // Sixteen times the size of the cache.
    let bytes = 16 * cache(&reader);
    let lines = (bytes / LINE_BYTES) as u64;
    for (cpu, node) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        pin_this_thread(&[cpu]);
        let area = memory(bytes, node);
        let counts = counted(1, &reader, || {
            assert_eq!(read_lines(area.words()), lines);
        });
        let here = cell(&counts, 1, cpu, node as usize);
        let told = format!("cpu {cpu}, node {node}: {counts:?}");
        assert!((lines..lines + SLACK).contains(&here.accesses), "{told}");
        assert!((lines..lines + SLACK).contains(&here.misses), "{told}");
        for (other_cpu, other_node) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            if (other_cpu, other_node) != (cpu, node as usize) {
                assert!(cell(&counts, 1, other_cpu, other_node).accesses < SLACK, "{told}");
            }
        }
    }
    pin_this_thread(&[0, 1]);
    Ok(())
}

/// Goal: memory that fits into the cache misses about once; nothing is counted while counting is
/// off, nor before zeroing.
fn behind_the_cache() -> CaseOutcome {
    let reader = reader()?;
    pin_this_thread(&[1]);
    // A quarter of the cache, read 128 times.
    let bytes = cache(&reader) / 4;
    let lines = (bytes / LINE_BYTES) as u64;
    let area = memory(bytes, 0);
    let counts = counted(2, &reader, || {
        for _ in 0..128 {
            read_lines(area.words());
        }
    });
    let here = cell(&counts, 2, 1, 0);
    assert!((lines * 128..lines * 128 + SLACK).contains(&here.accesses), "{counts:?}");
    // Each line once, and pages that by chance share their cache sets with many others.
    assert!(here.misses < lines * 128 / 10, "{counts:?}");
    let off = counted(2, &reader, || {
        read_lines(area.words());
        mark(Mark::Stop);
        read_lines(area.words());
        mark(Mark::Start);
    });
    let here = cell(&off, 2, 1, 0);
    assert!((lines..lines + SLACK).contains(&here.accesses), "{off:?}");
    let zeroed = counted(2, &reader, || {
        for _ in 0..8 {
            read_lines(area.words());
        }
        mark(Mark::Zero);
    });
    assert!(cell(&zeroed, 2, 1, 0).accesses < SLACK, "{zeroed:?}");
    pin_this_thread(&[0, 1]);
    Ok(())
}

fn misses(reader: &CountsReader<MappedWords>, slot: usize) -> u64 {
    let counts = reader.snapshot().expect("the counts can be read");
    let locality = counts.slot(slot).map(|slot| counts.locality(slot)).unwrap_or_default();
    locality.local.misses + locality.remote.misses
}

/// Waits without a limit: the run as a whole has a time limit.
fn wait_for_misses(reader: &CountsReader<MappedWords>, slot: usize, count: u64) {
    while misses(reader, slot) < count {
        sleep(Duration::from_millis(50));
    }
}

/// Goal: processes on different nodes with memory on the same one are counted apart.
fn by_process() -> CaseOutcome {
    let reader = reader()?;
    pin_this_thread(&[0]);
    let far = LoadProcess::start("--node 1 --size 32MiB --slot 5");
    pin_this_thread(&[1]);
    let near = LoadProcess::start("--node 1 --size 32MiB --slot 6");
    pin_this_thread(&[0, 1]);
    mark(Mark::Zero);
    for slot in [5, 6] {
        wait_for_misses(&reader, slot, 5000);
    }
    let counts = reader.snapshot().expect("the counts can be read");
    let share = |slot: usize| {
        let slot = counts.slot(slot).expect("the load is counted");
        counts.locality(slot).misses_permille().expect("the load has missed")
    };
    // Their stacks and programs are elsewhere, but hardly ever miss.
    assert!(share(5) < 100 && share(6) > 900, "{} and {}", share(5), share(6));
    far.end();
    near.end();
    Ok(())
}

/// Goal: counts of frames identify the hot pages, and `nodeward move --hot` moves those and no
/// others.
fn frames_are_a_source() -> CaseOutcome {
    let reader = reader()?;
    pin_this_thread(&[1]);
    let hot_bytes = 4 * cache(&reader);
    let load = LoadProcess::start(&format!("--node 0 --size 64MiB --hot {hot_bytes} --slot 7"));
    pin_this_thread(&[0, 1]);
    let before = load.memory_by_node();
    mark(Mark::ByFrame(7));
    mark(Mark::Zero);
    // 141 misses on a page pay (see `hot_by_counts`). Pages are written at random: with 300 on
    // average each has at least that many.
    let hot_pages = hot_bytes as u64 / 4096;
    wait_for_misses(&reader, 7, 300 * hot_pages);
    let file = std::process::Command::new("nodeward-bench")
        .args(["counts", &load.pid().to_string()])
        .output()
        .expect("nodeward-bench starts");
    assert!(file.status.success(), "{file:?}");
    std::fs::write("/tmp/counted", file.stdout).expect("a file");
    let finished = move_load(&load, "--hot /tmp/counted");
    let report = finished.report_after_exit(0);
    let after = load.memory_by_node();
    let moved = after.get(&1).copied().unwrap_or(0);
    println!("{moved} of {hot_pages} hot pages came");
    assert_eq!(report.account.skipped, skip_counts::<0>([]));
    assert_eq!((moved, after[&0]), (hot_pages, before[&0] - hot_pages), "{finished:?}");
    load.end();
    Ok(())
}
