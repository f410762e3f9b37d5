//! The records of threads of the fake machine that start and end.

use std::sync::{Arc, Mutex};

use super::lock::lock;
use crate::{Error, Result, ThreadRecord, ThreadRecordBatch, ThreadRecords};

/// Who records, and what waits to be taken. One at a time records.
#[derive(Debug, Default)]
pub(super) struct FakeThreadLog {
    pub(super) is_open: bool,
    /// How often records were opened.
    pub(super) opened: u64,
    /// The advice in the `Denied` error; `None` permits it.
    pub(super) denied: Option<String>,
    pub(super) waiting: ThreadRecordBatch,
}

impl FakeThreadLog {
    /// Adds a record, if somebody records.
    pub(super) fn push(&mut self, record: ThreadRecord) {
        if self.is_open {
            self.waiting.records.push(record);
        }
    }
}

/// Open records.
pub(super) struct FakeThreadRecords(Arc<Mutex<FakeThreadLog>>);

impl FakeThreadRecords {
    pub(super) fn open(shared: &Arc<Mutex<FakeThreadLog>>) -> Result<Self> {
        let mut log = lock(shared);
        if let Some(remedy) = log.denied.clone() {
            let action = "recording which thread starts which".to_owned();
            return Err(Error::Denied { action, remedy });
        }
        assert!(!log.is_open, "the records are open already");
        log.is_open = true;
        log.opened += 1;
        Ok(Self(Arc::clone(shared)))
    }
}

impl ThreadRecords for FakeThreadRecords {
    fn take(&mut self) -> ThreadRecordBatch {
        std::mem::take(&mut lock(&self.0).waiting)
    }
}

impl Drop for FakeThreadRecords {
    fn drop(&mut self) {
        let mut log = lock(&self.0);
        (log.is_open, log.waiting) = (false, ThreadRecordBatch::default());
    }
}
