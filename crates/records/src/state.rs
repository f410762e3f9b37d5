//! The state from which a killed program continues: one value in a file that is replaced as a
//! whole, and a lock that only one program holds.
//!
//! ```text
//! balance.state = "nwstate ", version u32, crc32 of the bytes after it u32, the value
//! ```
//!
//! Numbers are little-endian, the value is encoded by postcard. The file is written under another
//! name and then renamed, so a reader sees the old value or the new one. As for the ledger, nothing
//! is flushed to the disk: after a power failure its processes are gone too.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nodeward_files::{
    Visibility, is_not_regular_file, make_directory, open_or_create, read, write,
};
use nodeward_model::Escape as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::advice;

const MAGIC: &[u8; 8] = b"nwstate ";
const HEAD_BYTES: usize = 16;
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
        description: &'static str,
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

/// A file with one value of one version.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    version: u32,
}

impl StateFile {
    /// Returns the file at a path, which need not exist yet. A change of the value's type must
    /// raise the version.
    pub fn new(path: PathBuf, version: u32) -> Self {
        Self { path, version }
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// `Write`.
    pub fn write<T: Serialize>(&self, value: &T) -> Result<(), StateError> {
        self.replace(&self.encode(value))
            .map_err(|source| StateError::Write { path: self.path.clone(), source: source.into() })
    }

    /// Reads the value; `None` if there is no such file.
    ///
    /// # Errors
    /// `Read`, `Damaged`, `OtherVersion`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, StateError> {
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
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(StateError::Write { path: self.path.clone(), source: source.into() })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, StateError> {
        let damaged = |what| StateError::Damaged { path: self.path.clone(), description: what };
        let head = bytes.get(..HEAD_BYTES).ok_or_else(|| damaged("it is cut short"))?;
        if !head.starts_with(MAGIC) {
            return Err(damaged("it is not a state of nodeward"));
        }
        let found = number(&head[8..12]);
        if found != self.version {
            let (path, known) = (self.path.clone(), self.version);
            return Err(StateError::OtherVersion { path, found, known });
        }
        let value = &bytes[HEAD_BYTES..];
        if crc32fast::hash(value) != number(&head[12..]) {
            return Err(damaged("its checksum is wrong"));
        }
        match postcard::take_from_bytes(value) {
            Ok((value, [])) => Ok(value),
            Ok(_) | Err(_) => Err(damaged("it says nothing that we know")),
        }
    }

    fn encode<T: Serialize>(&self, value: &T) -> Vec<u8> {
        let value = postcard::to_allocvec(value).expect("a state has nothing that cannot be told");
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(crc32fast::hash(&value).to_le_bytes());
        bytes.extend(value);
        bytes
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        create_parent_directory(&self.path)?;
        write(&self.path, bytes, Visibility::Owner)
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

/// Decodes a little-endian number of four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte))
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
            let error = file.decode::<Vec<u64>>(&bytes[..length]).unwrap_err();
            assert!(matches!(error, StateError::Damaged { .. }), "{length}: {error}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(file.decode::<Vec<u64>>(&bytes).is_err(), "bit {bit}");
        }
        let newer = StateFile { version: 4, ..file };
        let error = newer.decode::<Vec<u64>>(&bytes).unwrap_err().to_string();
        assert!(error.contains("has version 3 and this nodeward reads version 4"), "{error}");
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
