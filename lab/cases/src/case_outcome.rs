//! A case is a function; this is what it returns.

/// A case.
pub type CaseFn = fn() -> CaseOutcome;

/// The result of a case that did not fail; a failure is a panic.
pub type CaseOutcome = Result<(), CaseSkipped>;

/// The reason why a case cannot run on this kernel.
#[derive(Debug)]
pub struct CaseSkipped(pub String);
