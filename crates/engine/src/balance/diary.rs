//! What a balancer writes down: each move of memory in a ledger, and what was learnt in a file.
//!
//! A ledger is that of one process on its way to one node, over as many rounds as the budget takes.
//! Neither is needed for balancing: what cannot be written is told once, and rounds go on.

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::units::show_ns;
use nodeward_model::{Account, Identity, NodeId};
use nodeward_policy::placement::{EntityId, MemoryMove};
use nodeward_wire::ledger::{Header, Why};

use super::memory::{Keep, Memory};
use super::report::News;
use crate::journal::Journal;

/// A ledger on which nothing was written for so many rounds is ended.
const ROUNDS_MAX: u64 = 10;
/// Who wants these moves, in the ledger.
const BY: &str = "balance";

/// Ledgers that are open, and what was saved.
#[derive(Default)]
pub struct Diary {
    keep: Option<Keep>,
    open: BTreeMap<EntityId, Chapter>,
    saved: Option<Memory>,
    ledger_fails: bool,
    state_fails: bool,
    news: Vec<News>,
}

/// The ledger of one process on its way.
struct Chapter {
    identity: Identity,
    to: NodeId,
    journal: Journal,
    account: Account,
    round: u64,
}

impl Diary {
    /// Writes there from now on.
    pub fn keep(&mut self, keep: Keep) {
        self.end_all(true);
        (self.ledger_fails, self.state_fails) = (keep.trouble_told, keep.trouble_told);
        self.keep = Some(keep);
        self.saved = None;
    }

    /// The ledger for a move of a held process; `None` if there is none.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn journal(
        &mut self,
        machine: &dyn Machine,
        process: &dyn Process,
        order: &MemoryMove,
        round: u64,
    ) -> Result<Option<&Journal>> {
        if self.keep.as_ref().is_none_or(|keep| keep.ledger.is_none()) {
            return Ok(None);
        }
        let identity = process.identity()?;
        let goes_on =
            |chapter: &Chapter| chapter.identity.is_same(&identity) && chapter.to == order.to;
        if !self.open.get(&order.entity).is_some_and(goes_on) {
            self.end(order.entity, false);
            self.begin(machine, identity, order);
        }
        let chapter = self.open.get_mut(&order.entity);
        Ok(chapter.map(|chapter| {
            chapter.round = round;
            &chapter.journal
        }))
    }

    fn begin(&mut self, machine: &dyn Machine, identity: Identity, order: &MemoryMove) {
        let Some(keep) = &self.keep else { return };
        let Some(store) = &keep.ledger else { return };
        let header = Header {
            page_bytes: machine.page_bytes(),
            began_unix_ms: (keep.unix_ms)(),
            command: keep.command.clone(),
            processes: vec![identity.clone()],
            undoes: None,
        };
        match store.begin_because(&header, Some(&why(order))) {
            Ok(writer) => {
                self.ledger_fails = false;
                let journal = Journal::new(writer);
                let account = Account::default();
                let chapter = Chapter { identity, to: order.to, journal, account, round: 0 };
                self.open.insert(order.entity, chapter);
            }
            Err(error) => self.ledger_failed(&error.to_string()),
        }
    }

    /// Adds what moved to the account of a process.
    pub fn enter(&mut self, entity: EntityId, account: &Account) {
        if let Some(chapter) = self.open.get_mut(&entity) {
            chapter.account.add(account);
        }
    }

    /// Ends the ledger of a process.
    pub fn end(&mut self, entity: EntityId, interrupted: bool) {
        let Some(chapter) = self.open.remove(&entity) else { return };
        let Some(keep) = &self.keep else { return };
        if chapter.account.moved == 0 {
            return chapter.journal.discard(); // nothing to tell, nor to undo
        }
        let report = chapter.journal.end(chapter.account, interrupted, (keep.unix_ms)());
        if let Some(error) = report.error {
            self.ledger_failed(&error.to_string());
        }
    }

    /// Ends ledgers on which nothing was written for a while.
    pub fn end_idle(&mut self, round: u64) {
        let is_idle = |chapter: &Chapter| chapter.round + ROUNDS_MAX < round;
        let idle: Vec<_> =
            self.open.iter().filter(|(_, c)| is_idle(c)).map(|(&entity, _)| entity).collect();
        idle.into_iter().for_each(|entity| self.end(entity, false));
    }

    /// Ends every ledger.
    pub fn end_all(&mut self, interrupted: bool) {
        let open: Vec<_> = self.open.keys().copied().collect();
        open.into_iter().for_each(|entity| self.end(entity, interrupted));
    }

    /// Saves what was learnt, if it is not saved already.
    pub fn save(&mut self, memory: &Memory) {
        let Some(file) = self.keep.as_ref().and_then(|keep| keep.state.as_ref()) else { return };
        if self.saved.as_ref() == Some(memory) {
            return;
        }
        match file.write(memory) {
            Ok(()) => {
                self.state_fails = false;
                self.saved = Some(memory.clone());
            }
            Err(error) => {
                if !self.state_fails {
                    self.news.push(News::State { error: error.to_string() });
                }
                self.state_fails = true;
            }
        }
    }

    /// What is to be told, once.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    fn ledger_failed(&mut self, error: &str) {
        if !self.ledger_fails {
            self.news.push(News::Ledger { error: error.to_owned() });
        }
        self.ledger_fails = true;
    }
}

impl Drop for Diary {
    fn drop(&mut self) {
        self.end_all(true);
    }
}

fn why(order: &MemoryMove) -> Why {
    let words = format!(
        "{} pages from node {} to {}: saves {} for {} of moving",
        order.pages_max,
        order.from,
        order.to,
        show_ns(order.gain_ns),
        show_ns(order.cost_ns),
    );
    Why { by: BY.to_owned(), reason: order.reason.name().to_owned(), words }
}
