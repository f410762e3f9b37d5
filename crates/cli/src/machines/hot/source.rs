//! What every source of hot pages can do.

use anyhow::Result;
use nodeward_machine::Process;
use nodeward_model::Access;

/// A source of accesses to the pages of a process.
pub trait HotSource: Send {
    /// Describes its method and its limits, in a line for people.
    fn describe(&self) -> String;

    /// Returns the default number of misses per counted access.
    fn misses_per_count(&self) -> u64;

    /// Observes a process, and passes on the accesses. Ends early when `stop` is set.
    ///
    /// # Errors
    /// If the source cannot be read, or the process cannot be watched.
    fn observe(
        self: Box<Self>,
        process: &dyn Process,
        stop: &dyn Fn() -> bool,
        see: &mut dyn FnMut(Access),
    ) -> Result<()>;
}
