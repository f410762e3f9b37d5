//! The directory of ledgers: one file per operation, and a limit on all of them.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nodeward_files::{
    Visibility, create_new, is_not_regular_file, make_directory, open, open_or_create,
};

use super::operation_id::format_ids;
use super::{
    Damage, Header, LedgerError, LedgerWriter, Operation, OperationCause, OperationId,
    OperationState,
};

/// The lock of a command that begins an operation, so that one command at a time assigns numbers
/// and removes old files.
const LOCK_FILE_NAME: &str = "lock";
/// Limit on the wait for the lock (a longer holder is stopped or stuck), and the time between two
/// tries.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// The file of an operation without a number. It is renamed once it is locked and has a header, so
/// that a file with a number always has both.
const NEW_FILE_NAME: &str = "new";

/// Operations in one directory.
#[derive(Clone, Debug)]
pub struct LedgerStore {
    dir: PathBuf,
    limits: StoreLimits,
}

/// Limits of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Limit on operations, the latest included.
    pub operations: usize,
    /// Limit on the bytes of one operation.
    pub operation_bytes: u64,
    /// Limit on the bytes of all operations, if they run one after the other. Concurrent ones each
    /// come on top.
    pub total_bytes: u64,
}

impl Default for StoreLimits {
    /// A ledger of 16 MiB holds five million scattered pages, and any number of contiguous ones.
    fn default() -> Self {
        Self { operations: 100, operation_bytes: 16 << 20, total_bytes: 256 << 20 }
    }
}

/// One line of the list.
#[derive(Clone, Debug)]
pub struct OperationSummary {
    /// The number of the operation.
    pub id: OperationId,
    /// The size of its file in bytes.
    pub bytes: u64,
    /// Its outline, or the reason why it cannot be read.
    pub outline: Result<OperationOutline, LedgerError>,
}

/// The content of an operation's ledger, without the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationOutline {
    /// Its header.
    pub header: Header,
    /// As in [`Operation`].
    pub cause: Option<OperationCause>,
    /// Its state.
    pub state: OperationState,
    /// As in [`Operation`].
    pub is_complete: bool,
    /// As in [`Operation`].
    pub damage: Option<Damage>,
    /// Base pages that moved.
    pub moved_pages: u64,
    /// Base pages that may have moved.
    pub open_pages: u64,
}

impl From<Operation> for OperationOutline {
    fn from(operation: Operation) -> Self {
        Self {
            moved_pages: operation.moved_pages(),
            open_pages: operation.open_pages(),
            header: operation.header,
            cause: operation.cause,
            state: operation.state,
            is_complete: operation.is_complete,
            damage: operation.damage,
        }
    }
}

impl LedgerStore {
    /// Returns the store in a directory, which need not exist yet.
    pub fn new(dir: PathBuf, limits: StoreLimits) -> Self {
        Self { dir, limits }
    }

    /// Begins an operation under the next free number, and removes old operations until the limits
    /// hold: never one that is running, nor the latest.
    ///
    /// # Errors
    /// `Directory` if the store cannot be written, `Lock` if its lock cannot be taken, `Write` if
    /// the file cannot be written, `Full` if the header alone is too large, `LastId`.
    pub fn begin(&self, header: &Header) -> Result<LedgerWriter, LedgerError> {
        self.begin_with_cause(header, None)
    }

    /// Begins an operation as [`LedgerStore::begin`] does, with an origin and reason.
    ///
    /// # Errors
    /// Those of [`LedgerStore::begin`].
    pub fn begin_with_cause(
        &self,
        header: &Header,
        why: Option<&OperationCause>,
    ) -> Result<LedgerWriter, LedgerError> {
        let refused = |source| self.directory_error(source);
        let _alone = self.lock()?;
        let before = self.file_sizes().map_err(refused)?;
        let id = self.next_id(&before)?;
        let new = self.dir.join(NEW_FILE_NAME);
        let named = (id, self.path(id));
        let file = create_locked(&new).map_err(refused)?;
        let begun = LedgerWriter::begin(file, named, (header, why), self.limits.operation_bytes);
        let writer = begun.inspect_err(|_| drop(fs::remove_file(&new)))?;
        fs::rename(&new, self.path(id)).map_err(refused)?;
        self.rotate(before);
        Ok(writer)
    }

    /// Lists every operation, the latest first. Damaged files and files that are no ledger are
    /// listed as such.
    ///
    /// # Errors
    /// `Read` if the directory cannot be read; one that does not exist has no operations.
    pub fn list(&self) -> Result<Vec<OperationSummary>, LedgerError> {
        let mut list = Vec::new();
        for (id, bytes) in self.existing()?.into_iter().rev() {
            let outline = match self.open(id) {
                // Removed since the directory was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => self.decode(id, opened).map(OperationOutline::from),
            };
            list.push(OperationSummary { id, bytes, outline });
        }
        Ok(list)
    }

