//! Reads the ledger of one operation: all valid records of a file that may be damaged.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::moved_runs::PackedRuns;
use super::record::{Record, RecordReader};
use super::{Damage, Header, LedgerError, MovedRuns, OperationCause, OperationEnd, OperationId};

/// The content of an operation's ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its number.
    pub id: OperationId,
    /// Its header.
    pub header: Header,
    /// Its origin and reason, if no user typed it.
    pub cause: Option<OperationCause>,
    /// The pages moved of each process, in the order of the header.
    pub processes: Vec<MovedPages>,
    /// Its state.
    pub state: OperationState,
    /// True if every move is recorded. If not, the ledger or the disk was full, and later moves are
    /// missing. A disk without room even for that record leaves an interrupted operation that seems
    /// complete.
    pub is_complete: bool,
    /// The damage of the file; all data here comes from records before it.
    pub damage: Option<Damage>,
}

/// The pages moved of one process, each in ascending order of addresses for each pair of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedPages {
    /// Pages that moved.
    pub moved: MovedRuns,
    /// Pages of intents without a settlement: each may have moved or not.
    pub open: MovedRuns,
}

/// The state of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationState {
    /// Its command is running.
    Running,
    /// Its command ended by itself.
    Ended(OperationEnd),
    /// Its command was killed, or could not write the end.
    Interrupted,
}

impl Operation {
    /// Decodes a ledger. `path` is for messages; `is_running` is true if the file is locked.
    ///
    /// # Errors
    /// If nothing can be read: `Read`, `NotALedger`, `OtherVersion`, `NoHeader`. Damage after the
    /// header is no error.
    pub fn decode(
        id: OperationId,
        path: &Path,
        input: impl Read,
        is_running: bool,
    ) -> Result<Self, LedgerError> {
        let mut records = RecordReader::open(input, path)?;
        let no_header = |damage| LedgerError::NoHeader { path: path.to_owned(), damage };
        let mut story =
            records.next().and_then(OperationBuilder::from_header).map_err(no_header)?;
        let damage = story.read_records(&mut records).err();
        Ok(story.build(id, is_running, damage))
    }

    /// Returns the base pages that moved, of all processes.
    pub fn moved_pages(&self) -> u64 {
        total(self.processes.iter().map(|process| &process.moved))
    }

    /// Returns the base pages that may have moved, of all processes.
    pub fn open_pages(&self) -> u64 {
        total(self.processes.iter().map(|process| &process.open))
    }
}

fn total<'a>(runs: impl Iterator<Item = &'a MovedRuns>) -> u64 {
    runs.fold(0, |sum, runs| sum.saturating_add(runs.pages()))
}

/// The content of the records so far.
struct OperationBuilder {
    header: Header,
    cause: Option<OperationCause>,
    moved: Vec<MovedRuns>,
    /// Intents without a settlement: process and pages by ticket.
    open: BTreeMap<u64, (usize, MovedRuns)>,
    is_complete: bool,
    end: Option<OperationEnd>,
}

impl OperationBuilder {
    fn from_header(first: Option<(u64, Record)>) -> Result<Self, Damage> {
        let (at, header) = match first {
            Some((at, Record::Header(header))) => (at, header),
            Some((at, _)) => {
                return Err(Damage::new(at, "another record stands before the header"));
            }
            None => return Err(Damage::new(0, "it is cut short in its header")),
        };
        if !header.page_bytes.is_power_of_two() {
            return Err(Damage::new(at, "the header has an impossible size of pages"));
        }
        let moved = vec![MovedRuns::new(header.page_bytes); header.processes.len()];
        let open = BTreeMap::new();
        Ok(Self { header, cause: None, moved, open, is_complete: true, end: None })
    }

    fn read_records(&mut self, records: &mut RecordReader<impl Read>) -> Result<(), Damage> {
        while let Some((at, record)) = records.next()? {
            self.apply(record).map_err(|what| Damage::new(at, what))?;
        }
        Ok(())
    }

    fn apply(&mut self, record: Record) -> Result<(), &'static str> {
        match record {
            _ if self.end.is_some() => return Err("a record stands behind the end"),
            Record::Header(_) => return Err("a second header stands"),
            Record::Intent { ticket, process, runs } => {
                if process >= self.moved.len() || self.open.contains_key(&ticket) {
                    return Err("an intent of no process, or a second time, stands");
                }
                self.open.insert(ticket, (process, self.unpack(&runs)?));
            }
            Record::Settled { ticket, moved } => {
                let moved = moved.map(|moved| self.unpack(&moved)).transpose()?;
                let intent = self.open.remove(&ticket);
                let (process, intended) = intent.ok_or("a settlement without intent stands")?;
                self.moved[process].append(moved.unwrap_or(intended));
            }
            Record::Incomplete => self.is_complete = false,
            Record::End(end) => self.end = Some(end),
            Record::Cause(_) if self.cause.is_some() => return Err("a second reason stands"),
            Record::Cause(why) => self.cause = Some(why),
        }
        Ok(())
    }

    fn unpack(&self, packed: &PackedRuns) -> Result<MovedRuns, &'static str> {
        MovedRuns::unpack(packed, self.header.page_bytes).ok_or("a run of impossible pages stands")
    }

    fn build(self, id: OperationId, is_running: bool, damage: Option<Damage>) -> Operation {
        let none = MovedRuns::new(self.header.page_bytes);
        let moved = |moved| MovedPages { moved, open: none.clone() };
        let mut processes: Vec<MovedPages> = self.moved.into_iter().map(moved).collect();
        for (process, runs) in self.open.into_values() {
            processes[process].open.append(runs);
        }
        for process in &mut processes {
            process.moved.normalize();
            process.open.normalize();
        }
        let state = match self.end {
            Some(end) => OperationState::Ended(end),
            None if is_running => OperationState::Running,
            None => OperationState::Interrupted,
        };
        let Self { header, cause: why, is_complete, .. } = self;
        Operation { id, header, cause: why, processes, state, is_complete, damage }
    }
}
