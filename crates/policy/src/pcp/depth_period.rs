//! Depths of a period, and their averages over periods.

use super::limits::ListLimits;

/// How far a CPU's allocations ran ahead of its frees, and frees ahead of allocations, since the
/// start of a period; in base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DepthPeriod {
    /// Allocated pages minus freed pages.
    pub balance: i64,
    /// The largest balance in the period, which begins with 0.
    pub highest: i64,
    /// The smallest one.
    pub lowest: i64,
    /// The largest rise of the balance from an earlier moment to a later one.
    pub alloc_depth: i64,
    /// The largest fall.
    pub free_depth: i64,
}

impl DepthPeriod {
    /// Counts pages that were allocated.
    pub fn allocated(&mut self, pages: u32) {
        self.balance += i64::from(pages);
        self.highest = self.highest.max(self.balance);
        self.alloc_depth = self.alloc_depth.max(self.balance - self.lowest);
    }

    /// Counts pages that were freed.
    pub fn freed(&mut self, pages: u32) {
        self.balance -= i64::from(pages);
        self.lowest = self.lowest.min(self.balance);
        self.free_depth = self.free_depth.max(self.highest - self.balance);
    }
}

/// Averages of the depths of a CPU over periods; old periods count half as much with each new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DepthAverages {
    alloc: i64,
    free: i64,
}

impl DepthAverages {
    /// Adds the depths of a period.
    pub fn add(&mut self, alloc_depth: i64, free_depth: i64) {
        self.alloc = self.alloc.midpoint(alloc_depth);
        self.free = self.free.midpoint(free_depth);
    }

    /// Returns the smaller average: who only allocates, or only frees, gains nothing from a list.
    pub fn depth(&self) -> u32 {
        u32::try_from(self.alloc.min(self.free).max(0)).unwrap_or(u32::MAX)
    }

    /// Returns the length of a list that holds as much, within its limits.
    pub fn high(&self, limits: &ListLimits) -> u32 {
        limits.clamp(self.depth())
    }
}
