//! The ledger of moves: one file per operation, from which a move can be listed, shown and undone.
//!
//! ```text
//! 12.ledger = "nwledger", version u32, then records (`frame.rs`)
//! payload   = the kind of the record (one byte) and its content
//! ```
//!
//! The first record is the header. Then come intents (written before pages are moved) and
//! settlements (the pages that really moved), in any order that keeps each intent before its
//! settlement; then the end. An operation that no user typed has a second record after the header,
//! with its origin and reason (version 2).
//!
//! - A record is one write, so a killed command leaves whole records and at most one truncated
//!   record at the end. That one is dropped; the records before it are valid.
//! - Nothing is flushed to the disk (no fsync). The ledger must outlive its command, not the
//!   machine: after a power failure its processes and their placement are gone too.
//! - The file is locked while its command lives. A file without an end and without a lock belongs
//!   to a command that was killed: the operation was interrupted.
//! - The pages of an intent without a settlement may have moved, wholly or in part: read their
//!   residency before drawing a conclusion.

mod error;
mod moved_runs;
mod operation_id;
mod reader;
mod record;
mod record_log;
mod store;
mod writer;

pub use error::LedgerError;
pub use moved_runs::{MovedRun, MovedRuns};
pub use operation_id::{OperationId, OperationIdError};
pub use reader::{MovedPages, Operation, OperationState};
pub use record::{Header, OperationCause, OperationEnd, VERSION};
pub use store::{LedgerStore, OperationOutline, OperationSummary, StoreLimits};
pub use writer::{LedgerWriter, OpenIntent};

pub use crate::frame::Damage;
