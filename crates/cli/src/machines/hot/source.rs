//! The interface of every source of hot pages.

use anyhow::Result;
use nodeward_machine::Process;
use nodeward_model::Access;

/// The unit of the accesses of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessUnit {
    /// A number of accesses.
    Counts,
    /// A time of the thread, in nanoseconds.
    Ticks(u64),
}

/// The half of the observation in which an access was seen. Two halves of samples choose and
/// confirm; a source that counts has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The first half, or all of it.
    First,
    /// The second half.
    Second,
}

/// A source of accesses to the pages of a process.
pub trait HotSource: Send {
    /// Describes its method and its limits, in a line for people.
    fn describe(&self) -> String;

    /// Returns the default number of misses per counted access.
    fn misses_per_count(&self) -> u64;

    /// Observes a process, and passes on the accesses. Ends early when `stop` is set. Returns what
    /// they stand for.
    ///
    /// # Errors
    /// If the source cannot be read, or the process cannot be watched.
    fn observe(
        self: Box<Self>,
        process: &dyn Process,
        stop: &dyn Fn() -> bool,
        see: &mut dyn FnMut(Half, Access),
    ) -> Result<AccessUnit>;
}
