//! Goal: only regular files are opened as files, and new ones have the given mode.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nodeward_files::{
    Visibility, check_place, create, create_new, is_not_regular_file, make_directory, open,
    open_or_create, read, replace, write,
};

/// A longer wait counts as endless.
const TIMEOUT: Duration = Duration::from_secs(60);

fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    mknodat(CWD, &name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Returns the error of an attempt, which must not wait.
fn error_in_time<T: Send + 'static>(
    attempt: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Error {
    in_time(attempt).err().expect("an error")
}

/// Returns the outcome of an attempt, which must not wait.
fn in_time<T: Send + 'static>(
    attempt: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    let (tell, heard) = mpsc::channel();
    thread::spawn(move || tell.send(attempt()));
    heard.recv_timeout(TIMEOUT).expect("it waits")
}

/// Goal: an object that is no regular file is refused without a wait, with its kind, by each way to
/// open one.
#[test]
fn only_files_are_opened_as_files() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    fifo(&place("fifo"));
    fs::create_dir(place("directory")).unwrap();
    let _listener = UnixListener::bind(place("socket")).unwrap();
    let names = ["fifo", "directory", "socket"].map(place);
    let kinds = ["a pipe (FIFO)", "a directory", "a socket"].into_iter();
    for (path, kind) in names.into_iter().chain(["/dev/zero".into()]).zip(kinds.chain(["a device"]))
    {
        let expected = format!("it is {kind}, and must be a regular file");
        let ways: [Box<dyn Fn(PathBuf) -> std::io::Error>; 3] = [
            Box::new(|path| error_in_time(move || open(File::options().append(true), &path))),
            Box::new(|path| error_in_time(move || read(&path, 10))),
            Box::new(|path| error_in_time(move || open_or_create(&path, Visibility::Owner))),
        ];
        for way in ways {
            let error = way(path.clone());
            assert_eq!(error.to_string(), expected, "{}", path.display());
            assert!(is_not_regular_file(&error));
        }
    }
    assert!(!is_not_regular_file(&error_in_time(move || read(Path::new("/no/such/file"), 10))));
}

/// Goal: a link to a file is a file for readers, but not for files that nodeward writes for its
/// owner; /dev/null is an empty file.
#[test]
fn links_and_null() {
    let dir = tempfile::tempdir().unwrap();
    let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
    fs::write(&file, "settings").unwrap();
    symlink(&file, &link).unwrap();
    assert_eq!(read(&link, 100).unwrap(), b"settings");
    assert_eq!(read(&link, 3).unwrap(), b"set", "no more than was asked for");
    let error = open_or_create(&link, Visibility::Owner).unwrap_err();
    assert_eq!(error.to_string(), "it is a symbolic link, and must be a regular file");
    open_or_create(&link, Visibility::Everyone).unwrap();
    assert_eq!(read(Path::new("/dev/null"), 100).unwrap(), b"");
}

/// Goal: a reader of a file that is written anew has the old one to its end; a link to it stays a
/// link; nothing else is left in the directory, also if nothing can be written; a pipe is written
/// to.
#[test]
fn a_file_is_replaced_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let [file, link, nowhere] = ["page", "link", "not/there"].map(|name| dir.path().join(name));
    fs::write(&file, "old").unwrap();
    symlink(&file, &link).unwrap();
    let mut reader = File::open(&file).unwrap();
    check_place(&link, Visibility::Everyone).unwrap();
    write(&link, "new", Visibility::Everyone).unwrap();
    let mut seen = String::new();
    reader.read_to_string(&mut seen).unwrap();
    assert_eq!((seen.as_str(), fs::read(&file).unwrap()), ("old", b"new".to_vec()));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    for refused in
        [write(&nowhere, "text", Visibility::Everyone), check_place(&nowhere, Visibility::Everyone)]
    {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
    }
    let refused = check_place(dir.path(), Visibility::Everyone).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::IsADirectory);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let pipe = format!("/proc/self/fd/{}", writer.as_raw_fd());
    write(Path::new(&pipe), "text", Visibility::Everyone).unwrap();
    drop(writer);
    let mut seen = String::new();
    reader.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "text");
}

/// Goal: in a directory of others a new file takes the place of a link, without touching what that
/// leads to, and of a pipe, without waiting for its reader; nothing is left if it cannot.
#[test]
fn a_name_of_others_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let [precious, link, pipe, directory] =
        ["precious", "link", "pipe", "directory"].map(|name| dir.path().join(name));
    fs::write(&precious, "of others").unwrap();
    symlink(&precious, &link).unwrap();
    fifo(&pipe);
    fs::create_dir(&directory).unwrap();
    for path in [link, pipe] {
        let place = path.clone();
        in_time(move || replace(&place, "new", Visibility::Everyone)).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file(), "{}", path.display());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "of others");
    replace(&directory, "new", Visibility::Everyone).unwrap_err();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
}

/// Marks the run of a test with a umask of 0, which applies to the whole process.
const UMASK_CHILD: &str = "NODEWARD_FILES_TEST_ALONE";

/// Goal: under a umask of 0 each file and directory has the given mode; a file that others could
/// write, made by an earlier version, is the owner's afterwards.
#[test]
fn modes_are_said() {
    if std::env::var_os(UMASK_CHILD).is_none() {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "modes_are_said", "--nocapture"]).env(UMASK_CHILD, "1");
        assert!(again.status().unwrap().success());
        return;
    }
    rustix::process::umask(rustix::fs::Mode::empty());
    let dir = tempfile::tempdir().unwrap();
    for (whose, file_mode, directory_mode) in
        [(Visibility::Owner, 0o600, 0o700), (Visibility::Everyone, 0o644, 0o755)]
    {
        let base = dir.path().join(format!("{whose:?}/deep"));
        make_directory(&base, whose).unwrap();
        create(&base.join("created"), whose).unwrap();
        create_new(&base.join("new"), whose).unwrap();
        write(&base.join("written"), "text", whose).unwrap();
        open_or_create(&base.join("made"), whose).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        for directory in [&base, base.parent().unwrap()] {
            assert_eq!(mode(directory), directory_mode, "{}", directory.display());
        }
        for entry in fs::read_dir(&base).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), file_mode, "{}", path.display());
        }
        let old = base.join("written");
        fs::set_permissions(&old, fs::Permissions::from_mode(0o666)).unwrap();
        open_or_create(&old, Visibility::Owner).unwrap();
        assert_eq!(mode(&old), 0o600);
    }
}
