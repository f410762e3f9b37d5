//! The contract of all tuners of a list.

use super::limits::ListLimits;

/// Decides the length of one list. Its caller reports every change of the list, under the list's
/// lock.
pub trait Tuner {
    /// Reports pages that went from the list to a caller.
    fn allocated(&mut self, pages: u32);

    /// Reports that the list cannot serve an allocation. Returns the pages to take from the zone, 1
    /// or more; the list has `count` pages of other orders.
    fn refill(&mut self, limits: &ListLimits, count: u32) -> u32;

    /// Reports pages that came to the list, which has `count` with them. Returns the pages to give
    /// back to the zone now, at most `count`. The time may be any that does not run backwards.
    fn freed(&mut self, limits: &ListLimits, pages: u32, count: u32, now_ms: u64) -> u32;

    /// Reports a tick, once per [`PERIOD_MS`](super::PERIOD_MS). Returns the pages to give back
    /// now, at most `count`.
    fn tick(&mut self, limits: &ListLimits, count: u32, now_ms: u64) -> u32;

    /// Reports that memory is short. Returns the pages to give back now, at most `count`.
    fn shrink(&mut self, limits: &ListLimits, count: u32) -> u32;

    /// Returns the pages of the `count` that the kernel gives back with a run of 2 to 8 pages,
    /// whatever else is due; 0 for an ordinary free. Call it before the run is reported as
    /// [freed](Tuner::freed), with a `count` that includes the run.
    fn drain_count(&self, limits: &ListLimits, count: u32) -> u32;

    /// Returns the largest length of the list at present.
    fn high(&self, limits: &ListLimits) -> u32;
}
