//! fork: children see the memory as it was, whatever moves in parent or child.

use nodeward_linux::trouble::{Child, End, fork_and_run};

use super::{Made, Means, Site, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand, failed};
use crate::lot::Lot;

pub const WHAT: &str = "fork: a child checks all that it has inherited, while its parent writes";

/// Exit codes of a child.
const RIGHT: u8 = 0;
const WRONG: u8 = 7;

struct Fork(Vec<Lot<'static>>);

pub fn make(site: &mut Site<'_>) -> Made {
    one(Fork(site.ground.lots(Use::Inherited)))
}

impl Means for Fork {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        for lot in &mut self.0 {
            hand.turn(lot)?;
        }
        hand.post.does("fork", 0..0);
        let lots = &self.0;
        let child = fork_and_run(|| look(lots)).map_err(failed("fork"))?;
        let turned = self.0.iter_mut().try_for_each(|lot| hand.turn(lot));
        hand.post.does("waitpid", 0..0);
        let ended = end(child)?;
        turned?;
        match ended {
            End::Code(code) if code == i32::from(RIGHT) => Ok(()),
            End::Code(code) if code == i32::from(WRONG) => Err(Fault::Child),
            end => Err(Fault::Failed(format!("a child ended by {end:?}"))),
        }
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.0
    }
}

fn end(child: Child) -> Result<End, Fault> {
    child.wait().map_err(failed("waitpid"))
}

/// Checks all lots, in the child.
fn look(lots: &[Lot]) -> u8 {
    for lot in lots {
        if let Err(finding) = lot.check(0..lot.pages()) {
            eprintln!("in a child: {finding}");
            return WRONG;
        }
    }
    RIGHT
}
