//! The lab's cache of downloaded and generated files.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Shared memory, which holds snapshots while there is room.
const SHARED_MEMORY: &str = "/dev/shm";
/// Free shared memory in bytes required for a snapshot and a run or two.
const SHM_FREE_BYTES_MIN: u64 = 2 << 30;

/// The lab's directories.
#[derive(Debug, Clone)]
pub struct LabCache {
    root: PathBuf,
}

impl LabCache {
    /// Opens the cache of this user: `$NODEWARD_LAB_CACHE`, or `nodeward/lab` in the user's cache
    /// directory.
    pub fn open() -> Result<Self> {
        let named = std::env::var_os("NODEWARD_LAB_CACHE").map(PathBuf::from);
        let root = named.or_else(default_root).context("neither $NODEWARD_LAB_CACHE nor $HOME")?;
        fs::create_dir_all(&root).with_context(|| {
            format!("cannot make {}: set NODEWARD_LAB_CACHE to a directory you own", root.display())
        })?;
        Ok(Self { root: root.canonicalize()? })
    }

    /// Returns the directory that holds everything but snapshots in shared memory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a directory of the cache, created if missing.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(dir)
    }

    /// Takes the lock of this name, and waits for it. The lock ends with the file.
    pub fn lock(&self, name: &str) -> Result<File> {
        lock(&self.dir("locks")?.join(name))
    }

    /// Removes everything but the locks, which others may hold.
    pub fn remove_all(&self) -> Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("locks") {
                let removed = fs::remove_dir_all(&path);
                removed.with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Returns the directory for snapshots: in shared memory if there is room, else in the cache.
    pub fn snapshots(&self) -> Result<PathBuf> {
        match shm_dir() {
            Ok(dir) if shm_has_room() => Ok(dir),
            _ => self.dir("snapshots"),
        }
    }

    /// Returns all directories that may hold snapshots.
    pub fn snapshot_dirs(&self) -> Vec<PathBuf> {
        [shm_dir().ok(), self.dir("snapshots").ok()].into_iter().flatten().collect()
    }
}

fn default_root() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = given.filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    Some(caches.or_else(home)?.join("nodeward/lab"))
}

/// Opens a lock file and waits for the lock.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// Returns this user's directory in shared memory; no other user may own or read it.
fn shm_dir() -> Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let dir = Path::new(SHARED_MEMORY).join(format!("nodeward-lab-{user}"));
    if !dir.exists() {
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&dir)?;
    }
    let meta = fs::symlink_metadata(&dir)?;
    ensure!(meta.is_dir() && meta.uid() == user && meta.mode().trailing_zeros() >= 6);
    Ok(dir)
}

fn shm_has_room() -> bool {
    let stat = rustix::fs::statvfs(SHARED_MEMORY);
    stat.is_ok_and(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) >= SHM_FREE_BYTES_MIN)
}

/// Returns a text that identifies a file and its version, without reading the content.
pub(crate) fn file_fingerprint(path: &Path) -> Result<String> {
    let meta = fs::metadata(path).with_context(|| format!("cannot find {}", path.display()))?;
    let (seconds, nanoseconds) = (meta.mtime(), meta.mtime_nsec());
    Ok(format!("{} {} {seconds}.{nanoseconds:09}", path.display(), meta.len()))
}

/// Returns a short name for a text. Two texts may share one: callers that rely on it keep the text
/// as well.
pub(crate) fn hash_name(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
