//! What a balancer writes to disk: a journal of each memory move in the ledger, and its saved state
//! in a file.
//!
//! A journal belongs to one process on its way to one node, over as many rounds as the budget
//! takes. Balancing does not depend on either file: if one cannot be written, a notice says so
//! once, and rounds continue.

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::units::format_ns;
use nodeward_model::{Account, NodeId, ProcessIdentity};
use nodeward_mover::SharedLedger;
use nodeward_policy::placement::{EntityId, MemoryMove};
use nodeward_records::ledger::{Header, OperationCause};

use super::report::Notice;
use super::saved_state::{SavedState, Storage};

/// Rounds without a new entry after which a journal is ended.
const ROUNDS_MAX: u64 = 10;
/// The originator of these moves, as the ledger names it.
const BY: &str = "balance";

/// Open journals, and the state that was saved last.
#[derive(Default)]
pub struct Journals {
    storage: Option<Storage>,
    open: BTreeMap<EntityId, OpenJournal>,
    saved: Option<SavedState>,
    ledger_fails: bool,
    state_fails: bool,
    notices: Vec<Notice>,
}

/// The journal of one process that is being moved.
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

    /// Returns the journal for a move of a held process; `None` if the ledger cannot be written.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn journal(
        &mut self,
        machine: &dyn Machine,
        process: &dyn Process,
        order: &MemoryMove,
        round: u64,
    ) -> Result<Option<&SharedLedger>> {
        if self.storage.as_ref().is_none_or(|storage| storage.ledger.is_none()) {
            return Ok(None);
        }
        let identity = process.identity()?;
        let goes_on = |open: &OpenJournal| open.identity.is_same(&identity) && open.to == order.to;
        if !self.open.get(&order.entity).is_some_and(goes_on) {
            self.end(order.entity, false);
            self.begin(machine, identity, order);
        }
        let open = self.open.get_mut(&order.entity);
        Ok(open.map(|open| {
            open.round = round;
            &open.journal
        }))
    }

    fn begin(&mut self, machine: &dyn Machine, identity: ProcessIdentity, order: &MemoryMove) {
        let Some(storage) = &self.storage else { return };
        let Some(store) = &storage.ledger else { return };
        let header = Header {
            page_bytes: machine.page_bytes(),
            began_unix_ms: (storage.unix_ms)(),
            command: storage.command.clone(),
            processes: vec![identity.clone()],
            undoes: None,
        };
        match store.begin_with_cause(&header, Some(&why(order))) {
            Ok(writer) => {
                self.ledger_fails = false;
                let journal = SharedLedger::new(writer);
                let account = Account::default();
                let open = OpenJournal { identity, to: order.to, journal, account, round: 0 };
                self.open.insert(order.entity, open);
            }
            Err(error) => self.ledger_failed(&error.to_string()),
        }
    }

    /// Adds the result of a move to the journal of a process.
    pub fn add(&mut self, entity: EntityId, account: &Account) {
        if let Some(open) = self.open.get_mut(&entity) {
            open.account.add(account);
        }
    }

    /// Ends the journal of a process.
    pub fn end(&mut self, entity: EntityId, interrupted: bool) {
        let Some(open) = self.open.remove(&entity) else { return };
        let Some(storage) = &self.storage else { return };
        if open.account.moved == 0 {
            return open.journal.discard(); // nothing to tell, nor to undo
        }
        let report = open.journal.end(open.account, interrupted, (storage.unix_ms)());
        if let Some(error) = report.error {
            self.ledger_failed(&error.to_string());
        }
    }

    /// Ends journals that have had no entry for a while.
    pub fn end_idle(&mut self, round: u64) {
        let is_idle = |open: &OpenJournal| open.round + ROUNDS_MAX < round;
        let idle: Vec<_> =
            self.open.iter().filter(|(_, c)| is_idle(c)).map(|(&entity, _)| entity).collect();
        idle.into_iter().for_each(|entity| self.end(entity, false));
    }

    /// Ends every journal.
    pub fn end_all(&mut self, interrupted: bool) {
        let open: Vec<_> = self.open.keys().copied().collect();
        open.into_iter().for_each(|entity| self.end(entity, interrupted));
    }

    /// Saves the state, unless the file has it already.
    pub fn save(&mut self, state: &SavedState) {
        let Some(file) = self.storage.as_ref().and_then(|storage| storage.state.as_ref()) else {
            return;
        };
        if self.saved.as_ref() == Some(state) {
            return;
        }
        match file.write(state) {
            Ok(()) => {
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

fn why(order: &MemoryMove) -> OperationCause {
    let words = format!(
        "{} pages from node {} to {}: saves {} for {} of moving",
        order.pages_max,
        order.from,
        order.to,
        format_ns(order.gain_ns),
        format_ns(order.cost_ns),
    );
    OperationCause {
        requested_by: BY.to_owned(),
        reason: order.reason.name().to_owned(),
        explanation: words,
    }
}
