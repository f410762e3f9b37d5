//! Programs that change managed memory while it moves. The parts that they change are gone, zero or
//! unmovable; the rest is unchanged, and no thread waits for ever.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_linux::interference::{MemoryChange, change_memory};
use nodeward_linux::test_wait::wait_until;
use nodeward_model::SkipReason;
use nodeward_pager::{PageSize, Pager, PagerOptions, Placement, Region, RegionOptions, Supply};
use rustix::mm::MlockAllFlags;

use crate::common::{
    CHUNK, HERE, MIB, assert_filled, even_if_there, fill, filled_region, in_subprocess, move_all,
    move_twice, page_bytes, pager, pager_with, pages, refuse_argument, unmap_all_lazily,
    while_doing, while_moving, words,
};

const BYTES: usize = 8 * MIB;

/// Some pages in the middle of a chunk, and the end of it with the start of the next.
fn parts() -> [Range<usize>; 2] {
    let page = page_bytes();
    [MIB..MIB + 10 * page, 2 * CHUNK - 7 * page..2 * CHUNK + 7 * page]
}

/// The ranges around them.
fn rest() -> [Range<usize>; 3] {
    let [one, two] = parts();
    [0..one.start, one.end..two.start, two.end..BYTES]
}

fn meddle_with(region: &Region, how: MemoryChange) {
    parts().into_iter().for_each(|part| change_memory(&region.words()[words(part)], how).unwrap());
}

fn parts_pages() -> u64 {
    parts().iter().map(|part| pages(part.len())).sum()
}

fn each(test: impl Fn(&Region)) {
    let Some(pager) = pager() else { return };
    for page in [PageSize::Base, PageSize::Huge] {
        test(&filled_region(&pager, BYTES, page));
    }
}

/// Goal: parts that are unmapped while the region moves are gone, the rest stays, nothing aborts.
#[test]
fn parts_are_unmapped() {
    in_subprocess("memory_changes::parts_are_unmapped", || {
        each(|region| {
            while_moving(region, || meddle_with(region, MemoryChange::Unmap));
            rest().into_iter().for_each(|part| assert_filled(region, part));
            let report = move_all(region);
            assert_eq!(report.account.moved, pages(BYTES) - parts_pages(), "{report:?}");
            assert_eq!(report.account.skipped_for(SkipReason::NotPresent), parts_pages());
            unmap_all_lazily(region);
            rest().into_iter().for_each(|part| assert_filled(region, part));
            region.discard(0..BYTES).unwrap();
            assert_eq!(region.words()[0].load(Relaxed), 0);
        });
    });
}

/// Goal: memory that a program maps over a part belongs to the region again: its pages move, are
/// left out and come back with their content.
#[test]
fn parts_are_replaced() {
    in_subprocess("memory_changes::parts_are_replaced", || {
        each(|region| {
            while_moving(region, || meddle_with(region, MemoryChange::MapAnonymous));
            rest().into_iter().for_each(|part| assert_filled(region, part));
            meddle_with(region, MemoryChange::MapAnonymous);
            parts().into_iter().for_each(|part| fill(region, part));
            let report = move_all(region);
            assert_eq!(report.account.moved, pages(BYTES), "{report:?}");
            assert_filled(region, 0..BYTES);
            meddle_with(region, MemoryChange::MapAnonymous);
            parts().into_iter().for_each(|part| fill(region, part));
            assert_eq!(unmap_all_lazily(region).lazy_pages, pages(BYTES));
            assert_filled(region, 0..BYTES);
        });
    });
}

/// Goal: a file that is mapped over a part stays as it is, and affects nothing else: the rest
/// moves, is left out and comes back.
#[test]
fn a_file_is_mapped_over_parts() {
    in_subprocess("memory_changes::a_file_is_mapped_over_parts", || {
        each(|region| {
            meddle_with(region, MemoryChange::MapFile);
            let report = move_all(region);
            assert_eq!(report.account.skipped_for(SkipReason::Unmovable), parts_pages());
            assert_eq!(report.account.moved, pages(BYTES) - parts_pages(), "{report:?}");
            assert_eq!(unmap_all_lazily(region).lazy_pages, pages(BYTES) - parts_pages());
            rest().into_iter().for_each(|part| assert_filled(region, part));
            region.commit(0..BYTES, &Placement::Local).unwrap();
        });
    });
}

/// Goal: parts that are write-protected for a while, or locked, keep their content, and are
/// reported as unmovable.
#[test]
fn parts_are_protected_and_locked() {
    for how in [MemoryChange::ProtectReadOnly, MemoryChange::Lock] {
        each(|region| {
            let moves = AtomicU64::new(0);
            let again = || {
                let moved = move_twice(region);
                moves.fetch_add(1, Relaxed);
                moved
            };
            // One that was under way, and another one.
            let two_more = || {
                let seen = moves.load(Relaxed);
                wait_until("the region has moved", || moves.load(Relaxed) >= seen + 2);
            };
            let meddles = || {
                two_more();
                meddle_with(region, how);
                two_more();
            };
            let ((), moved) = while_doing(again, meddles);
            assert!(moved > 0);
            assert_filled(region, 0..BYTES);
            let report = move_all(region);
            let stayed = report.account.skipped_for(SkipReason::Unmovable);
            assert_eq!(stayed, parts_pages(), "{how:?} {report:?}");
            assert_eq!(report.account.moved, pages(BYTES) - parts_pages(), "{how:?} {report:?}");
            unmap_all_lazily(region);
            assert_filled(region, 0..BYTES);
            meddle_with(region, MemoryChange::Unprotect);
        });
    }
}

