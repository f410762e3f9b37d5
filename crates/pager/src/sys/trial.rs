//! Trials of the features that the kernel claims to have, on two pages of our own.

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};
use rustix::io::Errno;

use super::mapping::{Advice, AnonMapping};
use super::uffd::{CAN_COPY, CAN_MOVE, IncompleteTransfer, Uffd};
use crate::chunk::CHUNK_BYTES;

/// A word for each page, checked afterwards.
const MARKER_WORDS: [u64; 2] = [0x6e6f_6465, 0x7761_7264];

/// Moves two pages out of sight and back by UFFDIO_MOVE.
pub fn try_move(uffd: &Uffd) -> Result<(), Errno> {
    let (home, away) = (two_pages()?, two_pages()?);
    write_marks(&home);
    register(uffd, &home, CAN_MOVE)?;
    register(uffd, &away, CAN_MOVE)?;
    move_all(uffd, &away, &home)?;
    move_all(uffd, &home, &away)?;
    read_marks(&home)
}

/// Takes two pages out of sight by MREMAP_DONTUNMAP and brings them back by UFFDIO_COPY.
pub fn try_remap(uffd: &Uffd) -> Result<(), Errno> {
    let home = two_pages()?;
    write_marks(&home);
    register(uffd, &home, CAN_COPY)?;
    let (start, bytes) = (home.address() as *mut c_void, home.bytes());
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
    // With these flags the kernel also checks the new address, which rustix does not pass.
    let anywhere = ptr::null_mut::<c_void>();
    // SAFETY: the mapping is `home`, which no reference points into now, and stays mapped.
    let away = unsafe { libc::mremap(start, bytes, bytes, flags, anywhere) };
    if away == libc::MAP_FAILED {
        return Err(errno(&io::Error::last_os_error()));
    }
    // SAFETY: both areas are ours alone.
    let copied = unsafe { uffd.copy(home.address(), away as u64, bytes as u64, false) };
    // SAFETY: mremap has just made this mapping for us, and nothing points into it.
    unsafe { rustix::mm::munmap(away, bytes) }?;
    copied.map_err(|IncompleteTransfer { errno, .. }| errno)?;
    read_marks(&home)
}

/// Brings a huge page to where a base page was. Returns whether it arrived as a huge page; `None`
/// if none could be had to try it with. `is_huge` tells whether the 2 MiB at an address are one.
pub fn try_huge_arrival(uffd: &Uffd, is_huge: impl Fn(u64) -> bool) -> Option<bool> {
    let chunk = || AnonMapping::reserve(CHUNK_BYTES, CHUNK_BYTES).ok();
    let (home, away) = (chunk()?, chunk()?);
    // The advice is refused by kernels without huge pages; then there is none.
    home.advise(0..CHUNK_BYTES, Advice::BasePages).ok();
    away.advise(0..CHUNK_BYTES, Advice::HugePages).ok();
    for mapping in [&home, &away] {
        mapping.words()[0].store(MARKER_WORDS[0], Relaxed);
    }
    uffd.register(home.start(), CHUNK_BYTES as u64).ok()?;
    home.advise(0..CHUNK_BYTES, Advice::Discard).ok()?;
    let had_one = is_huge(away.start());
    // SAFETY: both mappings are ours alone and are reached through atomics.
    let moved = unsafe { uffd.move_pages(home.start(), away.start(), CHUNK_BYTES as u64, false) };
    (had_one && moved.is_ok()).then(|| is_huge(home.start()))
}

fn two_pages() -> Result<MappedArea, Errno> {
    let area = MappedArea::map(2 * rustix::param::page_size(), AreaBacking::Anonymous)
        .map_err(|error| errno(&error))?;
    // Not needed, and refused by kernels without huge pages.
    let _ = area.advise(AreaAdvice::BasePages);
    Ok(area)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Registers an area and checks that a request works there.
fn register(uffd: &Uffd, area: &MappedArea, request: u64) -> Result<(), Errno> {
    let can = uffd.register(area.address(), area.bytes() as u64)?;
    if can & request == 0 { Err(Errno::NOTTY) } else { Ok(()) }
}

fn move_all(uffd: &Uffd, to: &MappedArea, from: &MappedArea) -> Result<(), Errno> {
    // SAFETY: both areas are ours alone and are reached through atomics.
    let moved =
        unsafe { uffd.move_pages(to.address(), from.address(), from.bytes() as u64, false) };
    moved.map(drop).map_err(|IncompleteTransfer { errno, .. }| errno)
}

fn words_per_page(area: &MappedArea) -> usize {
    area.words().len() / MARKER_WORDS.len()
}

fn write_marks(area: &MappedArea) {
    let pages = area.words().chunks(words_per_page(area));
    pages.zip(MARKER_WORDS).for_each(|(page, mark)| page[0].store(mark, Relaxed));
}

/// Checks the marks. Only for areas whose pages are present: no thread would serve the fault.
fn read_marks(area: &MappedArea) -> Result<(), Errno> {
    let pages = area.words().chunks(words_per_page(area));
    let kept = pages.zip(MARKER_WORDS).all(|(page, mark)| page[0].load(Relaxed) == mark);
    if kept { Ok(()) } else { Err(Errno::IO) }
}

#[cfg(test)]
mod tests {
    use super::super::uffd::FEATURE_MOVE;
    use super::*;

    /// Goal: a trial succeeds exactly where the kernel agreed to the feature. Kernels with
    /// UFFDIO_MOVE (6.8) also have MREMAP_DONTUNMAP (5.7).
    #[test]
    fn trials_tell_the_truth() {
        let Ok(uffd) = Uffd::open(true) else { return eprintln!("skipped: no userfaultfd here") };
        assert_eq!((try_move(&uffd), try_remap(&uffd)), (Err(Errno::INVAL), Err(Errno::INVAL)));
        if uffd.api(FEATURE_MOVE).is_err() {
            return eprintln!("skipped: no UFFDIO_MOVE here");
        }
        assert_eq!((try_move(&uffd), try_remap(&uffd)), (Ok(()), Ok(())));
    }
}
