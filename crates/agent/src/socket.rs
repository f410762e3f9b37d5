//! The socket of the agent: made by it, or handed over by a service manager.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nodeward_files::{Visibility, make_directory};
use nodeward_model::Escape as _;
use rustix::fs::{Mode, OFlags};

pub use nodeward_call::AGENT_SOCKET as DEFAULT_PATH;

/// The reasons for which there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path names a file that is no socket.
    #[error("{} is no socket; remove it, or name another balance.socket", .0.escaped())]
    NoSocket(PathBuf),
    /// Another program listens at the path.
    #[error("another program listens at {}; end it, or name another balance.socket", .0.escaped())]
    InUse(PathBuf),
    /// The socket cannot be made.
    #[error("cannot listen at {}; name another balance.socket, or none", path.escaped())]
    Failed {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
}

/// The users that may connect. The kernel's word on who they are decides about each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketAccess {
    /// The mode of the file; connecting takes the right to write.
    pub mode: u32,
    /// The group of the file; `None` for the agent's group.
    pub group: Option<u32>,
}

/// A socket file that was made here, and is removed when this is dropped if it still is the same.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Held, so that no other file gets its inode if somebody removes it.
    file: File,
}

impl SocketFile {
    fn hold(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { path: path.to_owned(), file: file.into() })
    }

    fn is_there(&self) -> io::Result<bool> {
        let (held, now) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        Ok((held.dev(), held.ino()) == (now.dev(), now.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there().unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes a socket. One that a killed agent left is replaced: a socket at which nobody answers.
///
/// # Errors
/// If something else is there, somebody listens, or the file cannot be made.
pub fn listen(
    path: &Path,
    access: SocketAccess,
) -> Result<(UnixListener, SocketFile), SocketError> {
    let failed = |source| SocketError::Failed { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        make_directory(folder, Visibility::Everyone).map_err(failed)?;
    }
    remove_stale(path)?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    // At once: from here on others can see the file, and replace it.
    let file = SocketFile::hold(path).map_err(failed)?;
    if let Some(group) = access.group {
        std::os::unix::fs::lchown(path, None, Some(group)).map_err(failed)?;
    }
    // Until here the umask has decided. Nobody is admitted by mistake: rights are only added.
    fs::set_permissions(path, fs::Permissions::from_mode(access.mode)).map_err(failed)?;
    Ok((listener, file))
}

/// Returns the listening socket that a service manager handed over, if any: sd_listen_fds(3), the
/// first descriptor. `variable` reads the environment.
///
/// # Errors
/// If the descriptor is none, or is not a socket that can listen.
pub fn handed_over(
    variable: impl Fn(&str) -> Option<String>,
    descriptor: impl Fn(i32) -> io::Result<OwnedFd>,
) -> io::Result<Option<UnixListener>> {
    const FIRST: i32 = 3;
    let number = |name| variable(name)?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    if !is_ours || number("LISTEN_FDS").unwrap_or(0) == 0 {
        return Ok(None);
    }
    let listener = UnixListener::from(descriptor(FIRST)?);
    // Fails for what is no Unix socket.
    listener.local_addr()?;
    Ok(Some(listener))
}

fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Failed { path: path.to_owned(), source };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NoSocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(SocketError::InUse(path.to_owned())),
        // Nobody knows whether it is served.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(failed(error)),
        // A datagram socket, for example, is somebody's all the same.
        Err(_) => Err(SocketError::InUse(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCESS: SocketAccess = SocketAccess { mode: 0o640, group: None };

    /// Goal: a socket has the mode that was asked for, and is removed at the end; one that nobody
    /// serves is replaced, one that is served is not.
    #[test]
    fn a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/agent.sock");
        let (listener, file) = listen(&path, ACCESS).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(matches!(listen(&path, ACCESS), Err(SocketError::InUse(_))));
        drop(listener);
        let (_listener, again) = listen(&path, ACCESS).unwrap();
        drop(file);
        assert!(path.exists(), "the new file is not the one that the first agent made");
        drop(again);
        assert!(!path.exists());
    }

    /// Goal: a socket that another program puts there in place of ours at once, so that a file
    /// system may give it the inode and the time of ours, stays.
    #[test]
    fn a_socket_of_others_in_our_place_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        for _ in 0..100 {
            let (_listener, file) = listen(&path, ACCESS).unwrap();
            fs::remove_file(&path).unwrap();
            let _theirs = UnixListener::bind(&path).unwrap();
            drop(file);
            fs::remove_file(&path).unwrap();
        }
    }

    /// Goal: what is no socket stays, and is named.
    #[test]
    fn other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("precious");
        fs::write(&file, "x").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link, &folder.path().to_owned()] {
            let error = listen(path, ACCESS).unwrap_err();
            assert!(error.to_string().contains("is no socket"), "{error}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    }

    /// Goal: a descriptor is taken if it was handed to this very process.
    #[test]
    fn a_socket_is_handed_over() {
        let folder = tempfile::tempdir().unwrap();
        let made = UnixListener::bind(folder.path().join("socket")).unwrap();
        let take = |pid: u32, count: &str| {
            let variable = |name: &str| match name {
                "LISTEN_PID" => Some(pid.to_string()),
                "LISTEN_FDS" => Some(count.to_owned()),
                _ => None,
            };
            let descriptor = |number| {
                assert_eq!(number, 3);
                made.try_clone().map(OwnedFd::from)
            };
            handed_over(variable, descriptor).unwrap().is_some()
        };
        assert!(take(std::process::id(), "1"));
        assert!(!take(std::process::id() + 1, "1"));
        assert!(!take(std::process::id(), "0"));
    }
}
