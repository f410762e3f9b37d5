//! The time that one set of samples promises to save, and what another set confirms of it.

/// Savings that the choosing set promised, and what the confirming set says of the same memory.
///
/// The memory was not chosen by the confirming set, so its savings have no bias. They are far below
/// the promise if all nodes use all memory, or use it by turns.
#[derive(Default)]
pub(super) struct Promises {
    promised_ns: i128,
    confirmed_ns: i128,
}

impl Promises {
    /// Adds a promise and its confirmation, in nanoseconds. Returns whether anything is promised.
    pub(super) fn add(&mut self, promised_ns: i128, confirmed_ns: i128) -> bool {
        if promised_ns > 0 {
            self.promised_ns = self.promised_ns.saturating_add(promised_ns);
            self.confirmed_ns = self.confirmed_ns.saturating_add(confirmed_ns);
        }
        promised_ns > 0
    }

    /// Returns whether at least half was confirmed.
    pub(super) fn are_kept(&self) -> bool {
        self.confirmed_ns >= self.promised_ns / 2
    }
}
