//! How much the checks run: one of each kind of thing, or all of them.

use std::env;

/// `long` for all of each kind; `make test-long` sets it. Tests read it, too.
const VARIABLE: &str = "NODEWARD_TESTS";

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckExtent {
    /// One kernel for a case of the lab, one promise of each area, no allocator but ours.
    OneOfEach,
    /// Every kernel, every promise, and the allocators that ours is measured beside.
    All,
}

impl CheckExtent {
    /// Returns what the environment asks for.
    pub fn from_environment() -> Self {
        match env::var_os(VARIABLE) {
            Some(value) if value == "long" => Self::All,
            _ => Self::OneOfEach,
        }
    }

    /// Returns cargo's words for the features of programs that are tested. All commands that build
    /// in one directory need the same, or cargo builds much anew.
    pub fn features(self) -> &'static [&'static str] {
        match self {
            Self::OneOfEach => &["--no-default-features"],
            Self::All => &[],
        }
    }
}
