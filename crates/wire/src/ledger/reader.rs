//! Reads the ledger of one operation: all valid records of a file that may be damaged.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::record::{Record, Records, damage};
use super::runs::Packed;
use super::{Damage, End, Error, Header, Id, Runs, Why};

/// The content of an operation's ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its number.
    pub id: Id,
    /// Its header.
    pub header: Header,
    /// Its origin and reason, if no user typed it.
    pub why: Option<Why>,
    /// The pages moved of each process, in the order of the header.
    pub processes: Vec<Moved>,
    /// Its state.
    pub state: State,
    /// True if every move is recorded. If not, the ledger or the disk was full, and later moves are
    /// missing. A disk without room even for that record leaves an interrupted operation that seems
    /// complete.
    pub is_complete: bool,
    /// The damage of the file; all data here comes from records before it.
    pub damage: Option<Damage>,
}

/// The pages moved of one process, each in ascending order of addresses for each pair of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Pages that moved.
    pub moved: Runs,
    /// Pages of intents without a settlement: each may have moved or not.
    pub open: Runs,
}

/// The state of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its command is running.
    Running,
    /// Its command ended by itself.
    Ended(End),
    /// Its command was killed, or could not write the end.
    Interrupted,
}

impl Operation {
    /// Decodes a ledger. `path` is for messages; `is_running` is true if the file is locked.
    ///
    /// # Errors
    /// If nothing can be read: `Read`, `NotALedger`, `OtherVersion`, `NoHeader`. Damage after the
    /// header is no error.
    pub fn decode(id: Id, path: &Path, input: impl Read, is_running: bool) -> Result<Self, Error> {
        let mut records = Records::open(input, path)?;
        let no_header = |damage| Error::NoHeader { path: path.to_owned(), damage };
        let mut story = records.next().and_then(Story::begin).map_err(no_header)?;
        let damage = story.read(&mut records).err();
        Ok(story.close(id, is_running, damage))
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

fn total<'a>(runs: impl Iterator<Item = &'a Runs>) -> u64 {
    runs.fold(0, |sum, runs| sum.saturating_add(runs.pages()))
}

/// The content of the records so far.
struct Story {
    header: Header,
    why: Option<Why>,
    moved: Vec<Runs>,
    /// Intents without a settlement: process and pages by ticket.
    open: BTreeMap<u64, (usize, Runs)>,
    is_complete: bool,
    end: Option<End>,
}

impl Story {
    fn begin(first: Option<(u64, Record)>) -> Result<Self, Damage> {
        let (at, header) = match first {
            Some((at, Record::Header(header))) => (at, header),
            Some((at, _)) => return Err(damage(at, "another record stands before the header")),
            None => return Err(damage(0, "it is cut short in its header")),
        };
        if !header.page_bytes.is_power_of_two() {
            return Err(damage(at, "the header has an impossible size of pages"));
        }
        let moved = vec![Runs::new(header.page_bytes); header.processes.len()];
        let open = BTreeMap::new();
        Ok(Self { header, why: None, moved, open, is_complete: true, end: None })
    }

    fn read(&mut self, records: &mut Records<impl Read>) -> Result<(), Damage> {
        while let Some((at, record)) = records.next()? {
            self.enter(record).map_err(|what| damage(at, what))?;
        }
        Ok(())
    }

    fn enter(&mut self, record: Record) -> Result<(), &'static str> {
        match record {
            _ if self.end.is_some() => return Err("a record stands behind the end"),
            Record::Header(_) => return Err("a second header stands"),
            Record::Intent { ticket, process, runs } => {
                if process >= self.moved.len() || self.open.contains_key(&ticket) {
                    return Err("an intent of no process, or a second time, stands");
                }
                self.open.insert(ticket, (process, self.unpacked(&runs)?));
            }
            Record::Settled { ticket, moved } => {
                let moved = moved.map(|moved| self.unpacked(&moved)).transpose()?;
                let intent = self.open.remove(&ticket);
                let (process, intended) = intent.ok_or("a settlement without intent stands")?;
                self.moved[process].absorb(moved.unwrap_or(intended));
            }
            Record::Incomplete => self.is_complete = false,
            Record::End(end) => self.end = Some(end),
            Record::Why(_) if self.why.is_some() => return Err("a second reason stands"),
            Record::Why(why) => self.why = Some(why),
        }
        Ok(())
    }

    fn unpacked(&self, packed: &Packed) -> Result<Runs, &'static str> {
        Runs::unpacked(packed, self.header.page_bytes).ok_or("a run of impossible pages stands")
    }

    fn close(self, id: Id, is_running: bool, damage: Option<Damage>) -> Operation {
        let none = Runs::new(self.header.page_bytes);
        let moved = |moved| Moved { moved, open: none.clone() };
        let mut processes: Vec<Moved> = self.moved.into_iter().map(moved).collect();
        for (process, runs) in self.open.into_values() {
            processes[process].open.absorb(runs);
        }
        for process in &mut processes {
            process.moved.put_in_order();
            process.open.put_in_order();
        }
        let state = match self.end {
            Some(end) => State::Ended(end),
            None if is_running => State::Running,
            None => State::Interrupted,
        };
        let Self { header, why, is_complete, .. } = self;
        Operation { id, header, why, processes, state, is_complete, damage }
    }
}