    /// Reads one operation.
    ///
    /// # Errors
    /// `NoSuchId`, and those of [`Operation::decode`].
    pub fn read(&self, id: OperationId) -> Result<Operation, LedgerError> {
        match self.open(id) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let present = format_ids(self.existing()?.into_keys());
                Err(LedgerError::NoSuchId { dir: self.dir.clone(), id, present })
            }
            opened => self.decode(id, opened),
        }
    }

    fn path(&self, id: OperationId) -> PathBuf {
        self.dir.join(id.file_name())
    }

    /// Waits until no other command begins an operation, which takes each of them milliseconds.
    fn lock(&self) -> Result<File, LedgerError> {
        make_directory(&self.dir, Visibility::Owner)
            .map_err(|source| self.directory_error(source))?;
        let path = self.dir.join(LOCK_FILE_NAME);
        match open_or_create(&path, Visibility::Owner)
            .and_then(|file| lock_with_timeout(&file).map(|()| file))
        {
            Ok(file) => Ok(file),
            Err(source) if is_not_regular_file(&source) || source.kind() == ErrorKind::TimedOut => {
                Err(LedgerError::Lock { path, source: source.into() })
            }
            Err(source) => Err(self.directory_error(source)),
        }
    }

    fn directory_error(&self, source: io::Error) -> LedgerError {
        LedgerError::Directory { dir: self.dir.clone(), source: source.into() }
    }

    /// Returns the operations and the sizes of their files.
    fn file_sizes(&self) -> io::Result<BTreeMap<OperationId, u64>> {
        let mut sizes = BTreeMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Some(id) = OperationId::from_file_name(&entry.file_name()) else { continue };
            match entry.metadata() {
                Ok(metadata) => sizes.insert(id, metadata.len()),
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
        }
        Ok(sizes)
    }

    /// Returns the same for readers; a missing directory is empty.
    fn existing(&self) -> Result<BTreeMap<OperationId, u64>, LedgerError> {
        match self.file_sizes() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
            sizes => sizes.map_err(|source| LedgerError::read(&self.dir, source)),
        }
    }

    fn next_id(&self, before: &BTreeMap<OperationId, u64>) -> Result<OperationId, LedgerError> {
        // The latest is never removed, so no number is reused.
        before.last_key_value().map_or(Ok(OperationId::FIRST), |(&last, _)| {
            last.next().ok_or_else(|| LedgerError::LastId { path: self.path(last) })
        })
    }

    /// Removes the oldest of the earlier operations until there is room for the new one at its
    /// largest. A file that cannot be removed stays until the next time: the move goes first.
    fn rotate(&self, before: BTreeMap<OperationId, u64>) {
        let mut operations = before.len() + 1;
        let mut bytes =
            before.values().fold(self.limits.operation_bytes, |a, &b| a.saturating_add(b));
        for (id, size) in before {
            let fits = operations <= self.limits.operations && bytes <= self.limits.total_bytes;
            if fits {
                return;
            }
            if self.remove(id).is_ok() {
                operations -= 1;
                bytes -= size;
            }
        }
    }

    /// Removes the file of an operation that is neither running nor being read.
    fn remove(&self, id: OperationId) -> io::Result<()> {
        let path = self.path(id);
        let file = open(File::options().append(true), &path)?;
        file.try_lock()?;
        fs::remove_file(path)
    }

    /// Opens the file of an operation; returns whether the operation is running. An open file of
    /// one that is not running is locked against removal.
    fn open(&self, id: OperationId) -> io::Result<(File, bool)> {
        let file = open(File::options().read(true), &self.path(id))?;
        match file.try_lock_shared() {
            Ok(()) => Ok((file, false)),
            Err(TryLockError::WouldBlock) => Ok((file, true)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn decode(
        &self,
        id: OperationId,
        opened: io::Result<(File, bool)>,
    ) -> Result<Operation, LedgerError> {
        let path = self.path(id);
        match opened {
            Ok((file, is_running)) => {
                Operation::decode(id, &path, BufReader::new(file), is_running)
            }
            Err(error) if is_not_regular_file(&error) => Err(LedgerError::NotALedger { path }),
            Err(error) => Err(LedgerError::read(&path, error)),
        }
    }
}

/// Locks a file, with a limit on the wait: otherwise a stopped command would stop all others.
fn lock_with_timeout(file: &File) -> io::Result<()> {
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                let words = format!("another command has held it for {} s", LOCK_TIMEOUT.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, words));
            }
        }
    }
}

/// Makes a new, locked file. An old one under this name is from a killed command: only one begins
/// at a time.
fn create_locked(path: &Path) -> io::Result<File> {
    let _ = fs::remove_file(path);
    let file = create_new(path, Visibility::Owner)?;
    file.lock()?;
    Ok(file)
}
