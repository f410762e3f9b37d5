//! Moving memory by the kernel's calls alone, without anything that makes that safe beside other
//! threads, pins and refusals: the calls that a migration cannot do without. A benchmark compares
//! the pager with them.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::backend::probe;
use crate::chunk::CHUNK_BYTES;
use crate::copier::Copier;
use crate::error::{Error, Result, system};
use crate::migration::StepTimes;
use crate::sys::{
    Advice, AnonMapping, IncompleteTransfer, Slot, TransferMethod, TransferResult, Uffd,
    copy_from_slot, map_from_slot,
};

/// Memory of one thread, in base pages, all present; and as many pages to which it can move.
#[derive(Debug)]
pub struct BareMoves {
    uffd: Uffd,
    region: AnonMapping,
    /// Without pages: where the region's go. One for each of its chunks, as of `recycled`.
    empty: Vec<Slot>,
    /// With pages: where the region's content is copied.
    recycled: Vec<Slot>,
}

impl BareMoves {
    /// Allocates `bytes`, whole chunks of 2 MiB, twice, by the memory policy of the caller.
    ///
    /// # Errors
    /// [`Error::NeedsUserfaultfd`] where UFFDIO_MOVE does not work; or there is no memory.
    pub fn open(bytes: usize) -> Result<Self> {
        let uffd = move_descriptor()?;
        let bytes = bytes.next_multiple_of(CHUNK_BYTES);
        let (region, empty, recycled) =
            (map_base_pages(bytes)?, map_base_pages(bytes)?, map_base_pages(bytes)?);
        for mapping in [&region, &recycled] {
            mapping.advise(0..bytes, Advice::Populate).map_err(system("MADV_POPULATE_WRITE"))?;
        }
        [&region, &empty, &recycled]
            .into_iter()
            .try_for_each(|mapping| register(&uffd, mapping))?;
        let slots = |mapping| AnonMapping::slots(&Arc::new(mapping), CHUNK_BYTES);
        Ok(Self { uffd, region, empty: slots(empty), recycled: slots(recycled) })
    }

    /// Returns the size of the memory in bytes.
    pub fn bytes(&self) -> usize {
        self.region.bytes()
    }

    /// Moves all of it to fresh pages: UFFDIO_MOVE out, UFFDIO_COPY, MADV_DONTNEED.
    ///
    /// # Errors
    /// If the kernel refuses a call.
    pub fn one_way(&mut self) -> Result<StepTimes> {
        let mut times = StepTimes::default();
        let Self { uffd, region, empty, .. } = self;
        for (part, slot) in chunks(region).zip(empty) {
            times.unmap_ns += timed(|| take_out(uffd, region, &part, slot))?;
            times.map_ns += timed(|| {
                complete(&part, |rest| copy_from_slot(uffd, at(slot, &part, &rest), (region, rest)))
                    .map_err(refused("UFFDIO_COPY"))
            })?;
            times.supply_ns +=
                timed(|| slot.discard(0..CHUNK_BYTES).map_err(system("MADV_DONTNEED")))?;
        }
        Ok(times)
    }

    /// Moves all of it to recycled pages, and keeps those that it leaves: UFFDIO_MOVE out, a copy,
    /// UFFDIO_MOVE in.
    ///
    /// # Errors
    /// If the kernel refuses a call.
    pub fn recycled(&mut self, copier: &dyn Copier) -> Result<StepTimes> {
        let mut times = StepTimes::default();
        let Self { uffd, region, empty, recycled } = self;
        for ((part, empty), recycled) in chunks(region).zip(empty).zip(recycled) {
            times.unmap_ns += timed(|| take_out(uffd, region, &part, empty))?;
            let all = 0..CHUNK_BYTES;
            times.copy_ns += timed(|| {
                copier.copy(recycled.content_mut(all.clone()), empty.content(all));
                Ok(())
            })?;
            times.map_ns += timed(|| {
                let map = |rest: Range<usize>| {
                    map_from_slot(uffd, (&mut *recycled, rest.start - part.start), (region, rest))
                };
                complete(&part, map).map_err(refused("UFFDIO_MOVE"))
            })?;
            mem::swap(empty, recycled);
        }
        Ok(times)
    }

    /// Allocates as much once more by MADV_POPULATE_WRITE, and frees it. Returns the time of the
    /// former in nanoseconds.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn populate(&self) -> Result<u64> {
        let fresh = map_base_pages(self.bytes())?;
        timed(|| {
            chunks(&fresh)
                .try_for_each(|part| fresh.advise(part, Advice::Populate))
                .map_err(system("MADV_POPULATE_WRITE"))
        })
    }
}

