//! The directory of ledgers: one file per operation, and a bound on all of them.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nodeward_files::{For, create_new, is_not_a_file, make_directory, open, open_or_make};

use super::id::in_words;
use super::{Damage, Error, Header, Id, Operation, State, Why, Writer};

/// Held by whoever begins an operation, so that numbers are given out and old files taken away by
/// one command at a time.
const LOCK: &str = "lock";
/// Whoever holds the lock for longer is stopped or stuck, and the time between two tries.
const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// An operation that has no number yet. It gets its name once it is locked and has a header, so a
/// file with a number is never seen without them.
const NEW: &str = "new";

/// Operations in one directory.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
    limits: Limits,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At most so many operations, the latest included.
    pub operations: usize,
    /// At most so many bytes for one operation.
    pub operation_bytes: u64,
    /// At most so many bytes for all operations, if they run one after the other. Those that run
    /// at the same time each come on top.
    pub total_bytes: u64,
}

impl Default for Limits {
    /// A ledger of 16 MiB tells of five million scattered pages and of any number that lie
    /// together.
    fn default() -> Self {
        Self { operations: 100, operation_bytes: 16 << 20, total_bytes: 256 << 20 }
    }
}

/// One line of the list.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The number of the operation.
    pub id: Id,
    /// The size of its file in bytes.
    pub bytes: u64,
    /// What it did, or why that cannot be told.
    pub outline: Result<Outline, Error>,
}

/// What an operation did, without the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// What it was about.
    pub header: Header,
    /// As in [`Operation`].
    pub why: Option<Why>,
    /// Whether and how it ended.
    pub state: State,
    /// As in [`Operation`].
    pub is_complete: bool,
    /// As in [`Operation`].
    pub damage: Option<Damage>,
    /// Base pages that moved.
    pub moved_pages: u64,
    /// Base pages that may have moved.
    pub open_pages: u64,
}

impl From<Operation> for Outline {
    fn from(operation: Operation) -> Self {
        Self {
            moved_pages: operation.moved_pages(),
            open_pages: operation.open_pages(),
            header: operation.header,
            why: operation.why,
            state: operation.state,
            is_complete: operation.is_complete,
            damage: operation.damage,
        }
    }
}

impl Store {
    /// The store in a directory, which need not exist yet.
    pub fn new(dir: PathBuf, limits: Limits) -> Self {
        Self { dir, limits }
    }

    /// Begins an operation under the next free number, and takes old operations away until the
    /// limits hold: never one that is running, nor the latest.
    ///
    /// # Errors
    /// `Directory` if the store cannot be written, `Lock` if its lock cannot be taken, `Write` if
    /// the file cannot be written, `Full` if the header alone is too large, `LastId`.
    pub fn begin(&self, header: &Header) -> Result<Writer, Error> {
        self.begin_because(header, None)
    }

    /// As [`Store::begin`], for an operation that has somebody else's reason.
    ///
    /// # Errors
    /// Those of [`Store::begin`].
    pub fn begin_because(&self, header: &Header, why: Option<&Why>) -> Result<Writer, Error> {
        let refused = |source| self.refused(source);
        let _alone = self.lock()?;
        let before = self.sizes().map_err(refused)?;
        let id = self.next_id(&before)?;
        let new = self.dir.join(NEW);
        let named = (id, self.path(id));
        let file = fresh(&new).map_err(refused)?;
        let begun = Writer::begin(file, named, (header, why), self.limits.operation_bytes);
        let writer = begun.inspect_err(|_| drop(fs::remove_file(&new)))?;
        fs::rename(&new, self.path(id)).map_err(refused)?;
        self.rotate(before);
        Ok(writer)
    }

    /// Every operation, the latest first. What is damaged or no ledger is listed as such.
    ///
    /// # Errors
    /// `Read` if the directory cannot be read; one that does not exist has no operations.
    pub fn list(&self) -> Result<Vec<Summary>, Error> {
        let mut list = Vec::new();
        for (id, bytes) in self.present()?.into_iter().rev() {
            let outline = match self.open(id) {
                // Taken away since we looked.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => self.decode(id, opened).map(Outline::from),
            };
            list.push(Summary { id, bytes, outline });
        }
        Ok(list)
    }

