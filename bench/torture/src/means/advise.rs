//! madvise: discards content, as far as it is in sight.

use nodeward_linux::trouble::{Meddling, meddle};

use super::{Made, Means, Site, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand, failed};
use crate::lot::Lot;

pub const WHAT: &str = "madvise: each page is empty afterwards or as it was, and not in between";

struct Advise(Vec<Lot<'static>>);

pub fn make(site: &mut Site<'_>) -> Made {
    one(Advise(site.ground.lots(Use::Plain)))
}

impl Means for Advise {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let lot = hand.one_of(&mut self.0);
        hand.turn(lot)?;
        let pages = hand.pages(lot);
        hand.does("madvise(MADV_DONTNEED)", lot, &pages);
        meddle(lot.words_of(pages.clone()), Meddling::Discard).map_err(failed("madvise"))?;
        lot.check_emptied_or_whole(pages.clone())?;
        lot.write(pages.clone());
        Ok(lot.check(pages)?)
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.0
    }
}
