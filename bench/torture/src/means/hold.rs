//! Holders of pages: io_uring, which the kernel lets the pager detect, and pipes, which need a
//! guard.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use nodeward_linux::own::hold_in_pipe;
use nodeward_linux::trouble::RingPin;

use super::{Made, Means, Site, Skipped, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand, failed};
use crate::lot::{Lot, PAGE};

pub const WHAT: &str = "pages that an io_uring has registered, and vmsplice under a pin";

/// Maximum number of pages held: a pipe takes 16.
const PAGES: usize = 8;

struct Hold {
    lots: Vec<Lot<'static>>,
    rings: bool,
}

pub fn make(site: &mut Site<'_>) -> Made {
    let lots = site.ground.lots(Use::Held);
    let Some(lot) = lots.first() else {
        return Err(Skipped("no region is for devices on this road".to_owned()));
    };
    let rings = RingPin::of(lot.words_of(0..1)).is_ok();
    one(Hold { lots, rings })
}

impl Means for Hold {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let lot = hand.one_of(&mut self.lots);
        let pages = hand.pages(lot);
        let pages = pages.start..pages.end.min(pages.start + PAGES);
        lot.write(pages.clone());
        if self.rings && hand.once_in(2) {
            hand.does("hold by a ring", lot, &pages);
            let ring = RingPin::of(lot.words_of(pages.clone())).map_err(failed("io_uring"))?;
            lot.check(pages.clone())?;
            lot.write(pages.clone());
            drop(ring);
            return Ok(lot.check(pages)?);
        }
        hand.does("vmsplice", lot, &pages);
        by_pipe(lot, pages)
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.lots
    }
}

fn by_pipe(lot: &mut Lot, pages: std::ops::Range<usize>) -> Result<(), Fault> {
    let start = lot.bytes.start;
    let size = lot.region.page_bytes();
    let held = (start + pages.start * PAGE) / size * size
        ..(start + pages.end * PAGE).next_multiple_of(size);
    let guard = lot.region.pin(held).map_err(failed("pin"))?;
    let (from, to) = rustix::pipe::pipe().map_err(failed("pipe"))?;
    let words = lot.words_of(pages.clone());
    let taken = hold_in_pipe(to.as_fd(), words).map_err(failed("vmsplice"))?;
    std::thread::yield_now();
    let mut content = vec![0; taken];
    File::from(from).read_exact(&mut content).map_err(failed("read"))?;
    lot.check_copy(pages.start..pages.start + taken / PAGE, &content)?;
    drop(guard);
    Ok(())
}
