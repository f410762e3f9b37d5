//! Small ledgers, and pages one by one to compare them with.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use nodeward_model::{Account, Identity, NodeId, Pid, SkipReason};
use nodeward_wire::ledger::{End, Error, Header, Id, Limits, Operation, Runs, Store, Writer};
use tempfile::TempDir;

pub const PAGE: u64 = 4096;

/// An empty store in a directory of its own.
pub fn store() -> (TempDir, Store) {
    store_with(Limits::default())
}

pub fn store_with(limits: Limits) -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path().to_owned(), limits);
    (dir, store)
}

pub fn id(number: u64) -> Id {
    number.to_string().parse().unwrap()
}

pub fn header(processes: u32) -> Header {
    let identity = |pid| Identity {
        pid: Pid::new(pid).unwrap(),
        name: "db".to_owned(),
        boot: "b0".to_owned(),
        started_ticks: 300,
        program: 7,
    };
    Header {
        page_bytes: PAGE,
        began_unix_ms: 1000,
        command: ["nodeward", "move", "1", "0", "1"].map(str::to_owned).into(),
        processes: (1..=processes).map(identity).collect(),
        undoes: None,
    }
}

pub fn end() -> End {
    let account = Account { moved: 6, already_there: 1, skipped: [(SkipReason::Pinned, 2)].into() };
    End { account, interrupted: false, ended_unix_ms: 2000 }
}

/// Runs of (number of the first page, pages, from, to).
pub fn runs(of: &[(u64, u64, u32, u32)]) -> Runs {
    let mut runs = Runs::new(PAGE);
    for &(first, pages, from, to) in of {
        runs.push(first * PAGE, pages, NodeId(from), NodeId(to));
    }
    runs
}

/// Each page and the way it went.
pub type Pages = BTreeSet<(u64, NodeId, NodeId)>;

pub fn pages(runs: &Runs) -> Pages {
    let each = |start: u64, pages| (0..pages).map(move |n| start / PAGE + n);
    let of_run = |run: nodeward_wire::ledger::Run| {
        each(run.start, run.pages).map(move |page| (page, run.from, run.to))
    };
    runs.iter().flat_map(of_run).collect()
}

/// Reads bytes as if they were a file that nobody locks.
pub fn decode(bytes: &[u8]) -> Result<Operation, Error> {
    Operation::decode(id(1), Path::new("1.ledger"), bytes, false)
}

/// A small operation of two processes, and the size of its file after each record: the header, two
/// intents, the second settled in part, the first in whole, an intent that stays open, the end.
pub fn small() -> (Vec<u8>, Vec<usize>) {
    let (dir, store) = store();
    let mut writer = store.begin(&header(2)).unwrap();
    let mut sizes = vec![size(&dir, &writer)];
    let path = file(&dir, &writer);
    let first = writer.intend(0, runs(&[(1000, 4, 0, 1)])).unwrap();
    sizes.push(size(&dir, &writer));
    let second = writer.intend(1, runs(&[(50, 2, 0, 1), (60, 1, 2, 1)])).unwrap();
    sizes.push(size(&dir, &writer));
    writer.settle(second, runs(&[(51, 1, 0, 1), (60, 1, 2, 1)])).unwrap();
    sizes.push(size(&dir, &writer));
    writer.settle(first, runs(&[(1000, 4, 0, 1)])).unwrap();
    sizes.push(size(&dir, &writer));
    let _open = writer.intend(0, runs(&[(2000, 3, 0, 1)])).unwrap();
    sizes.push(size(&dir, &writer));
    writer.end(&end()).unwrap();
    let bytes = fs::read(path).unwrap();
    sizes.push(bytes.len());
    (bytes, sizes)
}

pub fn file(dir: &TempDir, writer: &Writer) -> std::path::PathBuf {
    dir.path().join(format!("{}.ledger", writer.id()))
}

pub fn size(dir: &TempDir, writer: &Writer) -> usize {
    fs::metadata(file(dir, writer)).unwrap().len().try_into().unwrap()
}

/// The kind of the error below an error of the ledger.
pub fn cause(error: &Error) -> Option<io::ErrorKind> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<std::sync::Arc<io::Error>>().map(|source| source.kind())
}
