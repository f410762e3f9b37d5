//! Outcomes of collapsing base pages into a huge page.

/// The outcome for one part of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollapseOutcome {
    /// The part is one huge page now.
    Collapsed,
    /// Nothing has changed.
    Refused(CollapseRefusal),
}

/// The reasons for which a machine does not collapse a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CollapseRefusal {
    /// The node has no free huge page and could not make one.
    NoHugePage,
    /// The memory limit of a control group leaves no room for another huge page.
    MemoryLimit,
    /// A page was locked, pinned, or in flight.
    Held,
    /// Huge pages are not allowed there.
    NotEligible,
}

impl CollapseRefusal {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoHugePage => "no-huge-page",
            Self::MemoryLimit => "memory-limit",
            Self::Held => "held",
            Self::NotEligible => "not-eligible",
        }
    }

    /// Returns the meaning and the remedy, in a line.
    pub fn advice(self) -> &'static str {
        match self {
            Self::NoHugePage => "the node has no free huge page; /proc/buddyinfo shows free memory",
            Self::MemoryLimit => "the memory limit of the control group (memory.max) is reached",
            Self::Held => "a page was locked, pinned or in flight; try again later",
            Self::NotEligible => {
                "the program or the system does not want huge pages there: MADV_NOHUGEPAGE, \
                 PR_SET_THP_DISABLE, transparent_hugepage/enabled"
            }
        }
    }
}
