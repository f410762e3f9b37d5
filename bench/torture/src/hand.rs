//! The tools of a thread: random numbers, its post, and the common counts.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_proof::Dice;

use crate::lot::{Finding, Lot};
use crate::post::Post;
use crate::tally::Tally;

/// Something that must not happen.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// Memory did not hold what was written.
    #[error("{0}")]
    Lost(Finding),
    /// A word used as a counter had a wrong value.
    #[error("a count was {found} where it is {expected}")]
    Count {
        /// The number of increments.
        expected: u64,
        /// The value found.
        found: u64,
    },
    /// A child did not see what its parent had written.
    #[error("a child did not see what was written before it began; see above")]
    Child,
    /// A call failed that must not fail.
    #[error("{0}")]
    Failed(String),
}

impl Fault {
    /// Returns whether memory did not hold what was written.
    pub fn is_loss(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}

impl From<Finding> for Fault {
    fn from(finding: Finding) -> Self {
        Self::Lost(finding)
    }
}

/// Returns a fault with the name of the failed operation.
pub fn failed<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Fault {
    move |error| Fault::Failed(format!("{what}: {error}"))
}

pub struct Hand {
    pub dice: Dice,
    pub post: Arc<Post>,
    pub tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
}

impl Hand {
    pub fn new(dice: Dice, post: Arc<Post>, tally: Arc<Tally>, stop: Arc<AtomicBool>) -> Self {
        Self { dice, post, tally, stop }
    }

    /// Returns whether it is time to end.
    pub fn is_over(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Records the next action, and the pages of a lot that it concerns.
    pub fn does(&self, what: &'static str, lot: &Lot, pages: &Range<usize>) {
        let words = lot.words_of(pages.clone());
        let start = words.as_ptr() as usize;
        self.post.does(what, start..start + size_of_val(words));
    }

    /// Returns a random lot.
    pub fn one_of<'a>(&mut self, lots: &'a mut [Lot<'static>]) -> &'a mut Lot<'static> {
        let count = lots.len();
        &mut lots[self.dice.below(count)]
    }

    /// Returns a random range of pages of a lot, short ones more often than long ones.
    pub fn pages(&mut self, lot: &Lot) -> Range<usize> {
        let most = lot.pages() >> self.dice.below(lot.pages().ilog2() as usize + 1);
        let length = 1 + self.dice.below(most);
        let start = self.dice.below(lot.pages() - length + 1);
        start..start + length
    }

    /// Returns true once in `times` times, at random.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.dice.below(times) == 0
    }

    /// Checks some pages of a lot and writes them anew.
    pub fn turn(&mut self, lot: &mut Lot) -> Result<(), Fault> {
        let pages = self.pages(lot);
        self.does("check and write", lot, &pages);
        lot.check(pages.clone())?;
        lot.write(pages);
        Ok(())
    }
}
