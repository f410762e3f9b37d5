//! The kernel's calls that a call of the library cannot do without, alone and timed, on memory that
//! is set up as a region is. A benchmark compares the library with them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::bare_moves::{map_base_pages, move_descriptor, refused, register, timed};
use crate::chunk::CHUNK_BYTES;
use crate::error::{Result, system};
use crate::sys::{
    Advice, AnonMapping, IncompleteTransfer, Slot, TransferMethod, Uffd, copy_from_slot,
};

/// Memory of one thread, and the calls on it.
#[derive(Debug)]
pub struct BareCalls {
    uffd: Uffd,
    /// Registered with userfaultfd.
    region: AnonMapping,
    /// Not registered: populating it is no fault that somebody must serve.
    plain: AnonMapping,
    slot: Slot,
}

/// The times of the kernel's calls for one range, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BareTimes {
    /// UFFDIO_MOVE of the range to another place.
    pub move_ns: u64,
    /// UFFDIO_COPY of the content back to its addresses.
    pub copy_ns: u64,
    /// MADV_DONTNEED of the emptied pages at the other place.
    pub discard_ns: u64,
    /// MADV_POPULATE_WRITE of a range that has no pages.
    pub populate_ns: u64,
}

impl BareCalls {
    /// Sets up memory for ranges of at most 2 MiB.
    ///
    /// # Errors
    /// [`NeedsUserfaultfd`](crate::error::Error::NeedsUserfaultfd) where UFFDIO_MOVE does not work.
    pub fn open() -> Result<Self> {
        let uffd = move_descriptor()?;
        let map = || map_base_pages(CHUNK_BYTES);
        let (region, plain, slots) = (map()?, map()?, map()?);
        [&region, &slots].into_iter().try_for_each(|mapping| register(&uffd, mapping))?;
        let slot = AnonMapping::slots(&Arc::new(slots), CHUNK_BYTES).remove(0);
        Ok(Self { uffd, region, plain, slot })
    }

    /// Times each call once on the first `bytes` bytes, whole pages and at most 2 MiB.
    ///
    /// # Errors
    /// If the kernel refuses a call.
    pub fn time(&mut self, bytes: usize) -> Result<BareTimes> {
        let part = 0..bytes.min(CHUNK_BYTES);
        self.fill(&part)?;
        let Self { uffd, region, plain, slot } = self;
        let move_ns = timed(|| {
            TransferMethod::Move
                .unmap_to_slot(uffd, (region, part.clone()), (slot, 0))
                .map(drop)
                .map_err(refused("UFFDIO_MOVE"))
        })?;
        let copy_ns = timed(|| {
            copy_from_slot(uffd, (slot, 0), (region, part.clone()))
                .map(drop)
                .map_err(refused("UFFDIO_COPY"))
        })?;
        let discard_ns = timed(|| slot.discard(part.clone()).map_err(system("madvise")))?;
        plain.advise(part.clone(), Advice::Discard).map_err(system("madvise"))?;
        let populate_ns =
            timed(|| plain.advise(part, Advice::Populate).map_err(system("madvise")))?;
        Ok(BareTimes { move_ns, copy_ns, discard_ns, populate_ns })
    }

    /// Brings in pages that are missing, and writes to each as a program does.
    fn fill(&self, part: &Range<usize>) -> Result<()> {
        for page in part.clone().step_by(rustix::param::page_size()) {
            let address = self.region.start() + page as u64;
            let there = self.uffd.map_zeros(address, rustix::param::page_size() as u64);
            there.or_else(present).map_err(refused("UFFDIO_ZEROPAGE"))?;
            self.region.words()[page / size_of::<u64>()].store(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Accepts that a page is there already.
fn present(stopped: IncompleteTransfer) -> std::result::Result<u64, IncompleteTransfer> {
    if stopped.errno == rustix::io::Errno::EXIST { Ok(0) } else { Err(stopped) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every call does what it is timed for, again and again, and the content stays.
    #[test]
    fn bare_calls_can_be_repeated() {
        let mut bare = match BareCalls::open() {
            Ok(bare) => bare,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        let page = rustix::param::page_size();
        for pages in [1, 16, 1, CHUNK_BYTES / page] {
            let times = bare.time(pages * page).unwrap();
            assert!(times.move_ns > 0 && times.copy_ns > 0 && times.populate_ns > 0, "{times:?}");
            assert_eq!(bare.region.words()[0].load(Ordering::Relaxed), 1);
        }
    }
}
