//! A small ledger, and sets of single pages to compare ledgers with.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nodeward_model::NodeId;
use nodeward_records::ledger::{LedgerError, LedgerWriter, MovedRun, MovedRuns, Operation};
use tempfile::TempDir;

use crate::support::{PAGE, end, header, id, runs, store};

/// Each page with its source and destination.
pub type MovedPageSet = BTreeSet<(u64, NodeId, NodeId)>;

pub fn pages(runs: &MovedRuns) -> MovedPageSet {
    let each = |start: u64, pages| (0..pages).map(move |n| start / PAGE + n);
    let of_run =
        |run: MovedRun| each(run.start, run.pages).map(move |page| (page, run.from, run.to));
    runs.iter().flat_map(of_run).collect()
}

/// Decodes bytes as a file that is not locked.
pub fn decode(bytes: &[u8]) -> Result<Operation, LedgerError> {
    Operation::decode(id(1), Path::new("1.ledger"), bytes, false)
}

/// Returns a small operation of two processes, and the size of its file after each record: the
/// header, two intents, the second settled in part, the first in whole, an intent that stays open,
/// the end.
pub fn small() -> (Vec<u8>, Vec<usize>) {
    let (dir, store) = store();
    let mut writer = store.begin(&header(2)).unwrap();
    let mut sizes = vec![size(&dir, &writer)];
    let path = file(&dir, &writer);
    let first = writer.intend(0, runs(&[(1000, 4, 0, 1)])).unwrap();
    sizes.push(size(&dir, &writer));
    let second = writer.intend(1, runs(&[(50, 2, 0, 1), (60, 1, 2, 1)])).unwrap();
    sizes.push(size(&dir, &writer));
    writer.settle(second, Some(runs(&[(51, 1, 0, 1), (60, 1, 2, 1)]))).unwrap();
    sizes.push(size(&dir, &writer));
    writer.settle(first, None).unwrap();
    sizes.push(size(&dir, &writer));
    let _open = writer.intend(0, runs(&[(2000, 3, 0, 1)])).unwrap();
    sizes.push(size(&dir, &writer));
    writer.end(&end()).unwrap();
    let bytes = fs::read(path).unwrap();
    sizes.push(bytes.len());
    (bytes, sizes)
}

pub fn file(dir: &TempDir, writer: &LedgerWriter) -> PathBuf {
    dir.path().join(format!("{}.ledger", writer.id()))
}

pub fn size(dir: &TempDir, writer: &LedgerWriter) -> usize {
    fs::metadata(file(dir, writer)).unwrap().len().try_into().unwrap()
}
