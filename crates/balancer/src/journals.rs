//! Writes a balancer's records to disk: a journal of each memory move in the ledger, and the saved
//! state in a file.
//!
//! A journal belongs to one process, or to one segment, on its way to one node, over as many
//! as the budget takes. Balancing does not depend on either file: if one cannot be written, a
//! notice says so once, and rounds continue.

use std::collections::BTreeMap;
use std::fmt::Display;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::units::format_ns;
use nodeward_model::{Account, Name, NodeId, ProcessIdentity, SegmentId};
use nodeward_mover::SharedLedger;
use nodeward_policy::placement::{EntityId, MemoryMove, Reason, SegmentMove};
use nodeward_records::ledger::{Header, OperationCause};
use nodeward_records::state::StateLog;

use super::report::Notice;
use super::saved_state::{SavedState, Storage};

/// Rounds without a new entry after which a journal is ended.
const ROUNDS_MAX: u64 = 10;
/// The originator of the balancer's moves, as the ledger names it.
const BY: &str = "balance";

/// Open journals, and the state that was saved last.
#[derive(Default)]
pub struct Journals {
    storage: Option<Storage>,
    open: BTreeMap<Subject, OpenJournal>,
    saved: Option<SavedState>,
    ledger_fails: bool,
    state_fails: bool,
    notices: Vec<Notice>,
}

/// The owner of the memory that a journal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The memory of a process.
    Process(EntityId),
    /// A segment that moves to this node.
    Segment(SegmentId, NodeId),
}

/// The move that a journal is written for.
pub struct JournalOrder {
    subject: Subject,
    to: NodeId,
    cause: OperationCause,
}

impl JournalOrder {
    /// Returns that of a process's memory.
    pub fn of_process(order: &MemoryMove) -> Self {
        let words = words(order.pages_max, &order.from, order.to, [order.gain_ns, order.cost_ns]);
        let (subject, cause) = (Subject::Process(order.entity), cause(order.reason, words));
        Self { subject, to: order.to, cause }
    }

    /// Returns that of a segment of this name.
    pub fn of_segment(order: &SegmentMove, name: &Name) -> Self {
        let words = words(order.pages_max, &order.from, order.to, [order.gain_ns, order.cost_ns]);
        let words = format!("segment {name} ({}): {words}", order.segment);
        let (subject, cause) = (Self::subject_of(order), cause(order.reason, words));
        Self { subject, to: order.to, cause }
    }

    /// Returns the subject of a move of a segment.
    pub fn subject_of(order: &SegmentMove) -> Subject {
        Subject::Segment(order.segment, order.to)
    }
}

/// The open journal of the move of one process or segment.
struct OpenJournal {
    identity: ProcessIdentity,
    to: NodeId,
    journal: SharedLedger,
    account: Account,
    round: u64,
}

impl Journals {
    /// Sets where to write from now on.
    pub fn write_to(&mut self, storage: Storage) {
        self.end_all(true);
        (self.ledger_fails, self.state_fails) = (storage.trouble_told, storage.trouble_told);
        self.storage = Some(storage);
        self.saved = None;
    }

    /// Returns the journal for a move of memory through a held process; `None` if the ledger cannot
    /// be written.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn journal(
        &mut self,
        machine: &dyn Machine,
        process: &dyn Process,
        order: &JournalOrder,
        round: u64,
    ) -> Result<Option<&SharedLedger>> {
        if self.storage.as_ref().is_none_or(|storage| storage.ledger.is_none()) {
            return Ok(None);
        }
        let identity = process.identity()?;
        let goes_on = |open: &OpenJournal| open.identity.is_same(&identity) && open.to == order.to;
        if !self.open.get(&order.subject).is_some_and(goes_on) {
            self.end(order.subject, false);
            self.begin(machine, identity, order);
        }
        let open = self.open.get_mut(&order.subject);
        Ok(open.map(|open| {
            open.round = round;
            &open.journal
        }))
    }

    fn begin(&mut self, machine: &dyn Machine, identity: ProcessIdentity, order: &JournalOrder) {
        let Some(storage) = &self.storage else { return };
        let Some(store) = &storage.ledger else { return };
        let header = Header {
            page_bytes: machine.page_bytes(),
            began_unix_ms: (storage.unix_ms)(),
            command: storage.command.clone(),
            processes: vec![identity.clone()],
            undoes: None,
        };
        match store.begin_with_cause(&header, Some(&order.cause)) {
            Ok(writer) => {
                self.ledger_fails = false;
                let journal = SharedLedger::new(writer);
                let account = Account::default();
                let open = OpenJournal { identity, to: order.to, journal, account, round: 0 };
                self.open.insert(order.subject, open);
            }
            Err(error) => self.ledger_failed(&error.to_string()),
        }
    }

    /// Adds the result of a move to the journal of a process or segment.
    pub fn add(&mut self, subject: Subject, account: &Account) {
        if let Some(open) = self.open.get_mut(&subject) {
            open.account.add(account);
        }
    }

    /// Ends the journal of a move.
    pub fn end(&mut self, subject: Subject, interrupted: bool) {
        let Some(open) = self.open.remove(&subject) else { return };
        let Some(storage) = &self.storage else { return };
        let report = open.journal.end(open.account, interrupted, (storage.unix_ms)());
        if let Some(error) = report.and_then(|report| report.error) {
            self.ledger_failed(&error.to_string());
        }
    }

    /// Ends journals that have had no entry for a while.
    pub fn end_idle(&mut self, round: u64) {
        let is_idle = |open: &OpenJournal| open.round + ROUNDS_MAX < round;
        let idle: Vec<_> =
            self.open.iter().filter(|(_, c)| is_idle(c)).map(|(&subject, _)| subject).collect();
        idle.into_iter().for_each(|subject| self.end(subject, false));
    }

    /// Ends every journal.
    pub fn end_all(&mut self, interrupted: bool) {
        let open: Vec<_> = self.open.keys().copied().collect();
        open.into_iter().for_each(|subject| self.end(subject, interrupted));
    }

    /// Saves the state, unless the file has it already without changes, and sets where later
    /// changes of groups go.
    pub fn save(&mut self, state: &SavedState, log: &mut Option<StateLog>) {
        let Some(file) = self.storage.as_ref().and_then(|storage| storage.state.as_ref()) else {
            return;
        };
        if self.saved.as_ref() == Some(state) && log.as_ref().is_some_and(StateLog::is_empty) {
            return;
        }
        match file.begin(state) {
            Ok(begun) => {
                *log = Some(begun);
                self.state_fails = false;
                self.saved = Some(state.clone());
            }
            Err(error) => {
                if !self.state_fails {
                    self.notices.push(Notice::State { error: error.to_string() });
                }
                self.state_fails = true;
            }
        }
    }

    /// Returns notices about files that cannot be written, each once.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn ledger_failed(&mut self, error: &str) {
        if !self.ledger_fails {
            self.notices.push(Notice::Ledger { error: error.to_owned() });
        }
        self.ledger_fails = true;
    }
}

impl Drop for Journals {
    fn drop(&mut self) {
        self.end_all(true);
    }
}

fn words(pages: u64, from: &dyn Display, to: NodeId, [gain_ns, cost_ns]: [u64; 2]) -> String {
    let (gain, cost) = (format_ns(gain_ns), format_ns(cost_ns));
    format!("{pages} pages from node {from} to {to}: saves {gain} for {cost} of moving")
}

fn cause(reason: Reason, words: String) -> OperationCause {
    OperationCause {
        requested_by: BY.to_owned(),
        reason: reason.name().to_owned(),
        explanation: words,
    }
}
