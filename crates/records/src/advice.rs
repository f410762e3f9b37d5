//! Remedies for files of nodeward that cannot be read or written, by the kernel's error.

use std::io::{self, ErrorKind};

use nodeward_files::is_not_regular_file;

/// Returns the remedy for a file that cannot be written.
pub(crate) fn write_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        _ if is_not_regular_file(source) => "remove it: nodeward makes its own file there",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space there",
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            "make the directory (mkdir -p; StateDirectory=nodeward in a unit of systemd), or \
             choose another by NODEWARD_STATE_DIR"
        }
        ErrorKind::AlreadyExists => {
            "no directory stands there: remove it, or choose another by NODEWARD_STATE_DIR"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "its file system is read-only: make it writable (StateDirectory=nodeward in a unit of \
             systemd does), or choose another directory by NODEWARD_STATE_DIR"
        }
        ErrorKind::PermissionDenied => {
            "make it writable for you, or choose another directory by NODEWARD_STATE_DIR"
        }
        ErrorKind::TimedOut => "end whoever holds it (fuser tells who), or let them go on",
        _ => "choose another directory by NODEWARD_STATE_DIR",
    }
}

/// Returns the remedy for a file that cannot be read.
pub(crate) fn read_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        _ if is_not_regular_file(source) => "remove it: nodeward makes its own file there",
        ErrorKind::PermissionDenied => "run as the user who made it, or as root",
        _ => "check the file and its disk, or choose another directory by NODEWARD_STATE_DIR",
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    /// Goal: each cause has its own remedy, and only a full disk gets the advice to free space.
    #[test]
    fn each_cause_has_its_remedy() {
        for (errno, words) in [
            (Errno::NOENT, "mkdir -p"),
            (Errno::NOTDIR, "mkdir -p"),
            (Errno::EXIST, "no directory stands there: remove it"),
            (Errno::ACCESS, "make it writable for you"),
            (Errno::PERM, "make it writable for you"),
            (Errno::ROFS, "its file system is read-only"),
            (Errno::NOSPC, "free space there"),
            (Errno::DQUOT, "free space there"),
            (Errno::IO, "choose another directory by NODEWARD_STATE_DIR"),
        ] {
            let advice = write_advice(&errno.into());
            assert!(advice.contains(words), "{errno}: {advice}");
            let frees = advice.contains("free space");
            assert_eq!(frees, matches!(errno, Errno::NOSPC | Errno::DQUOT), "{errno}: {advice}");
        }
    }
}
