//! Tests the mappings of a process that changes them while they are read.

use std::fs;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use nodeward_linux::Linux;
use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};
use nodeward_linux::procfs::maps::addresses;
use nodeward_machine::{Machine, Process};
use nodeward_model::{PageLocation, Pid, Range};

/// Enough for a list that the kernel writes in several pieces.
const PAGES: usize = 100;
/// The kernel lists a mapping twice in about one of 700 lists (Linux 6.18, 2 CPUs).
const ROUNDS: usize = 60_000;
/// The number of lists with a repeated mapping that is enough.
const TWICE: usize = 3;

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

/// Goal: of a mapping of 100 pages the kernel's walk tells the 7 that are in memory, as a look at
/// each page does. A mapping of a file is not merged with others of this process.
#[test]
fn a_walk_tells_the_pages_of_a_mapping() {
    let (bytes, file) = (PAGES * rustix::param::page_size(), tempfile::tempfile().unwrap());
    file.set_len(bytes as u64).unwrap();
    let area = MappedArea::map(bytes, AreaBacking::PrivateFile(file.as_fd())).unwrap();
    let words = area.words().len() / PAGES;
    for page in [0, 1, 2, 40, 41, 98, 99] {
        area.words()[page * words].store(1, Relaxed);
    }
    let all = Range::new(area.address(), area.address() + area.bytes() as u64);
    let process = Linux::open().open_process(Pid::of_this_process()).unwrap();
    let Some(walked) = process.pages_by_mapping().unwrap() else {
        return println!("skipped: this kernel has no numa_maps, or swap may hold pages");
    };
    let mut places = Vec::new();
    process.locations(all, &mut places).unwrap();
    let looked = places.iter().filter(|place| matches!(place, PageLocation::On(_))).count();
    assert_eq!((looked as u64, walked[&all].values().sum()), (7, 7));
}

/// Goal: a hundred mappings of a page each are read together as they are one by one.
#[test]
fn mappings_are_read_together_as_one_by_one() {
    let page = rustix::param::page_size();
    let area = MappedArea::map(2 * PAGES * page, AreaBacking::Anonymous).unwrap();
    area.advise(AreaAdvice::BasePages).unwrap();
    for at in (0..area.bytes()).step_by(2 * page) {
        if let Err(error) = area.advise_part(at..at + page, AreaAdvice::HugePages) {
            return println!("skipped: no advice splits mappings here ({error})");
        }
    }
    let words = page / size_of::<u64>();
    (0..2 * PAGES).step_by(3).for_each(|at| area.words()[at * words].store(1, Relaxed));
    let process = Linux::open().open_process(Pid::of_this_process()).unwrap();
    let ours = Range::new(area.address(), area.address() + area.bytes() as u64);
    let mapped = process.mappings().unwrap().into_iter();
    let parts: Vec<_> = mapped
        .filter_map(|it| Some((it.range.intersection(ours)?, it)))
        .filter(|(range, _)| !range.is_empty())
        .map(|(range, it)| (Arc::new(it), range))
        .collect();
    let ranges: Vec<Range> = parts.iter().map(|&(_, range)| range).collect();
    let (mut together, mut one_by_one) = (Vec::new(), Vec::new());
    process.pages_of(&parts, &mut together).unwrap();
    parts.iter().for_each(|(it, range)| process.pages(it, *range, &mut one_by_one).unwrap());
    let mut places = Vec::new();
    process.locations_of(&ranges, &mut places).unwrap();
    assert!(parts.len() >= PAGES, "{} mappings", parts.len());
    assert_eq!(together, one_by_one);
    assert!(together.iter().map(|it| it.location).eq(places));
    let there = together.iter().filter(|it| it.node().is_some()).count();
    assert_eq!(there, 67); // 0, 3, ... 198
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
