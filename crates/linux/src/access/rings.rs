//! The rings of one event: one for each CPU, which then covers all processes, or one for each
//! thread of the observed processes where only that is permitted.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::{Cpumask, Pid};

use super::probe::{self, ACCESSES};
use super::records::{RingRecord, Sample, records};
use super::ring::{Ring, RingError};
use crate::load;
use crate::sys::{PerfAttributes, PerfEvent, PerfScope};
use crate::sysfs;

/// Limit on the threads with an event of their own: file descriptors, and 0.1 ms for all of them
/// each time that samples are taken.
const THREADS_MAX: usize = 512;

/// The rings of an event, which are open as long as this lives.
#[derive(Debug)]
pub struct Rings {
    event: PerfEvent,
    scope: Scope,
    /// What was copied out of one ring; kept, so that it is allocated once.
    words: Vec<u64>,
}

#[derive(Debug)]
enum Scope {
    Cpus(Vec<Ring>),
    Threads(ThreadRings),
}

impl Rings {
    /// Opens an event on all CPUs or, where that is refused, on the threads of these processes. A
    /// ring holds `bytes`, a power of two and at least a page; those of threads less, so that many
    /// fit into what a user may have.
    ///
    /// # Errors
    /// `Denied` or `Unsupported` if no thread can be observed.
    pub fn open(event: PerfEvent, bytes: usize, pids: &[Pid]) -> Result<Self> {
        let cpus = sysfs::online_cpus(Path::new("/"))?;
        let scope = match cpu_rings(&cpus, event.attributes(), bytes) {
            Ok(rings) => Scope::Cpus(rings),
            Err(error) if probe::is_refusal(&error) => {
                Scope::Threads(ThreadRings::open(event, bytes, pids)?)
            }
            Err(error) => return Err(probe::error(error, &ACCESSES)),
        };
        Ok(Self { event, scope, words: Vec::new() })
    }

    /// Returns the event.
    pub fn event(&self) -> PerfEvent {
        self.event
    }

