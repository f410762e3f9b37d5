//! Records of threads that start and end, of all processes: the task records of perf, from a dummy
//! event on each CPU.

use std::path::Path;

use nodeward_machine::{Result, ThreadRecord, ThreadRecordBatch, ThreadRecords};
use nodeward_model::{Cpumask, Pid};
use rustix::time::{ClockId, clock_gettime};

use crate::access::probe::{self, PerfUse};
use crate::access::records::{RingRecord, ThreadEvent, records};
use crate::access::ring::Ring;
use crate::access::rings::cpu_rings;
use crate::confinement::PrivilegedAction;
use crate::sys::PerfAttributes;
use crate::sysfs;

/// All rings together, in bytes, and one of them at most. A record takes 32 bytes, and a process
/// two: 256 KiB are 4,096 programs that start and end on a CPU between two takes, and half of what
/// a user may lock for a CPU (`perf_event_mlock_kb`).
const RINGS_BYTES: usize = 32 << 20;
const RING_BYTES_MAX: usize = 256 << 10;

const THREADS: PerfUse = PerfUse {
    action: "recording which thread starts which",
    lacking: "this kernel's perf has no event for it (Linux 4.1 or later has)",
    attempt: PrivilegedAction::PerfEventOfAll,
};

/// Open records.
#[derive(Debug)]
pub struct PerfThreadRecords {
    rings: Vec<Ring>,
    /// What was read too early to be told.
    later: Vec<ThreadEvent>,
    /// What was copied out of one ring; kept, so that it is allocated once.
    words: Vec<u64>,
}

/// Checks that records of threads work here, on one CPU and with the smallest ring.
///
/// # Errors
/// `Denied` or `Unsupported`.
pub fn probe() -> Result<()> {
    let first = sysfs::online_cpus(Path::new("/"))?.first().into_iter().collect();
    PerfThreadRecords::open_on(&first, rustix::param::page_size()).map(drop)
}

impl PerfThreadRecords {
    /// Opens them on all CPUs that are online.
    ///
    /// # Errors
    /// `Denied` or `Unsupported`.
    pub fn open() -> Result<Self> {
        let cpus = sysfs::online_cpus(Path::new("/"))?;
        Self::open_on(&cpus, ring_bytes(cpus.iter().count(), rustix::param::page_size()))
    }

    fn open_on(cpus: &Cpumask, bytes: usize) -> Result<Self> {
        let rings = cpu_rings(cpus, PerfAttributes::of_tasks(), bytes);
        let rings = rings.map_err(|error| probe::error(error, &THREADS))?;
        Ok(Self { rings, later: Vec::new(), words: Vec::new() })
    }
}

/// Returns the bytes of each of `rings` rings: a power of two, and at least a page.
fn ring_bytes(rings: usize, page_bytes: usize) -> usize {
    let share = (RINGS_BYTES / rings.max(1)).min(RING_BYTES_MAX).max(page_bytes);
    1 << share.ilog2()
}

impl ThreadRecords for PerfThreadRecords {
    /// Rings are read one after the other. What a ring tells from after the beginning may have its
    /// cause in one that was read before, so it waits for the next call.
    fn take(&mut self) -> ThreadRecordBatch {
        let (began_ns, mut lost) = (monotonic_ns(), 0_u64);
        let mut due = std::mem::take(&mut self.later);
        for ring in &mut self.rings {
            self.words.clear();
            lost += u64::from(!ring.take(&mut self.words));
            for record in records(&self.words, 0) {
                match record {
                    RingRecord::Thread(event) if event.at_ns <= began_ns => due.push(event),
                    RingRecord::Thread(event) => self.later.push(event),
                    RingRecord::Lost(count) => lost = lost.saturating_add(count),
                    RingRecord::Sample(_) | RingRecord::Other => {}
                }
            }
        }
        due.sort_by_key(|event| event.at_ns);
        ThreadRecordBatch { records: due.iter().filter_map(record).collect(), lost }
    }
}

/// Returns an event as a record; `None` for one of another pid namespace, and for a process that
/// was started.
fn record(event: &ThreadEvent) -> Option<ThreadRecord> {
    let &ThreadEvent { has_started, pid, tid, starter_pid, starter, .. } = event;
    let is_thread = pid == starter_pid;
    let pid = Pid::new(pid).ok()?;
    match has_started {
        true => is_thread.then_some(ThreadRecord::Started { pid, tid, starter }),
        false => Some(ThreadRecord::Ended { pid, tid }),
    }
}

/// Returns the time of the clock that the events have.
fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: rings share 32 MiB: up to 128 CPUs have 256 KiB each, 200 have 160 KiB, so 128, and
    /// 1024 have 32 KiB; however many there are, a ring has a page.
    #[test]
    fn rings_share_the_memory() {
        let kib = |cpus| ring_bytes(cpus, 4096) >> 10;
        assert_eq!([1, 128, 200, 1024, 100_000].map(kib), [256, 256, 128, 32, 4]);
        assert_eq!(ring_bytes(1 << 30, 64 << 10), 64 << 10);
    }

    /// Goal: a thread is told with its starter, an end as one; a process that is started is none,
    /// and neither is what another pid namespace has (0).
    #[test]
    fn threads_are_told_from_processes() {
        let event = |has_started, pid, starter_pid| ThreadEvent {
            has_started,
            pid,
            tid: 9,
            starter_pid,
            starter: 8,
            at_ns: 0,
        };
        let pid = Pid::new(7).unwrap();
        let told = [event(true, 7, 7), event(false, 7, 1), event(true, 7, 6), event(true, 0, 0)];
        let expected = [
            Some(ThreadRecord::Started { pid, tid: 9, starter: 8 }),
            Some(ThreadRecord::Ended { pid, tid: 9 }),
            None,
            None,
        ];
        assert_eq!(told.map(|it| record(&it)), expected);
    }
}
