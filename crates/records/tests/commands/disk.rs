//! Goal: a state directory that cannot be written, and a full disk, give an error with a remedy;
//! earlier records stay valid.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use nodeward_records::ledger::{LedgerError, LedgerStore, OperationState, StoreLimits};

use crate::processes::{RAN_INSIDE, run_in_mount};
use crate::support::{end, header, id, runs, store};

/// Returns the kind of the error below an error of the ledger.
fn cause(error: &LedgerError) -> Option<ErrorKind> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<Arc<io::Error>>().map(|source| source.kind())
}

fn store_in(dir: &Path) -> LedgerStore {
    LedgerStore::new(dir.to_owned(), StoreLimits::default())
}

fn refusal(dir: &Path) -> (ErrorKind, String) {
    let error = store_in(dir).begin(&header(1)).err().expect("nothing can begin here");
    assert!(matches!(error, LedgerError::Directory { .. }), "{error}");
    (cause(&error).unwrap(), error.to_string())
}

#[test]
fn a_directory_that_cannot_be_made() {
    let (dir, _) = store();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let (kind, error) = refusal(&file.join("ledger"));
    assert_eq!(kind, ErrorKind::NotADirectory);
    assert!(error.contains("file/ledger; make the directory (mkdir -p"), "{error}");
    // No user can make files in /proc, not even root.
    refusal(Path::new("/proc/nodeward"));
}

#[test]
fn a_directory_without_permission() {
    let (dir, store) = store();
    store.begin(&header(1)).unwrap().end(&end()).unwrap();
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        println!("skipped: permission bits do not bind root");
        return;
    }
    fs::set_permissions(dir.path().join("lock"), Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o500)).unwrap();
    let (kind, error) = refusal(dir.path());
    assert_eq!(kind, ErrorKind::PermissionDenied);
    assert!(error.contains("; make it writable for you, or"), "{error}");
    assert_eq!(store.read(id(1)).unwrap().state, OperationState::Ended(end()), "reading goes on");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
}

/// Goal: on a read-only file system, operations are listed and none begins.
#[test]
fn a_read_only_file_system() {
    run_in_mount("disk::a_read_only_file_system", |dir, remount| {
        let store = store_in(dir);
        store.begin(&header(1)).unwrap().end(&end()).unwrap();
        remount("ro");
        let (kind, error) = refusal(dir);
        assert_eq!(kind, ErrorKind::ReadOnlyFilesystem);
        assert!(error.contains("; its file system is read-only: make it writable"), "{error}");
        assert_eq!(store.read(id(1)).unwrap().state, OperationState::Ended(end()));
        assert_eq!(store.list().unwrap().len(), 1);
        println!("{RAN_INSIDE}");
    });
}

/// Goal: on a disk that becomes full during an operation, whole records stay, the operation is
/// marked as not complete, and the error stays the same when there is room again.
#[test]
fn a_full_disk() {
    run_in_mount("disk::a_full_disk", |dir, remount| {
        let store = store_in(dir);
        let mut writer = store.begin(&header(1)).unwrap();
        let run = |number: u64| runs(&[(10 * number, 5, 0, 1)]);
        let mut written = 0;
        let error = loop {
            match writer.intend(0, run(written)) {
                // If this fails, so does the next intent.
                Ok(ticket) => drop(writer.settle(ticket, Some(run(written)))),
                Err(error) => break error,
            }
            written += 1;
        };
        assert_eq!(cause(&error), Some(ErrorKind::StorageFull));
        assert!(error.to_string().ends_with("1.ledger; free space there"), "{error}");
        let full = store.begin(&header(1)).err().expect("no room for another one");
        assert!(full.to_string().ends_with("; free space there"), "{full}");

        remount("size=1m");
        let again = writer.intend(0, run(0)).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
        let last = writer.end(&end()).unwrap_err();
        assert_eq!(last.to_string(), error.to_string());
        let operation = store.read(id(1)).unwrap();
        assert_eq!((&operation.state, &operation.damage), (&OperationState::Interrupted, &None));
        assert!(!operation.is_complete);
        assert_eq!(operation.moved_pages() + operation.open_pages(), 5 * written);
        assert!(operation.open_pages() <= 5 && written > 500, "{written}");
        println!("{RAN_INSIDE}");
    });
}
