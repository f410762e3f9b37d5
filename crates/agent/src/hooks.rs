//! The functions that the program around the agent gives it: words for decisions, and ledgers.

use std::sync::Arc;

use nodeward_balancer::{ProcessRow, RoundReport, Undecided};
use nodeward_machine::Machine;
use nodeward_model::{Pid, ProcessIdentity};
use nodeward_mover::{LedgerReport, MoveReport, SharedLedger};
use nodeward_records::ledger::{Operation, OperationId};
use serde::Serialize;
use serde_json::Value;

/// A decision for programs and for people: the reply of io.nodeward.Placement.Explain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explained<Document = Value> {
    /// The decision as `nodeward explain --json` prints it.
    pub document: Document,
    /// The decision as `nodeward explain` prints it.
    pub text: String,
}

/// Appends the decision about a process in words: [`Explained`], as JSON, since a tree of values
/// would cost a request more than all else. Its pid is as the caller knows it.
pub type Explainer = fn(Pid, Arc<RoundReport>, Result<ProcessRow, Undecided>, &mut Vec<u8>);

/// The facts with which a ledger is begun.
pub struct JournalRequest<'a> {
    /// The machine on which the move is made.
    pub machine: &'a dyn Machine,
    /// The processes of the move, in the order of the request.
    pub processes: Vec<ProcessIdentity>,
    /// The command for the ledger: who ordered which move.
    pub command: Vec<String>,
    /// The operation that the move takes back.
    pub undoes: Option<OperationId>,
}

/// Functions that enter moves into the ledger, and read them.
#[derive(Clone, Copy)]
pub struct Journal {
    /// Begins a ledger; `None` if that fails. The move is made all the same.
    pub begin: fn(JournalRequest<'_>) -> Option<SharedLedger>,
    /// Ends the ledger of a move, and returns what it says; `None` if nothing moved.
    pub end: fn(SharedLedger, &MoveReport) -> Option<LedgerReport>,
    /// Returns what an operation moved; `None` if that cannot be read.
    pub read: fn(OperationId) -> Option<Operation>,
}
