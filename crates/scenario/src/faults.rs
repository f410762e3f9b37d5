//! Faults of a simulated machine: their rates and their period.

/// Injected faults. Rates are per 1000; with all of them 0 no fault occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultInjection {
    /// Allocations that fail. A copy then has no page, and a page fault retries.
    pub allocation_milli: u32,
    /// Pages that are pinned at a time.
    pub pinned_milli: u32,
    /// Interrupts for translation flushes that are answered late.
    pub late_ipi_milli: u32,
    /// Delay of late answers, in nanoseconds.
    pub ipi_delay_ns: u64,
    /// Access counts that are lost.
    pub lost_samples_milli: u32,
    /// Reported page locations that are those of the previous look.
    pub stale_residency_milli: u32,
    /// Start of the faults, in virtual nanoseconds.
    pub start_ns: u64,
    /// End of the faults, in virtual nanoseconds; `None` for never.
    pub until_ns: Option<u64>,
    /// A planted bug, to test that checkers detect it.
    pub bug: Option<Bug>,
}

/// A bug of the simulated kernel, planted to test that checkers detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// No CPU is told to flush translations.
    SkipFlush,
    /// One of the pages that a step of a move leaves is not freed.
    LosePage,
    /// One of the pages that a batch moves is counted twice.
    DoubleCount,
    /// A move takes pages that its destination does not have.
    OverCapacity,
    /// One page of each copy is not copied.
    StaleCopy,
}

impl Bug {
    /// All bugs, with their names in scenarios.
    pub const ALL: [(&'static str, Self); 5] = [
        ("skip-flush", Self::SkipFlush),
        ("lose-page", Self::LosePage),
        ("double-count", Self::DoubleCount),
        ("over-capacity", Self::OverCapacity),
        ("stale-copy", Self::StaleCopy),
    ];
}

impl FaultInjection {
    /// Returns whether faults occur at a time, in virtual nanoseconds.
    pub fn is_active_at(&self, now_ns: u64) -> bool {
        self.start_ns <= now_ns && self.until_ns.is_none_or(|until_ns| now_ns < until_ns)
    }

    /// Returns the rates per 1000, with their keys.
    pub fn rates(&self) -> [(&'static str, u32); 5] {
        [
            ("allocation", self.allocation_milli),
            ("pinned", self.pinned_milli),
            ("late-ipi", self.late_ipi_milli),
            ("lost-samples", self.lost_samples_milli),
            ("stale-residency", self.stale_residency_milli),
        ]
    }
}
