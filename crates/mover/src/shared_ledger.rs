//! Writes the ledger of a move: the intended moves of a unit, and which of them took place.
//!
//! An error of the ledger does not end the move; it is reported at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use nodeward_machine::Machine;
use nodeward_model::Account;
use nodeward_policy::folio_plan::FolioMove;
use nodeward_records::ledger::{
    LedgerError, LedgerWriter, MovedRuns, OpenIntent, OperationEnd, OperationId,
};

/// The ledger of one move, shared by its workers.
pub struct SharedLedger {
    id: OperationId,
    state: Mutex<LedgerState>,
    writing_ns: AtomicU64,
}

struct LedgerState {
    writer: LedgerWriter,
    /// The first error. After it no intents are written; open intents are still settled, as far as
    /// there is room.
    error: Option<LedgerError>,
}

/// The outcome of a ledger.
#[derive(Debug)]
pub struct LedgerReport {
    /// The number of the operation.
    pub id: OperationId,
    /// Time spent on writing, summed over all workers, in nanoseconds.
    pub writing_ns: u64,
    /// The reason why the ledger is incomplete, if it is.
    pub error: Option<LedgerError>,
}

impl SharedLedger {
    /// Continues a ledger that has begun. Its header names the processes of the move, in order.
    pub fn new(writer: LedgerWriter) -> Self {
        let id = writer.id();
        Self {
            id,
            state: Mutex::new(LedgerState { writer, error: None }),
            writing_ns: AtomicU64::new(0),
        }
    }

    /// Ends the ledger. There is none of a move that moved nothing: it would only take the place of
    /// one that can be undone.
    pub fn end(
        self,
        account: Account,
        interrupted: bool,
        ended_unix_ms: u64,
    ) -> Option<LedgerReport> {
        let LedgerState { writer, error } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if account.moved == 0 && error.is_none() {
            writer.discard();
            return None;
        }
        let ended = writer.end(&OperationEnd { account, interrupted, ended_unix_ms });
        let error = error.or(ended.err());
        Some(LedgerReport { id: self.id, writing_ns: self.writing_ns.into_inner(), error })
    }

    /// Deletes the ledger of a move that did nothing.
    pub fn discard(self) {
        let LedgerState { writer, .. } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        writer.discard();
    }

    /// Writes that pages are about to move whose addresses are not known.
    pub(crate) fn note_unlisted_moves(&self, machine: &dyn Machine) {
        self.write(machine, || (), |state, ()| state.writer.note_unlisted_moves());
    }

    /// Writes what is about to move; returns `None` if the ledger cannot be written.
    pub(crate) fn intend(
        &self,
        machine: &dyn Machine,
        process: usize,
        folios: &[FolioMove],
    ) -> Option<OpenIntent> {
        let runs = || runs(folios, machine.page_bytes());
        self.write(machine, runs, |state, runs| match &state.error {
            None => state.writer.intend(process, runs),
            Some(error) => Err(error.clone()),
        })
    }

    /// Writes which part of an intent moved: all of it, or these folios.
    pub(crate) fn settle(
        &self,
        machine: &dyn Machine,
        ticket: OpenIntent,
        moved: Option<&[FolioMove]>,
    ) {
        let runs = || moved.map(|moved| runs(moved, machine.page_bytes()));
        self.write(machine, runs, |state, runs| state.writer.settle(ticket, runs));
    }

    /// Prepares a record with `make` outside the lock, and writes it with the lock.
    fn write<R, T>(
        &self,
        machine: &dyn Machine,
        make: impl FnOnce() -> R,
        write: impl FnOnce(&mut LedgerState, R) -> Result<T, LedgerError>,
    ) -> Option<T> {
        let began_ns = machine.now_ns();
        let ready = make();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = write(&mut state, ready);
        self.writing_ns.fetch_add(machine.now_ns() - began_ns, Ordering::Relaxed);
        written.map_err(|error| state.error.get_or_insert(error)).ok()
    }
}

fn runs(folios: &[FolioMove], page_bytes: u64) -> MovedRuns {
    let end = |folio: &FolioMove| folio.address + u64::from(folio.pages) * page_bytes;
    let goes_on =
        |a: &FolioMove, b: &FolioMove| end(a) == b.address && (a.from, a.to) == (b.from, b.to);
    let mut runs = MovedRuns::new(page_bytes);
    for run in folios.chunk_by(goes_on) {
        let pages = run.iter().map(|folio| u64::from(folio.pages)).sum();
        runs.push(run[0].address, pages, run[0].from, run[0].to);
    }
    runs
}

#[cfg(test)]
mod tests {
    use nodeward_model::NodeId;
    use nodeward_records::ledger::{Header, LedgerStore, StoreLimits};

    use super::*;

    /// Goal: a move that moved nothing leaves no ledger, which would only take the place of one
    /// that can be undone.
    #[test]
    fn a_move_of_nothing_has_no_ledger() {
        let folder = tempfile::tempdir().unwrap();
        let store = LedgerStore::new(folder.path().to_owned(), StoreLimits::default());
        let header = Header {
            page_bytes: 4096,
            began_unix_ms: 0,
            command: Vec::new(),
            processes: Vec::new(),
            undoes: None,
        };
        for (moved, listed) in [(0, 0), (1, 1)] {
            let ledger = SharedLedger::new(store.begin(&header).unwrap());
            let account = Account { moved, ..Account::default() };
            assert_eq!(ledger.end(account, false, 1).is_some(), moved > 0);
            assert_eq!(store.list().unwrap().len(), listed);
        }
    }

    /// Goal: adjacent folios with the same direction form one run.
    #[test]
    fn neighbours_are_one_run() {
        let folio = |page: u64, pages, to| FolioMove {
            address: page * 4096,
            pages,
            from: NodeId(0),
            to: NodeId(to),
        };
        let folios =
            [folio(1, 1, 1), folio(2, 4, 1), folio(6, 1, 2), folio(7, 1, 2), folio(9, 1, 2)];
        let runs = runs(&folios, 4096);
        let seen: Vec<_> = runs.iter().map(|run| (run.start / 4096, run.pages, run.to.0)).collect();
        assert_eq!(seen, [(1, 5, 1), (6, 2, 2), (9, 1, 2)]);
    }
}
