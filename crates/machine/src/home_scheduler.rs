//! A scheduler that knows where threads are at home.

use std::collections::BTreeMap;

use nodeward_model::Nodemask;

/// A scheduler of the machine that runs threads at home, and elsewhere where that keeps a CPU from
/// being idle. It ends when it is dropped.
pub trait HomeScheduler: Send {
    /// Sets the nodes where threads are at home, by their numbers. A thread that is not named has
    /// no home: it runs anywhere but on the nodes that are kept empty. Returns the number of
    /// threads whose home found no room.
    ///
    /// # Errors
    /// The scheduler no longer runs: why, as a text.
    fn set_homes(
        &mut self,
        homes: &BTreeMap<u32, Nodemask>,
        keep_empty: &Nodemask,
    ) -> Result<u64, String>;
}
