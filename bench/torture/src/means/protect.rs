//! mprotect: memory that is write-protected or inaccessible for a while.

use nodeward_linux::trouble::{Meddling, meddle};

use super::{Made, Means, Site, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand, failed};
use crate::lot::Lot;

pub const WHAT: &str = "mprotect to read only and to nothing, and back";

struct Protect(Vec<Lot<'static>>);

pub fn make(site: &mut Site<'_>) -> Made {
    one(Protect(site.ground.lots(Use::Plain)))
}

impl Means for Protect {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let lot = hand.one_of(&mut self.0);
        hand.turn(lot)?;
        let pages = hand.pages(lot);
        let words = lot.words_of(pages.clone());
        let forbids = hand.once_in(2);
        hand.does(if forbids { "mprotect nothing" } else { "mprotect read" }, lot, &pages);
        let how = if forbids { Meddling::Forbid } else { Meddling::Protect };
        meddle(words, how).map_err(failed("mprotect"))?;
        if !forbids {
            lot.check(pages.clone())?;
        }
        std::thread::sleep(std::time::Duration::from_micros(hand.dice.below(2000) as u64));
        hand.does("mprotect all", lot, &pages);
        meddle(words, Meddling::Unprotect).map_err(failed("mprotect"))?;
        lot.check(pages.clone())?;
        lot.write(pages);
        Ok(())
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.0
    }
}
