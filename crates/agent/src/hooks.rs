//! What the program around the agent does for it: words for decisions, and ledgers.

use std::sync::Arc;

use nodeward_balancer::{ProcessRow, RoundReport, Undecided};
use nodeward_machine::Machine;
use nodeward_model::{Pid, ProcessIdentity};
use nodeward_mover::{LedgerReport, MoveReport, SharedLedger};
use serde_json::Value;

/// A decision for programs and for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// As `nodeward explain --json` has it.
    pub document: Value,
    /// As `nodeward explain` prints it.
    pub text: String,
}

/// Puts the decision about a process into words. Its pid is as the caller knows it.
pub type Explainer = fn(Pid, Arc<RoundReport>, Result<ProcessRow, Undecided>) -> Explained;

/// What a ledger is begun with.
pub struct JournalRequest<'a> {
    /// The machine.
    pub machine: &'a dyn Machine,
    /// The processes of the move, in its order.
    pub processes: Vec<ProcessIdentity>,
    /// Who ordered what.
    pub command: Vec<String>,
}

/// How moves are entered into the ledger.
#[derive(Clone, Copy)]
pub struct Journal {
    /// Begins a ledger; `None` if that fails. The move is made all the same.
    pub begin: fn(JournalRequest<'_>) -> Option<SharedLedger>,
    /// Ends it.
    pub end: fn(SharedLedger, &MoveReport) -> LedgerReport,
}
