//! Holders of pages: io_uring, which the kernel lets the pager detect, and pipes, which need a
//! guard.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use nodeward_linux::interference::RingPin;
use nodeward_linux::own_process::hold_in_pipe;

use crate::means_thread::{Means, MeansEnv, MeansThreads, SkippedMeans, single_thread};
use crate::owned_range::{OwnedRange, PAGE};
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "pages that an io_uring has registered, and vmsplice under a pin";

/// Maximum number of pages held: a pipe takes 16.
const PAGES: usize = 8;

struct PinMeans {
    ranges: Vec<OwnedRange<'static>>,
    rings: bool,
}

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    let lots = env.memory.ranges(RangeUse::PinnedOrLocked);
    let Some(lot) = lots.first() else {
        return Err(SkippedMeans("no region is for devices with this backend".to_owned()));
    };
    let rings = RingPin::new(lot.words_of(0..1)).is_ok();
    single_thread(PinMeans { ranges: lots, rings })
}

impl Means for PinMeans {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let lot = context.random_range(&mut self.ranges);
        let pages = context.random_pages(lot);
        let pages = pages.start..pages.end.min(pages.start + PAGES);
        lot.write(pages.clone());
        if self.rings && context.once_in(2) {
            context.begin_action("hold by a ring", lot, &pages);
            let ring = RingPin::new(lot.words_of(pages.clone())).map_err(failure("io_uring"))?;
            lot.check(pages.clone())?;
            lot.write(pages.clone());
            drop(ring);
            return Ok(lot.check(pages)?);
        }
        context.begin_action("vmsplice", lot, &pages);
        by_pipe(lot, pages)
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.ranges
    }
}

fn by_pipe(lot: &mut OwnedRange, pages: std::ops::Range<usize>) -> Result<(), StepFailure> {
    let start = lot.bytes.start;
    let size = lot.region.page_bytes();
    let held = (start + pages.start * PAGE) / size * size
        ..(start + pages.end * PAGE).next_multiple_of(size);
    let guard = lot.region.pin(held).map_err(failure("pin"))?;
    let (from, to) = rustix::pipe::pipe().map_err(failure("pipe"))?;
    let words = lot.words_of(pages.clone());
    let taken = hold_in_pipe(to.as_fd(), words).map_err(failure("vmsplice"))?;
    std::thread::yield_now();
    let mut content = vec![0; taken];
    File::from(from).read_exact(&mut content).map_err(failure("read"))?;
    lot.check_copy(pages.start..pages.start + taken / PAGE, &content)?;
    drop(guard);
    Ok(())
}
