//! The state from which a killed program continues: a value in a file that is replaced as a whole,
//! changes of it that are appended, and a lock that only one program holds.
//!
//! ```text
//! balance.state = "nwstate ", version u32, a record with the value, then records with the changes
//! ```
//!
//! Records are those of `frame.rs`. The file is written under another name and then renamed, so a
//! reader sees the old value with its changes or the new one. A program that is killed while it
//! appends leaves a truncated change, which is dropped. As for the ledger, nothing is flushed to
//! the disk: after a power failure its processes are gone too.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nodeward_files::{
    Visibility, is_not_regular_file, make_directory, open, open_or_create, read, write,
};
use nodeward_model::Escape as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::advice;
use crate::frame::{Damage, FrameReader, framed_value, number};

const MAGIC: &[u8; 8] = b"nwstate ";
const PREAMBLE_BYTES: u64 = 12;
/// A larger file was not written by nodeward.
const BYTES_MAX: u64 = 64 << 20;

/// The reason why a state could not be written or read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file could not be written; the previous one is unchanged.
    #[error("cannot write {}; {}", path.escaped(), advice::write_advice(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// The file could not be read.
    #[error("cannot read {}; {}", path.escaped(), advice::read_advice(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// The file is no state file, or is damaged.
    #[error(
        "{} is damaged ({description}); remove it: what it told is lost",
        path.escaped()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        description: String,
    },
    /// The file was written by another version of nodeward.
    #[error(
        "{} has version {found} and this nodeward reads version {known}; use the nodeward that \
         wrote it, or remove it",
        path.escaped()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that can be read.
        known: u32,
    },
    /// No file can be made in the directory.
    #[error("cannot keep anything in {}; {}", dir.escaped(), advice::write_advice(source))]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// Another program holds the lock.
    #[error("{} is locked by process {holder}; end that one first", path.escaped())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The pid that the holder has written into it.
        holder: String,
    },
}

/// A file with one value of one version, and the changes of it since it was written.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    version: u32,
}

/// The end of a state file, to which changes of its value are appended.
#[derive(Debug)]
pub struct StateLog {
    file: File,
    path: PathBuf,
    /// The size of the file.
    bytes: u64,
    is_empty: bool,
}

impl StateFile {
    /// Returns the file at a path, which need not exist yet. A change of the type of the value or
    /// of its changes must raise the version.
    pub fn new(path: PathBuf, version: u32) -> Self {
        Self { path, version }
    }

    /// Replaces the value, and drops its changes.
    ///
    /// # Errors
    /// `Write`; the old value is still there.
    pub fn write<T: Serialize>(&self, value: &T) -> Result<(), StateError> {
        self.replace(&self.encode(value)).map_err(|source| self.write_error(source))
    }

    /// Replaces the value, and returns the end of the file.
    ///
    /// # Errors
    /// `Write`; the old value is still there, or the new one without changes.
    pub fn begin<T: Serialize>(&self, value: &T) -> Result<StateLog, StateError> {
        let bytes = self.encode(value);
        self.replace(&bytes)
            .and_then(|()| open(File::options().append(true), &self.path))
            .map(|file| StateLog {
                file,
                path: self.path.clone(),
                bytes: bytes.len() as u64,
                is_empty: true,
            })
            .map_err(|source| self.write_error(source))
    }

