//! The tools of a thread: random numbers, its status, and the common counts.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_proof::Xorshift64;

use crate::move_totals::SharedMoveTotals;
use crate::owned_range::{OwnedRange, PageMismatch};
use crate::thread_status::ThreadStatus;

/// Something that must not happen.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StepFailure {
    /// Memory did not hold what was written.
    #[error("{0}")]
    Mismatch(PageMismatch),
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

impl StepFailure {
    /// Returns whether memory did not hold what was written.
    pub fn is_loss(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}

impl From<PageMismatch> for StepFailure {
    fn from(finding: PageMismatch) -> Self {
        Self::Mismatch(finding)
    }
}

/// Returns a fault with the name of the failed operation.
pub fn failure<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> StepFailure {
    move |error| StepFailure::Failed(format!("{what}: {error}"))
}

pub struct ThreadContext {
    pub random: Xorshift64,
    pub status: Arc<ThreadStatus>,
    pub totals: Arc<SharedMoveTotals>,
    stop: Arc<AtomicBool>,
}

impl ThreadContext {
    pub fn new(
        random: Xorshift64,
        status: Arc<ThreadStatus>,
        tally: Arc<SharedMoveTotals>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self { random, status, totals: tally, stop }
    }

    /// Returns whether it is time to end.
    pub fn is_over(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Records the next action, and the pages of a lot that it concerns.
    pub fn begin_action(&self, what: &'static str, lot: &OwnedRange, pages: &Range<usize>) {
        let words = lot.words_of(pages.clone());
        let start = words.as_ptr() as usize;
        self.status.begin_action(what, start..start + size_of_val(words));
    }

    /// Returns a random lot.
    pub fn random_range<'a>(
        &mut self,
        lots: &'a mut [OwnedRange<'static>],
    ) -> &'a mut OwnedRange<'static> {
        let count = lots.len();
        &mut lots[self.random.below(count)]
    }

    /// Returns a random range of pages of a lot, short ones more often than long ones.
    pub fn random_pages(&mut self, lot: &OwnedRange) -> Range<usize> {
        let most = lot.pages() >> self.random.below(lot.pages().ilog2() as usize + 1);
        let length = 1 + self.random.below(most);
        let start = self.random.below(lot.pages() - length + 1);
        start..start + length
    }

    /// Returns true once in `times` times, at random.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.random.below(times) == 0
    }

    /// Checks some pages of a lot and writes them anew.
    pub fn check_and_write(&mut self, lot: &mut OwnedRange) -> Result<(), StepFailure> {
        let pages = self.random_pages(lot);
        self.begin_action("check and write", lot, &pages);
        lot.check(pages.clone())?;
        lot.write(pages);
        Ok(())
    }
}
