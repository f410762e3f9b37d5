//! Stores in directories of their own, and records for tests.

use nodeward_model::{Account, Name, NodeId, Pid, ProcessIdentity, SkipReason};
use nodeward_records::ledger::{
    Header, LedgerStore, MovedRuns, OperationEnd, OperationId, StoreLimits,
};
use tempfile::TempDir;

pub const PAGE: u64 = 4096;

/// Returns an empty store in a directory of its own.
pub fn store() -> (TempDir, LedgerStore) {
    store_with(StoreLimits::default())
}

pub fn store_with(limits: StoreLimits) -> (TempDir, LedgerStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = LedgerStore::new(dir.path().to_owned(), limits);
    (dir, store)
}

pub fn id(number: u64) -> OperationId {
    number.to_string().parse().unwrap()
}

pub fn header(processes: u32) -> Header {
    let identity = |pid| ProcessIdentity {
        pid: Pid::new(pid).unwrap(),
        name: "db".into(),
        boot_id: "b0".to_owned(),
        started_ticks: 300,
        auxv_checksum: 7,
    };
    Header {
        page_bytes: PAGE,
        began_unix_ms: 1000,
        command: ["nodeward", "move", "1", "0", "1"].map(Name::from).into(),
        processes: (1..=processes).map(identity).collect(),
        undoes: None,
    }
}

pub fn end() -> OperationEnd {
    let account = Account { moved: 6, already_there: 1, skipped: [(SkipReason::Pinned, 2)].into() };
    OperationEnd { account, interrupted: false, ended_unix_ms: 2000 }
}

/// Returns runs of (number of the first page, pages, from, to).
pub fn runs(of: &[(u64, u64, u32, u32)]) -> MovedRuns {
    let mut runs = MovedRuns::new(PAGE);
    for &(first, pages, from, to) in of {
        runs.push(first * PAGE, pages, NodeId(from), NodeId(to));
    }
    runs
}
