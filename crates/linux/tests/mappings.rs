//! Tests the mappings of a process that changes them while they are read.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use nodeward_linux::Linux;
use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};
use nodeward_linux::procfs::maps::addresses;
use nodeward_machine::{Machine, Process};
use nodeward_model::{Pid, Range};

/// Enough for a list that the kernel writes in several pieces.
const PAGES: usize = 100;
/// The kernel lists a mapping twice in about one of 700 lists (Linux 6.18, 2 CPUs).
const ROUNDS: usize = 60_000;
/// The number of lists with a repeated mapping that is enough.
const TWICE: usize = 10;

/// Goal: each page of memory whose mappings split and merge all the time is in exactly one mapping,
/// though the kernel lists some of them twice.
#[test]
fn mappings_that_split_and_merge_count_once() {
    let page = rustix::param::page_size();
    let area = MappedArea::map(PAGES * page, AreaBacking::Anonymous).unwrap();
    if let Err(error) = area.advise(AreaAdvice::BasePages) {
        return println!("skipped: no advice splits mappings here ({error})");
    }
    let all = Range::new(area.address(), area.address() + area.bytes() as u64);
    let process = Linux::open().open_process(Pid::of_this_process()).unwrap();
    let is_over = AtomicBool::new(false);
    let (wrong, twice) = thread::scope(|scope| {
        scope.spawn(|| split_and_merge(&area, &is_over));
        let told = read_repeatedly(&*process, all);
        is_over.store(true, Relaxed);
        told
    });
    println!("{twice} lists of the kernel told something twice");
    assert_eq!(wrong, None, "of {all}");
}

/// Reads the list again and again. Returns the first list that does not hold the range exactly
/// once, and the number of the kernel's lists with a repeated part.
fn read_repeatedly(process: &dyn Process, all: Range) -> (Option<Vec<Range>>, usize) {
    let mut twice = 0;
    for _ in 0..ROUNDS {
        let mappings = process.mappings().unwrap();
        let parts: Vec<_> = mappings.iter().filter_map(|it| it.range.intersection(all)).collect();
        let follow = parts.windows(2).all(|pair| pair[0].end == pair[1].start);
        let bytes: u64 = parts.iter().map(|part| part.bytes()).sum();
        if !follow || bytes != all.bytes() {
            return (Some(parts), twice);
        }
        twice += usize::from(is_listed_twice(&fs::read_to_string("/proc/self/maps").unwrap()));
        if twice >= TWICE {
            break;
        }
    }
    (None, twice)
}

/// Returns true if a line of the kernel begins before the end of the line above.
fn is_listed_twice(maps: &str) -> bool {
    let range = |line: &str| addresses(line.split(' ').next()?.as_bytes());
    let ranges: Vec<Range> = maps.lines().filter_map(range).collect();
    ranges.windows(2).any(|pair| pair[1].start < pair[0].end)
}

/// Makes every second page a mapping of its own, then all of them one, until it is over.
fn split_and_merge(area: &MappedArea, is_over: &AtomicBool) {
    let page = rustix::param::page_size();
    while !is_over.load(Relaxed) {
        for at in (0..area.bytes()).step_by(2 * page) {
            area.advise_part(at..at + page, AreaAdvice::HugePages).unwrap();
        }
        area.advise(AreaAdvice::BasePages).unwrap();
    }
}
