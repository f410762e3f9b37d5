//! Pages that leave by mremap(2), as on kernels before Linux 6.8: a filter hides UFFDIO_MOVE. (The
//! lab tests the same on Linux 6.1.)

use std::ops::Range;
use std::thread;

use nodeward_linux::interference::{MemoryChange, change_memory};
use nodeward_model::SkipReason;
use nodeward_pager::{Backend, Pager, PagerOptions, Placement, Region, RegionOptions, Supply};

use crate::common::{
    CHUNK, HERE, MIB, assert_filled, even_if_there, fill, in_subprocess, page_bytes, pages,
    refuse_argument, while_moving, words,
};

const BYTES: usize = 8 * MIB;

const UFFDIO_MOVE: u64 = 0xc028_aa05; // _IOWR(0xaa, 0x05, 40 bytes)

/// Runs a test with a filled region whose pages leave by mremap(2).
fn by_remap(test: impl FnOnce(&Region) + Send) {
    let confined = || {
        refuse_argument(libc::SYS_ioctl, 1, UFFDIO_MOVE);
        let pager = Pager::open(&PagerOptions::default()).unwrap();
        if pager.backend() != Backend::Remap {
            return eprintln!("skipped: {}", pager.why_not_faster().unwrap_or_default());
        }
        let options = RegionOptions { free_of_dma: true, ..Default::default() };
        let region = pager.reserve(BYTES, &options).unwrap();
        region.commit(0..BYTES, &Placement::Local).unwrap();
        fill(&region, 0..BYTES);
        test(&region);
    };
    thread::scope(|scope| scope.spawn(confined).join().unwrap());
}

/// Some pages in the middle of a chunk, and the end of it with the start of the next.
fn parts() -> [Range<usize>; 2] {
    let page = page_bytes();
    [MIB..MIB + 10 * page, 2 * CHUNK - 7 * page..2 * CHUNK + 7 * page]
}

const PARTS_PAGES: u64 = 10 + 2 * 7;

fn meddle_with(region: &Region, how: MemoryChange) {
    parts().into_iter().for_each(|part| change_memory(&region.words()[words(part)], how).unwrap());
}

/// Moves everything, and asserts that exactly the pages in `parts` stay as unmovable.
fn assert_parts_stay(region: &Region, what: MemoryChange) {
    let report = region.migrate(0..BYTES, HERE, &even_if_there(Supply::Any)).unwrap();
    let stayed = report.account.skipped_for(SkipReason::Unmovable);
    assert_eq!(stayed, PARTS_PAGES, "{what:?} {report:?}");
    assert_eq!(report.account.moved, pages(BYTES) - PARTS_PAGES, "{what:?} {report:?}");
}

/// Goal: parts that are not readable, or not writable, stay as unmovable and keep their content and
/// protection. No thread waits for ever, even for parts that become protected while they move.
#[test]
fn protected_parts_stay() {
    in_subprocess("remap::protected_parts_stay", || {
        by_remap(|region| {
            for how in [MemoryChange::ProtectNone, MemoryChange::ProtectReadOnly] {
                meddle_with(region, how);
                assert_parts_stay(region, how);
                meddle_with(region, MemoryChange::Unprotect);
                assert_filled(region, 0..BYTES);
                let come_and_go = || {
                    for _ in 0..200 {
                        meddle_with(region, how);
                        thread::yield_now();
                        meddle_with(region, MemoryChange::Unprotect);
                    }
                };
                let ((), moved) = while_moving(region, come_and_go);
                assert!(moved > 0);
                assert_filled(region, 0..BYTES);
            }
        });
    });
}

/// Goal: locked pages stay as unmovable, and locked.
#[test]
fn locked_parts_stay_locked() {
    in_subprocess("remap::locked_parts_stay_locked", || {
        by_remap(|region| {
            let before = locked_kib();
            meddle_with(region, MemoryChange::Lock);
            let locked = before + PARTS_PAGES * page_bytes() as u64 / 1024;
            assert_eq!(locked_kib(), locked);
            assert_parts_stay(region, MemoryChange::Lock);
            assert_eq!((locked_kib(), locked_kib_of(region)), (locked, locked - before));
            assert_filled(region, 0..BYTES);
        });
    });
}

fn locked_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find_map(|line| kib(line, "VmLck:")).unwrap()
}

/// Returns the locked memory of a region in KiB, by its mappings.
fn locked_kib_of(region: &Region) -> u64 {
    let start = region.as_ptr() as u64;
    let (mut inside, mut locked) = (false, 0);
    for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        let address = line.split_once('-').and_then(|(a, _)| u64::from_str_radix(a, 16).ok());
        if let Some(address) = address {
            inside = (start..start + BYTES as u64).contains(&address);
        }
        locked += kib(line, "Locked:").filter(|_| inside).unwrap_or(0);
    }
    locked
}

fn kib(line: &str, field: &str) -> Option<u64> {
    line.strip_prefix(field)?.trim().trim_end_matches(" kB").parse().ok()
}

/// Goal: a file that is mapped over a part stays as it is, and affects nothing else.
#[test]
fn a_file_over_a_part_stays() {
    in_subprocess("remap::a_file_over_a_part_stays", || {
        by_remap(|region| {
            meddle_with(region, MemoryChange::MapFile);
            assert_parts_stay(region, MemoryChange::MapFile);
            let [one, two] = parts();
            for part in [0..one.start, one.end..two.start, two.end..BYTES] {
                assert_filled(region, part);
            }
        });
    });
}
