//! The open records of threads that start and end.

use std::collections::BTreeMap;

use nodeward_machine::{ThreadRecord, ThreadRecordBatch};

/// Limit on the records that wait to be taken; further ones are lost.
const RECORDS_MAX: usize = 1 << 16;

/// All open ones, by number.
#[derive(Debug, Default)]
pub struct ThreadLog {
    next: u64,
    open: BTreeMap<u64, ThreadRecordBatch>,
}

impl ThreadLog {
    /// Opens one; returns its number.
    pub fn open(&mut self) -> u64 {
        self.next += 1;
        self.open.insert(self.next, ThreadRecordBatch::default());
        self.next
    }

    /// Closes one.
    pub fn close(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes what waits for one.
    pub fn take(&mut self, number: u64) -> ThreadRecordBatch {
        self.open.get_mut(&number).map(std::mem::take).unwrap_or_default()
    }

    /// Adds a record to all, where there is room.
    pub fn push(&mut self, record: ThreadRecord) {
        for batch in self.open.values_mut() {
            match batch.records.len() < RECORDS_MAX {
                true => batch.records.push(record),
                false => batch.lost += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::Pid;

    use super::*;

    /// Goal: what finds no room is counted, once for each that records: of 65,538 records two.
    #[test]
    fn what_finds_no_room_is_lost() {
        let mut log = ThreadLog::default();
        let (one, two) = (log.open(), log.open());
        let record = ThreadRecord::Ended { pid: Pid::new(7).unwrap(), tid: 8 };
        (0..RECORDS_MAX + 2).for_each(|_| log.push(record));
        log.close(two);
        let batch = log.take(one);
        assert_eq!((batch.records.len(), batch.lost), (RECORDS_MAX, 2));
        assert_eq!([log.take(one), log.take(two)], [(); 2].map(|()| ThreadRecordBatch::default()));
    }
}
