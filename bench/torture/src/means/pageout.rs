//! Pages go to swap, and come back when they are touched.

use nodeward_linux::trouble::{Meddling, meddle};

use super::{Made, Means, Site, Skipped, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand, failed};
use crate::lot::Lot;

pub const WHAT: &str = "pages that are sent to swap, and come back when they are touched";

struct PageOut(Vec<Lot<'static>>);

pub fn make(site: &mut Site<'_>) -> Made {
    swap()?;
    one(PageOut(site.ground.lots(Use::Plain)))
}

/// Fails if the machine has no swap.
pub fn swap() -> Result<(), Skipped> {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let why = "this machine has no swap; swapon some";
    if swaps.lines().count() > 1 { Ok(()) } else { Err(Skipped(why.to_owned())) }
}

impl Means for PageOut {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let lot = hand.one_of(&mut self.0);
        let pages = hand.pages(lot);
        hand.does("madvise(MADV_PAGEOUT)", lot, &pages);
        meddle(lot.words_of(pages.clone()), Meddling::PageOut).map_err(failed("madvise"))?;
        lot.check(pages.clone())?;
        hand.turn(lot)
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.0
    }
}
