//! mlock: memory that must not leave.

use nodeward_linux::trouble::{Meddling, meddle};

use super::{Made, Means, Site, Skipped, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand, failed};
use crate::lot::Lot;

pub const WHAT: &str = "mlock and munlock";

struct Lock(Vec<Lot<'static>>);

pub fn make(site: &mut Site<'_>) -> Made {
    let lots = site.ground.lots(Use::Held);
    let Some(lot) = lots.first() else {
        return Err(Skipped("no region may be locked on this road".to_owned()));
    };
    let may = meddle(lot.words(), Meddling::Lock);
    may.map_err(|error| Skipped(format!("mlock: {error}; raise RLIMIT_MEMLOCK")))?;
    meddle(lot.words(), Meddling::Unlock).map_err(|error| Skipped(error.to_string()))?;
    one(Lock(lots))
}

impl Means for Lock {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let lot = hand.one_of(&mut self.0);
        let pages = hand.pages(lot);
        hand.does("mlock", lot, &pages);
        meddle(lot.words_of(pages.clone()), Meddling::Lock).map_err(failed("mlock"))?;
        lot.check(pages.clone())?;
        lot.write(pages.clone());
        std::thread::sleep(std::time::Duration::from_micros(hand.dice.below(2000) as u64));
        lot.check(pages.clone())?;
        hand.does("munlock", lot, &pages);
        meddle(lot.words_of(pages), Meddling::Unlock).map_err(failed("munlock"))?;
        hand.turn(lot)
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.0
    }
}