    /// Takes all samples out of the rings; returns the number of those that were lost.
    pub fn take(&mut self, mut sample: impl FnMut(&Sample<'_>)) -> u64 {
        let registers = self.event.registers.count_ones() as usize;
        let rings: Box<dyn Iterator<Item = &mut Ring>> = match &mut self.scope {
            Scope::Cpus(rings) => Box::new(rings.iter_mut()),
            Scope::Threads(threads) => Box::new(threads.rings.values_mut()),
        };
        let mut lost = 0;
        for ring in rings {
            self.words.clear();
            lost += u64::from(!ring.take(&mut self.words));
            for record in records(&self.words, registers) {
                match record {
                    RingRecord::Sample(one) => sample(&one),
                    RingRecord::Lost(count) => lost = lost.saturating_add(count),
                    RingRecord::Thread(_) | RingRecord::Other => {}
                }
            }
        }
        lost
    }

    /// Observes the present threads of these processes, and no others. Returns the number of those
    /// that are not observed because a limit is reached.
    pub fn follow(&mut self, pids: impl Iterator<Item = Pid>) -> u64 {
        match &mut self.scope {
            // All threads are seen anyway.
            Scope::Cpus(_) => 0,
            Scope::Threads(threads) => threads.follow(self.event, pids).unseen,
        }
    }

    /// Closes the events of a process that called exec: its first thread may be another one now.
    pub fn close(&mut self, pid: Pid) {
        if let Scope::Threads(threads) = &mut self.scope {
            threads.rings.retain(|&(owner, _), _| owner != pid);
        }
    }
}

/// Opens an event on each of these CPUs.
///
/// # Errors
/// That of the first CPU that refuses.
pub fn cpu_rings(
    cpus: &Cpumask,
    event: PerfAttributes,
    bytes: usize,
) -> std::result::Result<Vec<Ring>, RingError> {
    let mut rings = Vec::new();
    for cpu in cpus.iter() {
        match Ring::open(event, PerfScope::Cpu(cpu.0), bytes) {
            Ok(ring) => rings.push(ring),
            // It was taken offline meanwhile.
            Err(RingError::Event(error)) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

/// The rings of threads.
#[derive(Debug)]
struct ThreadRings {
    rings: BTreeMap<(Pid, u32), Ring>,
    /// Bytes of each ring.
    bytes: usize,
    /// Bytes of a ring if there are few threads.
    wanted_bytes: usize,
}

/// The result of opening events on threads.
#[derive(Debug, Default)]
struct Following {
    unseen: u64,
    refusal: Option<RingError>,
}

impl ThreadRings {
    fn open(event: PerfEvent, bytes: usize, pids: &[Pid]) -> Result<Self> {
        let mut new = Self { rings: BTreeMap::new(), bytes, wanted_bytes: bytes };
        match new.follow(event, pids.iter().copied()).refusal {
            Some(refusal) if new.rings.is_empty() => Err(probe::error(refusal, &ACCESSES)),
            _ => Ok(new),
        }
    }

    fn follow(&mut self, event: PerfEvent, pids: impl Iterator<Item = Pid>) -> Following {
        let thread_ids = |pid| load::thread_ids(Path::new("/"), pid).into_iter();
        let present: BTreeSet<_> =
            pids.flat_map(|pid| thread_ids(pid).map(move |tid| (pid, tid.number()))).collect();
        // Threads that ended free their memory before others get theirs.
        self.rings.retain(|key, _| present.contains(key));
        self.fit(present.len());
        let mut result = Following::default();
        for key in present {
            self.observe(event, key, &mut result);
        }
        result
    }

    /// Makes rings as small as it takes for this number of threads. Those that had others are
    /// opened anew; they were emptied just before.
    fn fit(&mut self, threads: usize) {
        let fitting = ring_bytes(probe::locked_bytes_max(), threads, rustix::param::page_size());
        let bytes = fitting.min(self.wanted_bytes);
        if bytes != self.bytes {
            self.rings.clear();
            self.bytes = bytes;
        }
    }

    fn observe(&mut self, event: PerfEvent, key: (Pid, u32), result: &mut Following) {
        if self.rings.contains_key(&key) {
            return;
        }
        if self.rings.len() >= THREADS_MAX || result.refusal.is_some() {
            result.unseen += 1;
            return;
        }
        match Ring::open(event.attributes(), PerfScope::Thread(key.1), self.bytes) {
            Ok(ring) => drop(self.rings.insert(key, ring)),
            Err(RingError::Event(error)) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(refusal) => {
                result.unseen += 1;
                result.refusal = Some(refusal);
            }
        }
    }
}

/// Returns the bytes of a ring of which each of `threads` threads can have one: a power of two, at
/// least a page. Each has another page beside its records.
fn ring_bytes(budget: u64, threads: usize, page_bytes: usize) -> usize {
    let share = budget / threads.clamp(1, THREADS_MAX) as u64;
    let records = usize::try_from(share).unwrap_or(usize::MAX).saturating_sub(page_bytes);
    let power = records.checked_ilog2().map_or(0, |bits| 1 << bits);
    power.max(page_bytes)
}

impl From<RingError> for io::Error {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Event(source) | RingError::Memory(source) => source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: rings of all threads fit into the budget of 1032 KiB (516 for each of two CPUs). 1
    /// thread gets 1032 - 4 = 1028, so 1024; 8 get 129 - 4 = 125 each, so 64; 100 get 10 - 4 = 6,
    /// so 4; 1000 get a page each, though only some of them will be opened.
    #[test]
    fn rings_of_threads_share_the_budget() {
        let kib = |threads| ring_bytes(1032 << 10, threads, 4096) >> 10;
        assert_eq!([0, 1, 8, 100, 1000].map(kib), [1024, 1024, 64, 4, 4]);
        assert_eq!(ring_bytes(0, 1, 4096), 4096);
        assert_eq!(ring_bytes(u64::MAX, 1, 4096), 1 << 63);
    }
}
