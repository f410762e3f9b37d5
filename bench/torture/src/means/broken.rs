//! Means that are broken on purpose, to test the program itself; they run only when named.

use std::sync::atomic::Ordering::Relaxed;

use super::{Made, Means, Site, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand};
use crate::lot::Lot;

pub const WHAT_STANDS: &str = "to try the watchdog: a thread that stands still";
pub const WHAT_SPOILS: &str = "to try the checks: memory that does not hold what was written";

struct Stands;

struct Spoils(Vec<Lot<'static>>);

pub fn make_stands(_: &mut Site<'_>) -> Made {
    one(Stands)
}

pub fn make_spoils(site: &mut Site<'_>) -> Made {
    one(Spoils(site.ground.lots(Use::Plain)))
}

impl Means for Stands {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        hand.post.does("stand", 0..0);
        loop {
            std::thread::park();
        }
    }
}

impl Means for Spoils {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let lot = hand.one_of(&mut self.0);
        let page = hand.pages(lot).start;
        lot.write(page..page + 1);
        hand.does("spoil", lot, &(page..page + 1));
        lot.words_of(page..page + 1)[7].fetch_sub(1, Relaxed);
        Ok(lot.check(page..page + 1)?)
    }
}