    /// One operation.
    ///
    /// # Errors
    /// `NoSuchId`, and those of [`Operation::decode`].
    pub fn read(&self, id: Id) -> Result<Operation, Error> {
        match self.open(id) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let present = in_words(self.present()?.into_keys());
                Err(Error::NoSuchId { dir: self.dir.clone(), id, present })
            }
            opened => self.decode(id, opened),
        }
    }

    fn path(&self, id: Id) -> PathBuf {
        self.dir.join(id.file_name())
    }

    /// Waits until no other command begins an operation, which takes each of them milliseconds.
    fn lock(&self) -> Result<File, Error> {
        make_directory(&self.dir, For::Owner).map_err(|source| self.refused(source))?;
        let path = self.dir.join(LOCK);
        match open_or_make(&path, For::Owner).and_then(|file| lock_in_time(&file).map(|()| file)) {
            Ok(file) => Ok(file),
            Err(source) if is_not_a_file(&source) || source.kind() == ErrorKind::TimedOut => {
                Err(Error::Lock { path, source: source.into() })
            }
            Err(source) => Err(self.refused(source)),
        }
    }

    fn refused(&self, source: io::Error) -> Error {
        Error::Directory { dir: self.dir.clone(), source: source.into() }
    }

    /// The operations and the sizes of their files.
    fn sizes(&self) -> io::Result<BTreeMap<Id, u64>> {
        let mut sizes = BTreeMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Some(id) = Id::of_file(&entry.file_name()) else { continue };
            match entry.metadata() {
                Ok(metadata) => sizes.insert(id, metadata.len()),
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
        }
        Ok(sizes)
    }

    /// As `sizes`, for those who only read.
    fn present(&self) -> Result<BTreeMap<Id, u64>, Error> {
        match self.sizes() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
            sizes => sizes.map_err(|source| Error::read(&self.dir, source)),
        }
    }

    fn next_id(&self, before: &BTreeMap<Id, u64>) -> Result<Id, Error> {
        // The latest is never taken away, so no number comes back.
        before.last_key_value().map_or(Ok(Id::FIRST), |(&last, _)| {
            last.next().ok_or_else(|| Error::LastId { path: self.path(last) })
        })
    }

    /// Takes away the oldest of those from before until there is room for the new one at its
    /// largest. What cannot be taken away stays until the next time: the move goes first.
    fn rotate(&self, before: BTreeMap<Id, u64>) {
        let mut operations = before.len() + 1;
        let mut bytes =
            before.values().fold(self.limits.operation_bytes, |a, &b| a.saturating_add(b));
        for (id, size) in before {
            let fits = operations <= self.limits.operations && bytes <= self.limits.total_bytes;
            if fits {
                return;
            }
            if self.take_away(id).is_ok() {
                operations -= 1;
                bytes -= size;
            }
        }
    }

    /// Removes the file of an operation that is neither running nor being read.
    fn take_away(&self, id: Id) -> io::Result<()> {
        let path = self.path(id);
        let file = open(File::options().append(true), &path)?;
        file.try_lock()?;
        fs::remove_file(path)
    }

    /// The file of an operation, and whether the operation is running. Whoever holds the file of
    /// one that is not keeps it from being taken away.
    fn open(&self, id: Id) -> io::Result<(File, bool)> {
        let file = open(File::options().read(true), &self.path(id))?;
        match file.try_lock_shared() {
            Ok(()) => Ok((file, false)),
            Err(TryLockError::WouldBlock) => Ok((file, true)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn decode(&self, id: Id, opened: io::Result<(File, bool)>) -> Result<Operation, Error> {
        let path = self.path(id);
        match opened {
            Ok((file, is_running)) => {
                Operation::decode(id, &path, BufReader::new(file), is_running)
            }
            Err(error) if is_not_a_file(&error) => Err(Error::NotALedger { path }),
            Err(error) => Err(Error::read(&path, error)),
        }
    }
}

/// Locks a file, unless somebody keeps it: a command that is stopped would stop all others.
fn lock_in_time(file: &File) -> io::Result<()> {
    let until = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                let words = format!("another command has held it for {} s", LOCK_WAIT.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, words));
            }
        }
    }
}

/// A new, locked file. Whoever left one under this name was killed: only one begins at a time.
fn fresh(path: &Path) -> io::Result<File> {
    let _ = fs::remove_file(path);
    let file = create_new(path, For::Owner)?;
    file.lock()?;
    Ok(file)
}
