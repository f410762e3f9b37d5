//! The error of a file of a process's directory.

use std::io;
use std::path::PathBuf;

use nodeward_machine::Error;
use nodeward_model::Pid;

/// Returns the error of a read from an open file of a process's directory.
pub fn file_error(pid: Pid, path: PathBuf, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound => Error::Gone(pid),
        _ if source.raw_os_error() == Some(libc::ESRCH) => Error::Gone(pid),
        _ => Error::Read { path, source },
    }
}
