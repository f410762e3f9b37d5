//! The error of a file of a process's directory.

use std::io;
use std::path::{Path, PathBuf};

use nodeward_machine::Error;
use nodeward_model::Pid;

/// Returns the error of a file of a process's directory in /proc. That is missing when the process
/// has ended, and, as our own then is, where /proc is not mounted.
pub fn file_error(pid: Pid, path: PathBuf, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::Gone(pid),
        io::ErrorKind::NotFound if Path::new("/proc/self").exists() => Error::Gone(pid),
        _ if source.raw_os_error() == Some(libc::ESRCH) => Error::Gone(pid),
        _ => Error::Read { path, source },
    }
}
