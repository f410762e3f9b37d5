//! Test bodies of the records of threads that start and end.
//!
//! Other threads of the process may start and end meanwhile, so bodies look at the records of the
//! threads that they know. A thread may be seen to be gone a moment before its end is recorded, so
//! they take several times, and count that instead of reading a clock.

use nodeward_model::Pid;

use crate::{Machine, ThreadRecord, ThreadRecords};

/// The input of a test body.
pub struct ThreadRecordFixture<'a> {
    /// The machine, which lets its caller open the records.
    pub machine: &'a dyn Machine,
    /// A running process.
    pub pid: Pid,
    /// The thread that starts others.
    pub starter: u32,
    /// Lets the starter start a thread, that one another one, and both end. Returns their tids.
    pub start_chain: &'a dyn Fn() -> [u32; 2],
}

/// A test body.
pub type ThreadRecordTest = fn(&ThreadRecordFixture<'_>);

/// All bodies of this module, by name.
pub const ALL: [(&str, ThreadRecordTest); 3] = [
    ("starts_are_told_in_their_order", starts_are_told_in_their_order),
    ("nothing_is_told_twice", nothing_is_told_twice),
    ("nothing_from_before_is_told", nothing_from_before_is_told),
];

/// Limit on the takes until both ends are told, and the pause between two.
const TAKES_MAX: usize = 3000;
const PAUSE_NS: u64 = 20_000_000;

impl ThreadRecordFixture<'_> {
    fn open(&self) -> Box<dyn ThreadRecords> {
        self.machine.open_thread_records().expect("the records can be opened")
    }

    /// Takes the records of threads of the process until the last of these have ended; returns
    /// those about these.
    fn take_until_ended(
        &self,
        records: &mut dyn ThreadRecords,
        tids: &[u32],
        last: &[u32],
    ) -> Vec<ThreadRecord> {
        let mut seen = Vec::new();
        for _ in 0..TAKES_MAX {
            let batch = records.take();
            assert_eq!(batch.lost, 0, "there was room");
            seen.extend(batch.records.into_iter().filter(|it| is_about(it, self.pid, tids)));
            let has_ended = |&tid: &u32| seen.contains(&ThreadRecord::Ended { pid: self.pid, tid });
            if last.iter().all(has_ended) {
                return seen;
            }
            self.machine.sleep_ns(PAUSE_NS);
        }
        panic!("in {TAKES_MAX} takes {last:?} never ended: {seen:?}");
    }

    fn is_start(&self, record: &ThreadRecord) -> bool {
        matches!(record, ThreadRecord::Started { pid, .. } if *pid == self.pid)
    }
}

fn is_about(record: &ThreadRecord, process: Pid, tids: &[u32]) -> bool {
    let (ThreadRecord::Started { pid, tid, .. } | ThreadRecord::Ended { pid, tid }) = *record;
    pid == process && tids.contains(&tid)
}

/// What had started before a take is told by it, with its starter, and a starter before those that
/// it started.
fn starts_are_told_in_their_order(fixture: &ThreadRecordFixture<'_>) {
    let mut records = fixture.open();
    let tids @ [one, two] = (fixture.start_chain)();
    let pid = fixture.pid;
    let batch = records.take();
    let starts: Vec<_> = batch
        .records
        .iter()
        .copied()
        .filter(|it| fixture.is_start(it) && is_about(it, pid, &tids))
        .collect();
    let expected = [
        ThreadRecord::Started { pid, tid: one, starter: fixture.starter },
        ThreadRecord::Started { pid, tid: two, starter: one },
    ];
    assert_eq!((starts.as_slice(), batch.lost), (&expected[..], 0));
}

/// Each start and each end is told once.
fn nothing_is_told_twice(fixture: &ThreadRecordFixture<'_>) {
    let mut records = fixture.open();
    let first = (fixture.start_chain)();
    let mut seen = fixture.take_until_ended(&mut *records, &first, &first);
    let second = (fixture.start_chain)();
    let all = [first, second].concat();
    seen.extend(fixture.take_until_ended(&mut *records, &all, &second));
    assert_eq!(seen.len(), 8, "two starts and two ends of each chain: {seen:?}");
}

/// What started before the records were opened is not told, and what started while none were open
/// neither. Only ends may be recorded late.
fn nothing_from_before_is_told(fixture: &ThreadRecordFixture<'_>) {
    drop(fixture.open());
    let before = (fixture.start_chain)();
    let mut records = fixture.open();
    let after = (fixture.start_chain)();
    let all = [before, after].concat();
    let seen = fixture.take_until_ended(&mut *records, &all, &after);
    let starts = seen.iter().filter(|it| fixture.is_start(it)).count();
    assert_eq!(starts, 2, "{seen:?}");
}