    /// Reads a value that has no changes; `None` if there is no such file.
    ///
    /// # Errors
    /// `Read`, `Damaged`, `OtherVersion`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, StateError> {
        Ok(self.read_with_changes::<T, ()>()?.map(|(value, _)| value))
    }

    /// Reads a value and its changes, in the order in which they were appended; `None` if there is
    /// no such file.
    ///
    /// # Errors
    /// `Read`, `Damaged`, `OtherVersion`.
    pub fn read_with_changes<T: DeserializeOwned, C: DeserializeOwned>(
        &self,
    ) -> Result<Option<(T, Vec<C>)>, StateError> {
        match read(&self.path, BYTES_MAX) {
            Ok(bytes) => self.decode(&bytes).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StateError::Read { path: self.path.clone(), source: source.into() }),
        }
    }

    /// Removes the file, if there is one.
    ///
    /// # Errors
    /// `Write`.
    pub fn remove(&self) -> Result<(), StateError> {
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(self.write_error(source)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn write_error(&self, source: io::Error) -> StateError {
        StateError::Write { path: self.path.clone(), source: source.into() }
    }

    fn damaged(&self, description: String) -> StateError {
        StateError::Damaged { path: self.path.clone(), description }
    }

    fn decode<T: DeserializeOwned, C: DeserializeOwned>(
        &self,
        bytes: &[u8],
    ) -> Result<(T, Vec<C>), StateError> {
        let cut = || self.damaged("it is cut short".to_owned());
        let mut records = FrameReader::new(bytes);
        let preamble = records.raw(PREAMBLE_BYTES).unwrap_or_default();
        if preamble.len() as u64 != PREAMBLE_BYTES {
            return Err(cut());
        }
        if !preamble.starts_with(MAGIC) {
            return Err(self.damaged("it is not a state of nodeward".to_owned()));
        }
        let found = number(&preamble[MAGIC.len()..]);
        if found != self.version {
            let (path, known) = (self.path.clone(), self.version);
            return Err(StateError::OtherVersion { path, found, known });
        }
        let damaged = |damage: Damage| self.damaged(damage.to_string());
        let (_, value) = records.next().map_err(damaged)?.ok_or_else(cut)?;
        let mut changes = Vec::new();
        while let Some((_, change)) = records.next().map_err(damaged)? {
            changes.push(change);
        }
        Ok((value, changes))
    }

    fn encode<T: Serialize>(&self, value: &T) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(framed_value(value));
        bytes
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        create_parent_directory(&self.path)?;
        write(&self.path, bytes, Visibility::Owner)
    }
}

impl StateLog {
    /// Returns whether nothing has been appended.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Appends a change.
    ///
    /// # Errors
    /// `Write`: the change is not in the file, and nothing may be appended any more.
    pub fn append<C: Serialize>(&mut self, change: &C) -> Result<(), StateError> {
        let framed = framed_value(change);
        self.bytes = self.bytes.saturating_add(framed.len() as u64);
        let written = match self.bytes <= BYTES_MAX {
            true => self.file.write_all(&framed),
            false => Err(ErrorKind::FileTooLarge.into()),
        };
        self.is_empty = false;
        written
            .map_err(|source| StateError::Write { path: self.path.clone(), source: source.into() })
    }
}

/// The guarantee that no other program does the same. It ends with the value or with the process.
#[derive(Debug)]
pub struct InstanceLock {
    _file: File,
}

impl InstanceLock {
    /// Takes the lock, and writes the pid into its file.
    ///
    /// # Errors
    /// `Locked` if another program holds it, `Directory` if no file can be made there, `Write` if
    /// the path of the lock is not usable.
    pub fn acquire(path: &Path) -> Result<Self, StateError> {
        let refused = |source: io::Error| match path.parent() {
            Some(dir) if !is_not_regular_file(&source) => {
                StateError::Directory { dir: dir.to_owned(), source: source.into() }
            }
            _ => StateError::Write { path: path.to_owned(), source: source.into() },
        };
        create_parent_directory(path).map_err(refused)?;
        let file = open_or_create(path, Visibility::Owner).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StateError::Locked { path: path.into(), holder: holder(&file) });
            }
            Err(TryLockError::Error(source)) => return Err(refused(source)),
        }
        // The pid is for messages only: without room on the disk the lock is held all the same.
        let _ = file.set_len(0);
        let _ = file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0);
        Ok(Self { _file: file })
    }
}

fn holder(file: &File) -> String {
    let mut text = [0; 20];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..length]).trim().to_owned();
    if text.is_empty() { "of an unknown number".to_owned() } else { text }
}