/// Goal: protection that changes while pages move loses no word.
#[test]
fn protection_comes_and_goes() {
    each(|region| {
        while_moving(region, || {
            for _ in 0..300 {
                meddle_with(region, MemoryChange::ProtectReadOnly);
                meddle_with(region, MemoryChange::Unprotect);
            }
        });
        assert_filled(region, 0..BYTES);
        assert_eq!(move_all(region).account.moved, pages(BYTES));
    });
}

/// Goal: parts that the program itself discards while they move read as zero or as before, and
/// nothing around them is lost, even if huge pages are split while a lane moves them.
#[test]
fn parts_are_discarded_behind_our_back() {
    for lazy in [false, true] {
        each(|region| {
            let act = || {
                for round in 0..100 {
                    let page = round * 37 % 512 * page_bytes() % BYTES;
                    let part = page..page + page_bytes();
                    change_memory(&region.words()[words(part.clone())], MemoryChange::Discard)
                        .unwrap();
                    let word = region.words()[part.start / 8].load(Relaxed);
                    assert!(word == 0 || word == part.start as u64 / 8 + 1, "{word}");
                    region.words()[words(part.clone())]
                        .iter()
                        .for_each(|word| word.store(0, Relaxed));
                    fill(region, part);
                }
            };
            match lazy {
                false => drop(while_moving(region, act)),
                true => drop(while_doing(|| unmap_all_lazily(region).lazy_pages, act)),
            }
            assert_filled(region, 0..BYTES);
        });
    }
}

/// Goal: a discarded part reads as zero, even if it moved or was left out at that time.
#[test]
fn a_discard_is_not_undone_by_a_move() {
    each(|region| {
        let act = || {
            for round in 0..40 {
                let start = round % 4 * CHUNK;
                region.discard(start..start + CHUNK).unwrap();
                let words = &region.words()[words(start..start + CHUNK)];
                let left = words.iter().find(|word| word.load(Relaxed) != 0);
                assert!(left.is_none(), "a discarded page came back");
                fill(region, start..start + CHUNK);
            }
        };
        while_moving(region, act);
        assert_filled(region, 0..BYTES);
        unmap_all_lazily(region);
        region.discard(0..BYTES).unwrap();
        assert!(region.words().iter().all(|word| word.load(Relaxed) == 0));
    });
}

/// Goal: a region that is dropped while pages are left out frees them.
#[test]
fn dropped_regions_leave_nothing() {
    in_subprocess("memory_changes::dropped_regions_leave_nothing", || {
        let Some(pager) = pager_with(&PagerOptions { pool_bytes: Some(0), ..Default::default() })
        else {
            return;
        };
        let round = |page| unmap_all_lazily(&filled_region(&pager, BYTES, page)).lazy_pages;
        for page in [PageSize::Base, PageSize::Huge] {
            round(page);
            let before = resident_pages();
            (0..10).for_each(|_| assert_eq!(round(page), pages(BYTES)));
            let more = resident_pages().saturating_sub(before);
            assert!(more < pages(2 * BYTES), "{page:?}: {more} pages are still there");
        }
    });
}

/// Returns the resident pages, counted page by page: statm lacks what CPUs have not yet reported.
fn resident_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let kib = text.lines().find_map(|line| line.strip_prefix("Rss:")?.strip_suffix(" kB"));
    pages(kib.unwrap().trim().parse::<usize>().unwrap() * 1024)
}

/// Goal: a program that locks all its memory (mlockall(2), as databases do) is not aborted.
#[test]
fn all_memory_is_locked() {
    in_subprocess("memory_changes::all_memory_is_locked", || {
        each(|region| {
            move_all(region);
            let flags = MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT;
            if let Err(error) = rustix::mm::mlockall(flags) {
                eprintln!("skipped: mlockall: {error}; raise RLIMIT_MEMLOCK");
                return;
            }
            for supply in [Supply::Any, Supply::OneWay] {
                region.migrate(0..BYTES, HERE, &even_if_there(supply)).unwrap();
                assert_filled(region, 0..BYTES);
            }
            unmap_all_lazily(region);
            assert_filled(region, 0..BYTES);
            region.discard(0..BYTES).unwrap();
            assert!(region.words().iter().all(|word| word.load(Relaxed) == 0));
            rustix::mm::munlockall().unwrap();
        });
    });
}

