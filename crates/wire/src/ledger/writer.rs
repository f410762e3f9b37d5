//! Writes the ledger of one operation.

use std::fs::{self, File};
use std::path::PathBuf;

use super::log::Log;
use super::record::{self, END_ROOM, INCOMPLETE_ROOM, Record, SETTLED_ROOM};
use super::{End, Error, Header, Id, Runs, Why};

/// The ledger of an operation in progress. Its file is locked until this is dropped; if it is
/// dropped without [`Writer::end`], the operation counts as interrupted.
pub struct Writer {
    id: Id,
    log: Log<File>,
    page_bytes: u64,
    processes: usize,
    limit: u64,
    /// Intents so far.
    tickets: u64,
    /// Intents that are not settled yet.
    open: u64,
    is_full: bool,
}

/// An intent that was written and is to be settled. If it never is, its pages count as open: they
/// may have moved.
#[derive(Debug)]
#[must_use = "what moved is known only once the intent is settled"]
pub struct Ticket {
    number: u64,
    intended: Runs,
}

impl Writer {
    /// Begins the ledger in an empty file.
    pub(super) fn begin(
        file: File,
        (id, path): (Id, PathBuf),
        (header, why): (&Header, Option<&Why>),
        limit: u64,
    ) -> Result<Self, Error> {
        let mut writer = Self {
            id,
            log: Log::new(file, path),
            page_bytes: header.page_bytes,
            processes: header.processes.len(),
            limit,
            tickets: 0,
            open: 0,
            is_full: false,
        };
        let beginning = record::beginning(header, why);
        if !writer.fits(&beginning, 0) {
            return Err(writer.full());
        }
        writer.log.append(&beginning)?;
        Ok(writer)
    }

    /// Returns the number of the operation.
    pub fn id(&self) -> Id {
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
    pub fn intend(&mut self, process: usize, mut runs: Runs) -> Result<Ticket, Error> {
        assert!(process < self.processes, "process {process} of {}", self.processes);
        assert_eq!(runs.page_bytes(), self.page_bytes, "pages of the header's size");
        if self.is_full {
            return Err(self.full());
        }
        runs.put_in_order();
        let number = self.tickets;
        let record = Record::Intent { ticket: number, process, runs: runs.packed() };
        self.append(&record, self.open + 1)?;
        self.tickets += 1;
        self.open += 1;
        Ok(Ticket { number, intended: runs })
    }

    /// Records the pages of an intent that really moved: all of them (`None`), or these.
    ///
    /// # Errors
    /// As [`Writer::intend`]; the intent then stays open. `Full` never if all of them moved.
    pub fn settle(&mut self, ticket: Ticket, moved: Option<Runs>) -> Result<(), Error> {
        let Ticket { number, intended } = ticket;
        let part = moved.and_then(|mut moved| {
            moved.put_in_order();
            (moved != intended).then(|| moved.packed())
        });
        self.append(&Record::Settled { ticket: number, moved: part }, self.open - 1)?;
        self.open -= 1;
        Ok(())
    }

    /// Records the end of the operation.
    ///
    /// # Errors
    /// `Write` if the file cannot be written; the operation then counts as interrupted.
    pub fn end(mut self, end: &End) -> Result<(), Error> {
        self.log.append(&Record::End(end.clone()).framed())
    }

    /// Removes the file, because nothing moved. If that fails it stays, as one of an operation that
    /// was interrupted before anything moved.
    pub fn discard(self) {
        fs::remove_file(&self.log.path).ok();
    }

    /// Appends a record after which `open` intents are open. Reserves room for settling them in
    /// short form and for the last records.
    fn append(&mut self, record: &Record, open: u64) -> Result<(), Error> {
        let framed = record.framed();
        if self.fits(&framed, open) {
            return self.log.append(&framed);
        }
        if !self.is_full {
            self.log.append(&Record::Incomplete.framed())?;
            self.is_full = true;
        }
        Err(self.full())
    }

    fn fits(&self, framed: &[u8], open: u64) -> bool {
        let last = if self.is_full { END_ROOM } else { INCOMPLETE_ROOM + END_ROOM };
        self.log.bytes() + framed.len() as u64 + open * SETTLED_ROOM + last <= self.limit
    }

    fn full(&self) -> Error {
        Error::Full { path: self.log.path.clone(), limit: self.limit }
    }
}