fn create_parent_directory(path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.map_or(Ok(()), |dir| make_directory(dir, Visibility::Owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, StateFile) {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(dir.path().join("deep/balance.state"), 3);
        (dir, file)
    }

    /// Goal: a written value is read back; before that there is none, which is no error.
    #[test]
    fn a_value_comes_back() {
        let (_dir, file) = file();
        assert!(matches!(file.read::<Vec<u64>>(), Ok(None)));
        for value in [vec![1_u64, 300], vec![], vec![u64::MAX; 1000]] {
            file.write(&value).unwrap();
            assert_eq!(file.read::<Vec<u64>>().unwrap(), Some(value));
        }
        assert_eq!(fs::read_dir(file.path.parent().unwrap()).unwrap().count(), 1, "no rests");
        file.remove().unwrap();
        file.remove().unwrap();
        assert!(matches!(file.read::<Vec<u64>>(), Ok(None)));
    }

    /// Goal: a file that is truncated anywhere, or has any bit changed, is refused with a reason.
    #[test]
    fn damage_is_told() {
        let (_dir, file) = file();
        let bytes = file.encode(&vec![7_u64, 9]);
        for length in 0..bytes.len() {
            let error = file.decode::<Vec<u64>, ()>(&bytes[..length]).unwrap_err();
            assert!(matches!(error, StateError::Damaged { .. }), "{length}: {error}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(file.decode::<Vec<u64>, ()>(&bytes).is_err(), "bit {bit}");
        }
        let newer = StateFile { version: 4, ..file };
        let error = newer.decode::<Vec<u64>, ()>(&bytes).unwrap_err().to_string();
        assert!(error.contains("has version 3 and this nodeward reads version 4"), "{error}");
    }

    /// Goal: changes come back in their order, up to the last whole one wherever the file is
    /// truncated behind its value; a damaged one is told, and a new value has none.
    #[test]
    fn changes_follow_their_value() {
        let (_dir, file) = file();
        let read = || file.read_with_changes::<u64, Vec<u32>>().unwrap().unwrap();
        let mut log = file.begin(&7_u64).unwrap();
        assert!(log.is_empty());
        let value = fs::metadata(&file.path).unwrap().len() as usize;
        log.append(&vec![1_u32]).unwrap();
        let first = fs::metadata(&file.path).unwrap().len() as usize;
        log.append(&vec![2_u32, 300]).unwrap();
        assert!(!log.is_empty());
        assert_eq!(read(), (7, vec![vec![1], vec![2, 300]]));
        let bytes = fs::read(&file.path).unwrap();
        for length in value..bytes.len() {
            let (_, changes) = file.decode::<u64, Vec<u32>>(&bytes[..length]).unwrap();
            assert_eq!(changes, vec![vec![1]; usize::from(length >= first)], "{length}");
        }
        for bit in value * 8..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = file.decode::<u64, Vec<u32>>(&bytes).unwrap_err();
            assert!(matches!(error, StateError::Damaged { .. }), "bit {bit}: {error}");
        }
        file.write(&8_u64).unwrap();
        log.append(&vec![4_u32]).unwrap();
        assert_eq!(read(), (8, vec![]), "they go to the file of their value");
    }

    /// Goal: a change for which there is no room is refused, and so is one that would make the file
    /// larger than is read.
    #[test]
    fn a_change_without_room_is_refused() {
        let (_dir, file) = file();
        let full = File::options().append(true).open("/dev/full").unwrap();
        let mut log = StateLog { file: full, ..file.begin(&7_u64).unwrap() };
        assert!(matches!(log.append(&1_u32), Err(StateError::Write { .. })));
        let mut log = StateLog { bytes: BYTES_MAX, ..file.begin(&7_u64).unwrap() };
        assert!(matches!(log.append(&1_u32), Err(StateError::Write { .. })));
        assert_eq!(file.read::<u64>().unwrap(), Some(7));
    }

    /// Goal: if the new value cannot be written, the old one stays.
    #[test]
    fn a_failed_write_leaves_the_old_value() {
        let (_dir, file) = file();
        file.write(&1_u64).unwrap();
        // A directory is in the place of the new file.
        let name = file.path.file_name().unwrap().to_str().unwrap();
        let new = format!(".{name}.{}.new", std::process::id());
        fs::create_dir(file.path.with_file_name(new)).unwrap();
        assert!(matches!(file.write(&2_u64), Err(StateError::Write { .. })));
        assert_eq!(file.read::<u64>().unwrap(), Some(1));
    }

    /// Goal: the second holder is refused and gets the pid of the first; afterwards another one can
    /// take it.
    #[test]
    fn only_one_has_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("balance.lock");
        let first = InstanceLock::acquire(&path).unwrap();
        let error = InstanceLock::acquire(&path).unwrap_err();
        let expected = std::process::id().to_string();
        assert!(
            matches!(&error, StateError::Locked { holder, .. } if *holder == expected),
            "{error}"
        );
        drop(first);
        InstanceLock::acquire(&path).unwrap();
    }
}