/// Opens userfaultfd with UFFDIO_MOVE.
pub(crate) fn move_descriptor() -> Result<Uffd> {
    let found = probe(false, false)?;
    let can_move = found.backend == crate::Backend::Move;
    found.uffd.filter(|_| can_move).ok_or_else(|| Error::NeedsUserfaultfd {
        feature: "UFFDIO_MOVE",
        reason: found.why_not_faster.unwrap_or_default(),
    })
}

/// Maps memory in base pages, none of which is there yet.
pub(crate) fn map_base_pages(bytes: usize) -> Result<AnonMapping> {
    let mapping = AnonMapping::reserve(bytes, CHUNK_BYTES).map_err(system("mmap"))?;
    // Kernels without huge pages reject the advice, and do not need it.
    mapping.advise(0..bytes, Advice::BasePages).ok();
    Ok(mapping)
}

/// Registers a mapping, as regions and slots are.
pub(crate) fn register(uffd: &Uffd, mapping: &AnonMapping) -> Result<()> {
    let registered = uffd.register(mapping.start(), mapping.bytes() as u64);
    registered.map(drop).map_err(|errno| system("UFFDIO_REGISTER")(errno.into()))
}

fn chunks(mapping: &AnonMapping) -> impl Iterator<Item = Range<usize>> + use<> {
    (0..mapping.bytes()).step_by(CHUNK_BYTES).map(|start| start..start + CHUNK_BYTES)
}

fn take_out(uffd: &Uffd, region: &AnonMapping, part: &Range<usize>, slot: &mut Slot) -> Result<()> {
    let unmap = |rest: Range<usize>| {
        let to = (&mut *slot, rest.start - part.start);
        TransferMethod::Move.unmap_to_slot(uffd, (region, rest), to)
    };
    complete(part, unmap).map_err(refused("UFFDIO_MOVE"))
}

/// The place of the rest of a chunk in its slot.
fn at<'s>(slot: &'s Slot, part: &Range<usize>, rest: &Range<usize>) -> (&'s Slot, usize) {
    (slot, rest.start - part.start)
}

/// Repeats a call for what it left of a part, as long as the kernel says EAGAIN, at most 64 times.
fn complete(
    part: &Range<usize>,
    mut transfer: impl FnMut(Range<usize>) -> TransferResult,
) -> std::result::Result<(), IncompleteTransfer> {
    const TRIES: usize = 64;
    let mut start = part.start;
    let mut last = Ok(());
    for _ in 0..TRIES {
        match transfer(start..part.end) {
            Ok(_) => return Ok(()),
            Err(stopped) if stopped.errno == rustix::io::Errno::AGAIN => {
                start += stopped.done_bytes as usize;
                last = Err(stopped);
            }
            Err(stopped) => return Err(stopped),
        }
    }
    last
}

/// Returns the error of a call that the kernel refused.
pub(crate) fn refused(call: &'static str) -> impl FnOnce(IncompleteTransfer) -> Error {
    move |stopped| system(call)(stopped.errno.into())
}

/// Returns the nanoseconds that a call took.
pub(crate) fn timed(call: impl FnOnce() -> Result<()>) -> Result<u64> {
    let began = Instant::now();
    call()?;
    Ok(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::copier::Memcpy;

    /// Goal: the content stays in place and the same, whichever way all pages move, in turns; each
    /// step takes time.
    #[test]
    fn memory_moves_and_stays() {
        let mut bare = match BareMoves::open(2 * CHUNK_BYTES) {
            Ok(bare) => bare,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        bare.region.words().iter().zip(0..).for_each(|(word, number)| word.store(number, Relaxed));
        for _ in 0..2 {
            let fresh = bare.one_way().unwrap();
            assert!(fresh.unmap_ns > 0 && fresh.map_ns > 0 && fresh.supply_ns > 0, "{fresh:?}");
            for _ in 0..2 {
                let recycled = bare.recycled(&Memcpy).unwrap();
                assert!(
                    recycled.unmap_ns > 0 && recycled.copy_ns > 0 && recycled.map_ns > 0,
                    "{recycled:?}"
                );
            }
            let mut words = bare.region.words().iter().zip(0..);
            assert!(words.all(|(word, number)| word.load(Relaxed) == number));
        }
        assert!(bare.populate().unwrap() > 0);
    }
}
