//! The region's own discard: the memory is empty afterwards, wherever its pages were.

use nodeward::Placement;

use super::{Made, Means, Site, one};
use crate::ground::{HUGE_BYTES, LOT_BYTES, Use};
use crate::hand::{Fault, Hand, failed};
use crate::lot::{Lot, PAGE};

pub const WHAT: &str = "discard and commit";

struct Discard(Vec<Lot<'static>>);

/// Lots are as large as huge pages, which are discarded as a whole.
pub fn make(site: &mut Site<'_>) -> Made {
    one(Discard(site.ground.lots_of(Use::Plain, HUGE_BYTES)))
}

impl Means for Discard {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let lot = hand.one_of(&mut self.0);
        hand.turn(lot)?;
        let some = hand.pages(lot);
        let some = some.start..some.end.min(some.start + LOT_BYTES / PAGE);
        let size = lot.region.page_bytes() / PAGE;
        let pages = some.start / size * size..some.end.next_multiple_of(size);
        let start = lot.bytes.start;
        let bytes = start + pages.start * PAGE..start + pages.end * PAGE;
        hand.does("discard", lot, &pages);
        lot.region.discard(bytes.clone()).map_err(failed("discard"))?;
        lot.emptied(pages.clone());
        lot.check(pages.clone())?;
        if hand.once_in(2) {
            hand.does("commit", lot, &pages);
            lot.region.commit(bytes, &Placement::Local).map_err(failed("commit"))?;
            lot.check(pages.clone())?;
        }
        lot.write(some.clone());
        Ok(lot.check(some)?)
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.0
    }
}
