//! Other users of the pages: direct I/O, io_uring, pipes.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use nodeward_linux::interference::{RingPin, read_into};
use nodeward_linux::own_process::hold_in_pipe;
use nodeward_model::SkipReason;
use nodeward_pager::{PageSize, Region, Supply};
use rustix::fs::{Mode, OFlags};

use crate::common::{
    HERE, MIB, assert_filled, even_if_there, filled_region, move_all, page_bytes, pager, pages,
    unmap_all_lazily, while_moving, words,
};

/// Goal: pages that an io_uring holds are refused as pinned and keep their content; when it
/// releases them they move.
#[test]
fn pages_of_a_ring_are_refused() {
    let Some(pager) = pager() else { return };
    for page in [PageSize::Base, PageSize::Huge] {
        let region = filled_region(&pager, 8 * MIB, page);
        let held = MIB..MIB + 16 * page_bytes();
        let pin = match RingPin::new(&region.words()[words(held.clone())]) {
            Ok(pin) => pin,
            Err(error) => return eprintln!("skipped: io_uring: {error}"),
        };
        // A huge page is held as a whole.
        let stay = if page == PageSize::Huge { pages(2 * MIB) } else { 16 };
        let report = move_all(&region);
        assert_eq!(report.account.skipped_for(SkipReason::Pinned), stay, "{report:?}");
        assert_eq!(report.account.moved, pages(8 * MIB) - stay, "{report:?}");
        let report = unmap_all_lazily(&region);
        assert_eq!(report.account.skipped_for(SkipReason::Pinned), stay, "{report:?}");
        assert_eq!(report.lazy_pages, pages(8 * MIB) - stay, "{report:?}");
        assert_filled(&region, 0..8 * MIB);
        drop(pin);
        assert_eq!(move_all(&region).account.moved, pages(8 * MIB));
        assert_filled(&region, 0..8 * MIB);
    }
}

/// Goal: direct I/O reads from a real file correctly, though the pages move, or are left out, when
/// it begins and while it runs.
#[test]
fn direct_io_arrives() {
    const BYTES: usize = 8 * MIB;
    let Some(pager) = pager() else { return };
    // Not in /tmp, which may be a tmpfs without direct I/O.
    let target = std::env::current_exe().unwrap();
    let mut file = tempfile::NamedTempFile::new_in(target.parent().unwrap()).unwrap();
    let content: Vec<u8> = (0..BYTES as u64 / 8).flat_map(|i| (i + 1).to_ne_bytes()).collect();
    file.write_all(&content).unwrap();
    file.as_file().sync_all().unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let direct = match rustix::fs::open(file.path(), flags, Mode::empty()) {
        Ok(direct) => direct,
        Err(error) => return eprintln!("skipped: no direct I/O here: {error}"),
    };
    for page in [PageSize::Base, PageSize::Huge] {
        let region = filled_region(&pager, BYTES, page);
        let read_all = || {
            for round in 0..20 {
                region.words().iter().for_each(|word| word.store(0, Relaxed));
                if round % 4 == 0 {
                    unmap_all_lazily(&region);
                }
                let read = read_into(direct.as_fd(), region.words(), 0).unwrap();
                assert_eq!(read, BYTES);
                assert_filled(&region, 0..BYTES);
            }
        };
        let ((), moved) = while_moving(&region, read_all);
        assert!(moved > 0);
    }
}

/// Makes a pipe that holds some pages of a region by plain references, which cannot be detected.
fn vmsplice_pipe(region: &Region, bytes: std::ops::Range<usize>) -> OwnedFd {
    let (read, write) = rustix::pipe::pipe().unwrap();
    let held = hold_in_pipe(write.as_fd(), &region.words()[words(bytes.clone())]).unwrap();
    assert_eq!(held, bytes.len());
    read
}

/// Reads from the pipe, and counts the words that are not what `fill` wrote.
fn wrong_words(pipe: OwnedFd, bytes: std::ops::Range<usize>) -> usize {
    let mut content = vec![0; bytes.len()];
    File::from(pipe).read_exact(&mut content).unwrap();
    let (found, _) = content.as_chunks();
    let wrong = found
        .iter()
        .zip(words(bytes))
        .filter(|(word, index)| u64::from_ne_bytes(**word) != *index as u64 + 1);
    wrong.count()
}

/// Goal: shows why the guard exists: without it a pipe sees the content that was later put into a
/// reused page, with it the pipe sees none of that. Pages under the guard stay and say so.
#[test]
fn pipes_need_the_guard() {
    let Some(pager) = pager() else { return };
    let held = MIB..MIB + 4 * page_bytes();
    for guarded in [false, true] {
        let region = filled_region(&pager, 4 * MIB, PageSize::Base);
        // Another region, whose content goes to the pages that the first one left.
        let other = filled_region(&pager, 4 * MIB, PageSize::Base);
        other.words().iter().for_each(|word| word.store(u64::MAX, Relaxed));
        let guard = guarded.then(|| region.pin(held.clone()).unwrap());
        let pipe = vmsplice_pipe(&region, held.clone());
        let report = move_all(&region);
        let stay = if guarded { 4 } else { 0 };
        assert_eq!(report.account.skipped_for(SkipReason::Pinned), stay, "{report:?}");
        other.migrate(0..other.bytes(), HERE, &even_if_there(Supply::Recycled)).unwrap();
        let wrong = wrong_words(pipe, held.clone());
        assert_eq!(wrong == 0, guarded, "{wrong} words: fails too if the danger is gone");
        drop(guard);
        assert_eq!(move_all(&region).account.skipped_total(), 0);
        assert_filled(&region, 0..4 * MIB);
    }
}

/// Goal: a guard brings back pages that were left out, and holds against all concurrent moves.
/// Guards nest.
#[test]
fn guards_hold_while_others_move() {
    let Some(pager) = pager() else { return };
    let region = filled_region(&pager, 8 * MIB, PageSize::Base);
    let held = 3 * MIB..3 * MIB + 16 * page_bytes();
    let holds = || {
        for round in 0..100 {
            let outer = region.pin(held.clone()).unwrap();
            let pipe = vmsplice_pipe(&region, held.clone());
            if round % 3 == 0 {
                unmap_all_lazily(&region);
            }
            drop(region.pin(held.clone()).unwrap());
            move_all(&region);
            assert_eq!(wrong_words(pipe, held.clone()), 0, "round {round}");
            drop(outer);
        }
    };
    let ((), moved) = while_moving(&region, holds);
    assert!(moved > 0);
    assert_filled(&region, 0..8 * MIB);
}