/// Goal: the same on kernels before Linux 5.18, which have no call to discard locked memory: it is
/// discarded all the same, and stays locked.
#[test]
fn locked_memory_is_discarded_by_older_kernels() {
    in_subprocess("memory_changes::locked_memory_is_discarded_by_older_kernels", || {
        refuse_argument(libc::SYS_madvise, 2, libc::MADV_DONTNEED_LOCKED as u64);
        let Some(pager) = pager() else { return };
        let region = filled_region(&pager, BYTES, PageSize::Base);
        let flags = MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT;
        if let Err(error) = rustix::mm::mlockall(flags) {
            eprintln!("skipped: mlockall: {error}; raise RLIMIT_MEMLOCK");
            return;
        }
        let locked = kib_of_status("VmLck:");
        for supply in [Supply::Any, Supply::OneWay] {
            let report = region.migrate(0..BYTES, HERE, &even_if_there(supply)).unwrap();
            assert_eq!(report.account.selected(), pages(BYTES));
            assert_filled(&region, 0..BYTES);
        }
        unmap_all_lazily(&region);
        assert_filled(&region, 0..BYTES);
        region.discard(0..BYTES).unwrap();
        assert!(region.words().iter().all(|word| word.load(Relaxed) == 0));
        // Memory of threads that ended meanwhile is not locked any more: a stack is 2 MiB at most,
        // of which a few pages were used.
        let lost = locked.saturating_sub(kib_of_status("VmLck:"));
        assert!(lost < BYTES as u64 / 1024 / 4, "what was locked is locked: {lost} KiB are not");
    });
}

/// Goal: kernels before Linux 5.14, which cannot be asked to populate memory, commit it all the
/// same, and change none of its content; what may not be written is left out, without a signal.
#[test]
fn memory_is_committed_by_older_kernels() {
    in_subprocess("memory_changes::memory_is_committed_by_older_kernels", || {
        for advice in [libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE] {
            refuse_argument(libc::SYS_madvise, 2, advice as u64);
        }
        let options = PagerOptions { kernel_only: true, ..Default::default() };
        let pager = Pager::open(&options).unwrap();
        let options = RegionOptions { page: PageSize::Base, ..Default::default() };
        let region = pager.reserve(BYTES, &options).unwrap();
        let present = || region.residency(0..BYTES).unwrap().values().sum::<u64>();
        meddle_with(&region, MemoryChange::ProtectReadOnly);
        for _ in 0..2 {
            region.commit(0..BYTES, &Placement::Local).unwrap();
            wait_until("the rest is there", || present() == pages(BYTES) - parts_pages());
            rest().into_iter().for_each(|part| fill(&region, part));
        }
        region.commit(0..BYTES, &Placement::Local).unwrap();
        rest().into_iter().for_each(|part| assert_filled(&region, part));
    });
}

fn kib_of_status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Goal: code that touches every page of the process, as mlockall(2) does, does not wait for ever
/// for pages that only the pager uses; and the pager still works afterwards.
#[test]
fn all_memory_is_touched() {
    in_subprocess("memory_changes::all_memory_is_touched", || {
        let Some(pager) = pager() else { return };
        let region = filled_region(&pager, BYTES, PageSize::Base);
        move_all(&region);
        if let Err(error) = rustix::mm::mlockall(MlockAllFlags::CURRENT) {
            eprintln!("skipped: mlockall: {error}; raise RLIMIT_MEMLOCK");
            return;
        }
        rustix::mm::munlockall().unwrap();
        let report = move_all(&region);
        assert_eq!(report.account.moved, pages(BYTES), "slots are made empty again: {report:?}");
        assert_filled(&region, 0..BYTES);
    });
}

/// Goal: locking all memory repeatedly, beside migrations and lazy ones, requests the pages of
/// slots by the chunk and not one by one. The first slots have 512 MiB, that is 131,072 pages in
/// 256 chunks, and each request is one read; other requests are for some granules of ours.
#[test]
fn all_memory_is_locked_again_and_again() {
    in_subprocess("memory_changes::all_memory_is_locked_again_and_again", || {
        let Some(pager) = pager() else { return };
        let region = filled_region(&pager, BYTES, PageSize::Base);
        move_all(&region);
        let Some(before) = fault_reads() else {
            return eprintln!("skipped: reads are not counted");
        };
        let again = || move_all(&region).account.moved + unmap_all_lazily(&region).lazy_pages;
        let lock = || {
            for _ in 0..3 {
                let locked = rustix::mm::mlockall(MlockAllFlags::CURRENT);
                if let Err(error) = locked {
                    return eprintln!("skipped: mlockall: {error}; raise RLIMIT_MEMLOCK");
                }
                rustix::mm::munlockall().unwrap();
            }
        };
        while_doing(again, lock);
        let asked = fault_reads().unwrap() - before;
        assert!(asked < 131_072 / 4, "{asked} questions");
        assert_filled(&region, 0..BYTES);
    });
}

/// Returns how often the thread behind faults has read requests.
fn fault_reads() -> Option<u64> {
    let is_it = |task: &PathBuf| {
        std::fs::read_to_string(task.join("comm"))
            .is_ok_and(|name| name.trim() == "nodeward-faults")
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let task = tasks.map(|entry| entry.unwrap().path()).find(is_it).unwrap();
    let io = std::fs::read_to_string(task.join("io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse().ok()
}
