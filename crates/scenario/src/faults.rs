//! What goes wrong on a machine: how often, and from when to when.

/// What goes wrong. Rates are thousandths; none of it happens with all of them 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Of allocations, those that fail: a copy has no page then, and a page fault tries again.
    pub allocation_milli: u32,
    /// Of pages, those that somebody holds at a time.
    pub pinned_milli: u32,
    /// Of interrupts for other CPUs' translations, those that are answered late.
    pub late_ipi_milli: u32,
    /// How late, in nanoseconds.
    pub late_ipi_by_ns: u64,
    /// Of what is counted of accesses, what is lost.
    pub lost_samples_milli: u32,
    /// Of the page locations that somebody reads, those of the look before.
    pub stale_residency_milli: u32,
    /// From when on, in virtual nanoseconds.
    pub start_ns: u64,
    /// When all of it ends, in virtual nanoseconds; none for never.
    pub until_ns: Option<u64>,
    /// A bug on purpose, to see that checkers catch it.
    pub bug: Option<Bug>,
}

/// A bug of the simulated kernel, planted to see that checkers catch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// No CPU is told to forget translations.
    SkipFlush,
    /// Of the pages that a step of a move leaves one is not given back.
    LosePage,
    /// Of the pages that a batch moves one is counted twice.
    DoubleCount,
    /// A move takes pages that its destination has not.
    OverCapacity,
    /// A page of each copy is left out of it.
    StaleCopy,
}

impl Bug {
    /// All of them, by their names in scenarios.
    pub const ALL: [(&'static str, Self); 5] = [
        ("skip-flush", Self::SkipFlush),
        ("lose-page", Self::LosePage),
        ("double-count", Self::DoubleCount),
        ("over-capacity", Self::OverCapacity),
        ("stale-copy", Self::StaleCopy),
    ];
}

impl Faults {
    /// Whether things go wrong at a time, in virtual nanoseconds.
    pub fn last_at(&self, now_ns: u64) -> bool {
        self.start_ns <= now_ns && self.until_ns.is_none_or(|until_ns| now_ns < until_ns)
    }

    /// The rates in thousandths, by their keys.
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
