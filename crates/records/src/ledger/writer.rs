//! Writes the ledger of one operation.

use std::fs::{self, File};
use std::path::PathBuf;

use super::record::{self, END_BYTES_MAX, INCOMPLETE_BYTES_MAX, Record, SETTLED_BYTES_MAX};
use super::record_log::RecordLog;
use super::{Header, LedgerError, MovedRuns, OperationCause, OperationEnd, OperationId};

/// The ledger of an operation in progress. Its file is locked until this is dropped; if it is
/// dropped without [`LedgerWriter::end`], the operation counts as interrupted.
pub struct LedgerWriter {
    id: OperationId,
    log: RecordLog<File>,
    page_bytes: u64,
    processes: usize,
    limit: u64,
    /// Intents so far.
    intent_count: u64,
    /// Intents that are not settled yet.
    open_intents: u64,
    is_full: bool,
}

/// An intent that was written and is to be settled. If it never is, its pages count as open: they
/// may have moved.
#[derive(Debug)]
#[must_use = "what moved is known only once the intent is settled"]
pub struct OpenIntent {
    number: u64,
    runs: MovedRuns,
}

impl LedgerWriter {
    /// Begins the ledger in an empty file.
    pub(super) fn begin(
        file: File,
        (id, path): (OperationId, PathBuf),
        (header, why): (&Header, Option<&OperationCause>),
        limit: u64,
    ) -> Result<Self, LedgerError> {
        let mut writer = Self {
            id,
            log: RecordLog::new(file, path),
            page_bytes: header.page_bytes,
            processes: header.processes.len(),
            limit,
            intent_count: 0,
            open_intents: 0,
            is_full: false,
        };
        let beginning = record::opening_bytes(header, why);
        if !writer.fits(&beginning, 0) {
            return Err(writer.full_error());
        }
        writer.log.append(&beginning)?;
        Ok(writer)
    }

    /// Returns the number of the operation.
    pub fn id(&self) -> OperationId {
        self.id
    }

    /// Records the pages of a process (by its index in the header) that are about to be moved. Call
    /// it before they are: pages without an intent cannot be undone.
    ///
    /// # Errors
    /// `Full` if the operation would exceed its limit, and ever after; `Write` if the file cannot
    /// be written, and ever after.
    ///
    /// # Panics
    /// If the header has no such process, or pages of another size.
    pub fn intend(
        &mut self,
        process: usize,
        mut runs: MovedRuns,
    ) -> Result<OpenIntent, LedgerError> {
        assert!(process < self.processes, "process {process} of {}", self.processes);
        assert_eq!(runs.page_bytes(), self.page_bytes, "pages of the header's size");
        if self.is_full {
            return Err(self.full_error());
        }
        runs.normalize();
        let number = self.intent_count;
        let record = Record::Intent { ticket: number, process, runs: runs.pack() };
        self.append(&record, self.open_intents + 1)?;
        self.intent_count += 1;
        self.open_intents += 1;
        Ok(OpenIntent { number, runs })
    }

    /// Records the pages of an intent that really moved: all of them (`None`), or these.
    ///
    /// # Errors
    /// As [`LedgerWriter::intend`]; the intent then stays open. `Full` never if all of them moved.
    pub fn settle(
        &mut self,
        ticket: OpenIntent,
        moved: Option<MovedRuns>,
    ) -> Result<(), LedgerError> {
        let OpenIntent { number, runs: intended } = ticket;
        let part = moved.and_then(|mut moved| {
            moved.normalize();
            (moved != intended).then(|| moved.pack())
        });
        self.append(&Record::Settled { ticket: number, moved: part }, self.open_intents - 1)?;
        self.open_intents -= 1;
        Ok(())
    }

    /// Records that pages move which no intent lists, so that an undo says what it lacks.
    ///
    /// # Errors
    /// `Write` if the file cannot be written.
    pub fn note_unlisted_moves(&mut self) -> Result<(), LedgerError> {
        if self.is_full {
            return Ok(());
        }
        self.append(&Record::Incomplete, self.open_intents)
    }

    /// Records the end of the operation.
    ///
    /// # Errors
    /// `Write` if the file cannot be written; the operation then counts as interrupted.
    pub fn end(mut self, end: &OperationEnd) -> Result<(), LedgerError> {
        self.log.append(&Record::End(end.clone()).framed())
    }

    /// Removes the file, because nothing moved. If that fails it stays, as one of an operation that
    /// was interrupted before anything moved.
    pub fn discard(self) {
        fs::remove_file(&self.log.path).ok();
    }

    /// Appends a record after which `open` intents are open. Reserves room for settling them in
    /// short form and for the last records.
    fn append(&mut self, record: &Record, open: u64) -> Result<(), LedgerError> {
        let framed = record.framed();
        if self.fits(&framed, open) {
            return self.log.append(&framed);
        }
        if !self.is_full {
            self.log.append(&Record::Incomplete.framed())?;
            self.is_full = true;
        }
        Err(self.full_error())
    }

    fn fits(&self, framed: &[u8], open: u64) -> bool {
        let last = if self.is_full { END_BYTES_MAX } else { INCOMPLETE_BYTES_MAX + END_BYTES_MAX };
        self.log.bytes() + framed.len() as u64 + open * SETTLED_BYTES_MAX + last <= self.limit
    }

    fn full_error(&self) -> LedgerError {
        LedgerError::Full { path: self.log.path.clone(), limit: self.limit }
    }
}
