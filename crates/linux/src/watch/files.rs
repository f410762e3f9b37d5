//! Small kernel files that are read again and again. Files stay open up to a limit: that saves two
//! thirds of the time, and an open file of a process that has exited never refers to another
//! process with the same pid.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are left for all other uses.
const RESERVED_DESCRIPTORS: u64 = 512;
/// Limit on the files that stay open: the kernel keeps some 6 KiB for each.
const OPEN_FILES_MAX: u64 = 8192;

/// The number of further files that may stay open.
#[derive(Debug)]
pub struct OpenFileBudget(AtomicUsize);

impl OpenFileBudget {
    /// Returns a limit of `places` files.
    pub fn new(places: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(places)))
    }

    /// Returns the limit of this process (RLIMIT_NOFILE, raised as far as permitted), less other
    /// uses.
    pub fn from_rlimit() -> Arc<Self> {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // If that is refused, fewer files stay open: slower, never wrong.
        setrlimit(Resource::Nofile, raised).ok();
        Self::within_rlimit()
    }

    /// Returns the limit of this process as it is, less other uses.
    pub fn within_rlimit() -> Arc<Self> {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self::new(most.saturating_sub(RESERVED_DESCRIPTORS).min(OPEN_FILES_MAX) as usize)
    }

    fn acquire(self: &Arc<Self>) -> Option<OpenFileSlot> {
        let one_less = |places: usize| places.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).ok()?;
        Some(OpenFileSlot(Arc::clone(self)))
    }
}

/// The right to keep one file open.
#[derive(Debug)]
struct OpenFileSlot(Arc<OpenFileBudget>);

impl Drop for OpenFileSlot {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A file that stays open if the limit permits it.
#[derive(Debug, Default)]
pub struct CachedFile(Option<(File, OpenFileSlot)>);

impl CachedFile {
    /// Reads all of the file. `path` is called only if it is not open.
    pub fn read<'b>(
        &mut self,
        path: impl FnOnce() -> PathBuf,
        open_files: &Arc<OpenFileBudget>,
        buffer: &'b mut FileBuffer,
    ) -> io::Result<&'b [u8]> {
        if let Some((file, _)) = &self.0 {
            return buffer.fill(file);
        }
        let file = File::open(path())?;
        let length = buffer.fill(&file)?.len();
        self.0 = open_files.acquire().map(|place| (file, place));
        Ok(&buffer.0[..length])
    }
}

/// A buffer for one file.
#[derive(Debug)]
pub struct FileBuffer(Vec<u8>);

impl Default for FileBuffer {
    fn default() -> Self {
        Self(vec![0; 8192])
    }
}

impl FileBuffer {
    /// Reads all of a file that is opened for this read only.
    pub fn read_once(&mut self, path: PathBuf) -> io::Result<&[u8]> {
        self.fill(&File::open(path)?)
    }

    fn fill(&mut self, file: &File) -> io::Result<&[u8]> {
        let mut length = 0;
        loop {
            match file.read_at(&mut self.0[length..], length as u64) {
                // The kernel writes small files in one piece; a short read is the end.
                Ok(read) if length + read < self.0.len() => return Ok(&self.0[..length + read]),
                Ok(read) => length += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.0.resize(2 * length, 0);
        }
    }
}

/// Returns true if an error means that a process, thread or group no longer exists.
pub fn is_gone(error: &io::Error) -> bool {
    let ended = [libc::ESRCH, libc::ENODEV];
    error.kind() == ErrorKind::NotFound
        || error.raw_os_error().is_some_and(|code| ended.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: files stay open up to the limit, and return their place when they are dropped.
    #[test]
    fn a_budget_has_so_many_slots() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "first").unwrap();
        let (open_files, mut buffer) = (OpenFileBudget::new(1), FileBuffer::default());
        let (mut one, mut two) = (CachedFile::default(), CachedFile::default());
        for kept in [&mut one, &mut two] {
            assert_eq!(kept.read(|| path.clone(), &open_files, &mut buffer).unwrap(), b"first");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(one.read(|| unreachable!(), &open_files, &mut buffer).unwrap(), b"first");
        assert!(is_gone(&two.read(|| path.clone(), &open_files, &mut buffer).unwrap_err()));
        drop(one);
        std::fs::write(&path, "again").unwrap();
        for _ in 0..2 {
            assert_eq!(two.read(|| path.clone(), &open_files, &mut buffer).unwrap(), b"again");
            std::fs::remove_file(&path).ok();
        }
    }

    /// Goal: a file larger than the buffer is read whole.
    #[test]
    fn large_files_are_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let text: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        std::fs::write(&path, &text).unwrap();
        assert_eq!(FileBuffer::default().read_once(path).unwrap(), text);
    }
}
