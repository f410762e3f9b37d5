//! Plain reads and writes.

use super::{Made, Means, Site};
use crate::ground::Use;
use crate::hand::{Fault, Hand};
use crate::lot::Lot;

pub const WHAT: &str = "reads and writes, each word of it checked";

/// How many times pages are checked and written in a step.
const TURNS: usize = 4;

struct Plain(Vec<Lot<'static>>);

pub fn make(site: &mut Site<'_>) -> Made {
    let writer = || -> Box<dyn Means> { Box::new(Plain(site.ground.lots(Use::Plain))) };
    Ok(std::iter::repeat_with(writer).take(2).collect())
}

impl Means for Plain {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        (0..TURNS).try_for_each(|_| {
            let lot = hand.one_of(&mut self.0);
            hand.turn(lot)
        })
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.0
    }
}
