//! The checkers. Each is a function over what was counted from the raw state of a machine, over
//! what was asked of the code under test, and what that told. None of them uses that code.

pub mod account;
pub mod budgets;
pub mod clock;
pub mod liveness;
pub mod pages;

/// Which checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checker {
    /// No page is lost or made.
    Pages,
    /// No node holds more than it has.
    Capacity,
    /// No page can be used whose contents are not what was written last.
    Contents,
    /// Rates, stall budgets and the bounds of page lists are kept.
    Budgets,
    /// What is told of a move is what became of each page.
    Account,
    /// Time goes on, and no CPU works longer than there is time.
    Time,
    /// When nothing goes wrong any more, memory comes to where it is wanted.
    Liveness,
    /// The same seed does the same.
    Repeats,
    /// Nothing panics.
    Panics,
}

impl Checker {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Pages,
        Self::Capacity,
        Self::Contents,
        Self::Budgets,
        Self::Account,
        Self::Time,
        Self::Liveness,
        Self::Repeats,
        Self::Panics,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Capacity => "capacity",
            Self::Contents => "contents",
            Self::Budgets => "budgets",
            Self::Account => "account",
            Self::Time => "time",
            Self::Liveness => "liveness",
            Self::Repeats => "repeats",
            Self::Panics => "panics",
        }
    }
}

/// Something that a checker found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which one.
    pub checker: Checker,
    /// When, in virtual nanoseconds.
    pub at_ns: u64,
    /// What it saw, and what it should have seen.
    pub what: String,
}

/// What a checker has to say: nothing, or what it saw.
pub type Verdict = Result<(), (Checker, String)>;

/// Objects unless something holds.
pub(crate) fn ensure(holds: bool, checker: Checker, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err((checker, what())) }
}
