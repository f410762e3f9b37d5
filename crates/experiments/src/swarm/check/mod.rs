//! The checkers. Each is a function of counts from the raw state of a machine, of the requests to
//! the code under test, and of its reports. None of them uses that code.

pub mod account;
pub mod budgets;
pub mod clock;
pub mod groups;
pub mod liveness;
pub mod pages;

/// The name of a checker, for what it checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checker {
    /// No page is lost or created.
    Pages,
    /// No node holds more pages than it has.
    Capacity,
    /// No visible page differs from what was written to it last.
    Contents,
    /// Rates, stall budgets and the bounds of page lists are kept.
    Budgets,
    /// The account of a move agrees with each page.
    Account,
    /// Time advances, and no CPU works longer than time allows.
    Time,
    /// Once faults have ended, memory reaches its wanted nodes.
    Liveness,
    /// A thread is in one group, memory of a group goes to its home only, and a group without
    /// members ends.
    Groups,
    /// The same seed gives the same run.
    Repeats,
    /// Nothing panics.
    Panics,
}

impl Checker {
    /// All checkers.
    pub const ALL: [Self; 10] = [
        Self::Pages,
        Self::Capacity,
        Self::Contents,
        Self::Budgets,
        Self::Account,
        Self::Time,
        Self::Liveness,
        Self::Groups,
        Self::Repeats,
        Self::Panics,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Capacity => "capacity",
            Self::Contents => "contents",
            Self::Budgets => "budgets",
            Self::Account => "account",
            Self::Time => "time",
            Self::Liveness => "liveness",
            Self::Groups => "groups",
            Self::Repeats => "repeats",
            Self::Panics => "panics",
        }
    }
}

/// A violation that a checker found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    /// The checker.
    pub checker: Checker,
    /// The time, in virtual nanoseconds.
    pub at_ns: u64,
    /// What it observed, and what it should have observed.
    pub problem: String,
}

/// The result of a check: no violation, or the checker and what it observed.
pub type CheckerResult = Result<(), (Checker, String)>;

/// Reports a violation unless a condition holds.
pub(crate) fn ensure(
    holds: bool,
    checker: Checker,
    what: impl FnOnce() -> String,
) -> CheckerResult {
    if holds { Ok(()) } else { Err((checker, what())) }
}
