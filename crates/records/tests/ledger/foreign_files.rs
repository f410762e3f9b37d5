//! Goal: an object that is no file in the place of one, or a lock that is never released, gives an
//! error with a remedy in bounded time.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nodeward_records::ledger::LedgerError;
use nodeward_records::state::{InstanceLock, StateFile};

use crate::support::{header, id, store};

/// A longer wait counts as endless.
const TIMEOUT: Duration = Duration::from_secs(60);

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Returns the result of `work`, which must end in time.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(work()));
    told.recv_timeout(TIMEOUT).expect("it waits")
}

/// Goal: a pipe in place of the lock, of an operation, of a state or of its lock is reported as a
/// pipe, with its path and the remedy, and no call waits for it.
#[test]
fn a_pipe_is_no_file_of_ours() {
    let (dir, store) = store();
    let path = |name: &str| dir.path().join(name);
    for name in ["lock", "1.ledger", "balance.state", "balance.lock"] {
        fifo(&path(name));
    }
    let begins = store.clone();
    let error = in_time(move || begins.begin(&header(1)).err()).expect("the lock is a pipe");
    let words = format!("cannot lock {}; remove it: ", path("lock").display());
    assert!(error.to_string().starts_with(&words), "{error}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "it is a pipe (FIFO), and must be a regular file");
    let error = in_time(move || store.read(id(1)).err()).expect("the operation is a pipe");
    assert!(matches!(error, LedgerError::NotALedger { .. }), "{error}");
    let state = StateFile::new(path("balance.state"), 1);
    let error = in_time(move || state.read::<u64>().err()).expect("the state is a pipe");
    assert!(error.to_string().contains("balance.state; remove it: "), "{error}");
    let lock = path("balance.lock");
    let error = in_time(move || InstanceLock::acquire(&lock).err()).expect("the lock is a pipe");
    assert!(error.to_string().contains("balance.lock; remove it: "), "{error}");
}

/// Goal: a command that keeps the lock, because it was stopped for example, does not stop all
/// others.
#[test]
fn a_lock_that_is_kept_is_told() {
    let (dir, store) = store();
    let lock = File::create(dir.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let begins = store.clone();
    let error = in_time(move || begins.begin(&header(1)).err()).expect("somebody has the lock");
    assert!(error.to_string().contains("lock; end whoever holds it"), "{error}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "another command has held it for 10 s");
    drop(lock);
    store.begin(&header(1)).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the lock and one operation");
}
