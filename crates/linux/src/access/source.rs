//! A source of accesses whose samples are events of perf.

use std::collections::BTreeMap;

use nodeward_machine::{AccessBatch, AccessSampling, AccessSource, AccessSourceKind, Result};
use nodeward_model::{Access, AccessKind, AccessSample, Accessor, CpuId, Pid};
use rustix::time::{ClockId, clock_gettime};

use super::observed::ObservedProcess;
use super::records::Sample;
use super::rings::Rings;
use crate::sys::{PerfCounter, PerfEvent};

/// An event, and the room that its samples need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSetup {
    /// The event.
    pub event: PerfEvent,
    /// The least bytes of a ring.
    pub ring_bytes: u64,
}

/// Tells the address of a sample. Each process has a reader of its own.
pub trait SampleReader: Send {
    /// Returns the address that a sample is about, and what was done to it; `None` if it does not
    /// tell.
    fn address(
        &mut self,
        sample: &Sample<'_>,
        process: &ObservedProcess,
    ) -> Option<(u64, AccessKind)>;

    /// Prepares for the samples of another take.
    fn begin_take(&mut self) {}
}

/// The observed processes by pid, each with its reader.
type ObservedProcesses<R> = BTreeMap<u32, (ObservedProcess, R)>;

/// A source that reads samples of perf with readers of one kind.
pub struct PerfSource<R> {
    kind: AccessSourceKind,
    /// Returns the event for a rate.
    setup: Box<dyn Fn(u32) -> EventSetup + Send>,
    new_reader: Box<dyn Fn() -> R + Send>,
    processes: ObservedProcesses<R>,
    /// `None` while it is stopped.
    rings: Option<Rings>,
    /// The CPU time that is not yet reported.
    cpu_ns: u64,
}

impl<R: SampleReader> PerfSource<R> {
    /// Returns a source that observes nothing yet.
    pub fn new(
        kind: AccessSourceKind,
        setup: impl Fn(u32) -> EventSetup + Send + 'static,
        new_reader: impl Fn() -> R + Send + 'static,
    ) -> Self {
        Self {
            kind,
            setup: Box::new(setup),
            new_reader: Box::new(new_reader),
            processes: BTreeMap::new(),
            rings: None,
            cpu_ns: 0,
        }
    }

    fn begin(&mut self, sampling: &AccessSampling) -> Result<()> {
        self.hold(&sampling.pids)?;
        let setup = (self.setup)(sampling.rate_hz);
        if self.rings.as_ref().is_none_or(|rings| rings.event() != setup.event) {
            // Two sets of rings at once would be too much for a user without privileges.
            self.rings = None;
            let page_bytes = rustix::param::page_size();
            let bytes = (setup.ring_bytes as usize).next_power_of_two().max(page_bytes);
            let pids: Vec<_> = pids(&self.processes).collect();
            self.rings = Some(Rings::open(setup.event, bytes, &pids)?);
        }
        self.follow();
        Ok(())
    }

    /// Takes hold of these processes, and lets go of others.
    fn hold(&mut self, pids: &[Pid]) -> Result<()> {
        let mut before = std::mem::take(&mut self.processes);
        let mut obstacle = None;
        for &pid in pids {
            let known = before.remove(&pid.number()).filter(|(held, _)| !held.memory_is_gone());
            let held = known.map_or_else(
                || ObservedProcess::open(pid).map(|process| (process, (self.new_reader)())),
                Ok,
            );
            match held {
                Ok(held) => drop(self.processes.insert(pid.number(), held)),
                Err(error) if error.is_gone() => drop(obstacle.get_or_insert(error)),
                Err(error) => obstacle = Some(error),
            }
        }
        obstacle.filter(|_| self.processes.is_empty()).map_or(Ok(()), Err)
    }

    /// Observes threads that have started since; returns the number of those that are too many.
    fn follow(&mut self) -> u64 {
        self.rings.as_mut().map_or(0, |rings| rings.follow(pids(&self.processes)))
    }

    fn stop(&mut self) {
        self.rings = None;
        self.processes.clear();
    }

    fn read_rings(&mut self) -> AccessBatch {
        let mut batch = AccessBatch::default();
        let Some(rings) = &mut self.rings else { return batch };
        let counter = rings.event().counter;
        batch.sample_ns = sample_ns(counter);
        self.processes.values_mut().for_each(|(_, reader)| reader.begin_take());
        batch.lost = rings.take(|sample| {
            // Samples of all other processes end here.
            let Some((process, reader)) = self.processes.get_mut(&sample.pid) else { return };
            match reader.address(sample, process) {
                Some(found) => {
                    let access = access_sample(process.pid(), sample, found, accesses(counter));
                    batch.samples.push(access);
                }
                None => batch.without_address += 1,
            }
        });
        self.drop_stale(&mut batch);
        batch.threads_unseen = self.follow();
        batch
    }

    /// Drops the samples of processes that exited or called exec since they were held: they may be
    /// of another address space.
    fn drop_stale(&mut self, batch: &mut AccessBatch) {
        let is_stale = |(_, (process, _)): &(&u32, &(ObservedProcess, R))| process.memory_is_gone();
        let stale: Vec<_> = self.processes.iter().filter(is_stale).map(|(&pid, _)| pid).collect();
        for number in stale {
            let Some((process, _)) = self.processes.remove(&number) else { continue };
            let pid = process.pid();
            let before = batch.samples.len();
            batch.samples.retain(|sample| sample.pid != pid);
            batch.without_address += (before - batch.samples.len()) as u64;
            self.rings.iter_mut().for_each(|rings| rings.close(pid));
            if let Some(process) = process.after_exec() {
                self.processes.insert(number, (process, (self.new_reader)()));
            }
        }
    }

    /// Adds the CPU time of an operation to that which is reported next.
    fn measured<T>(&mut self, operation: impl FnOnce(&mut Self) -> T) -> T {
        let before = thread_cpu_ns();
        let result = operation(self);
        self.cpu_ns += thread_cpu_ns().saturating_sub(before);
        result
    }
}

impl<R: SampleReader> AccessSource for PerfSource<R> {
    fn kind(&self) -> AccessSourceKind {
        self.kind
    }

    fn observe(&mut self, sampling: &AccessSampling) -> Result<()> {
        if sampling.pids.is_empty() {
            self.stop();
            return Ok(());
        }
        let begun = self.measured(|source| source.begin(sampling));
        if begun.is_err() {
            self.stop();
        }
        begun
    }

    fn take(&mut self) -> Result<AccessBatch> {
        let batch = self.measured(Self::read_rings);
        Ok(AccessBatch { cpu_ns: std::mem::take(&mut self.cpu_ns), ..batch })
    }
}

fn pids<R>(processes: &ObservedProcesses<R>) -> impl Iterator<Item = Pid> {
    processes.values().map(|(process, _)| process.pid())
}

fn access_sample(
    pid: Pid,
    sample: &Sample<'_>,
    (address, kind): (u64, AccessKind),
    count: u64,
) -> AccessSample {
    let accessor = Accessor::Cpu(CpuId(sample.cpu));
    let access = Access { address, accessor, count };
    AccessSample { pid, tid: Some(sample.tid), kind, access }
}

/// A page that faults is used once or a million times until its next fault: it counts as the misses
/// at which the proposal of 2004 considers a move worthwhile.
const ACCESSES_PER_FAULT: u64 = 1000;

fn accesses(counter: PerfCounter) -> u64 {
    match counter {
        PerfCounter::CpuClock { .. } => 1,
        PerfCounter::PageFaults => ACCESSES_PER_FAULT,
    }
}

/// The time that a sample of a clock stands for.
fn sample_ns(counter: PerfCounter) -> Option<u64> {
    match counter {
        PerfCounter::CpuClock { period_ns } => Some(period_ns),
        PerfCounter::PageFaults => None,
    }
}

/// Returns the CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    use super::*;
    use crate::access::page_faults::FaultReader;
    use crate::access::probe::try_event;
    use crate::own_process::{AreaAdvice, AreaBacking, MappedArea};

    fn fault_source() -> PerfSource<FaultReader> {
        PerfSource::new(
            AccessSourceKind::Faults,
            |_| FaultReader::setup(),
            || FaultReader { kind: AccessKind::Unknown },
        )
    }

    fn of_own_process() -> AccessSampling {
        AccessSampling { pids: vec![Pid::new(std::process::id()).unwrap()], rate_hz: 0 }
    }

    /// Returns the pages of an area that threads of the batch faulted in, with their threads.
    fn faults_in(batch: &AccessBatch, area: &MappedArea) -> Vec<(u64, Option<u32>)> {
        let start = area.address();
        let range = start..start + area.bytes() as u64;
        let inside = batch.samples.iter().filter(|sample| range.contains(&sample.access.address));
        inside.map(|sample| ((sample.access.address - start) / 4096, sample.tid)).collect()
    }

    /// Goal: each page that a thread touches first is one fault of that thread, and none is lost.
    /// After the source is stopped it sees nothing.
    #[test]
    fn each_first_touch_is_one_fault_of_its_thread() {
        if let Err(error) = try_event(FaultReader::setup().event) {
            return eprintln!("skipped: {error}");
        }
        if rustix::param::page_size() != 4096 {
            return eprintln!("skipped: pages are not 4 KiB");
        }
        let mut source = fault_source();
        source.observe(&of_own_process()).unwrap();
        let area = MappedArea::map(500 * 4096, AreaBacking::Anonymous).unwrap();
        area.advise(AreaAdvice::BasePages).ok();
        let touch = |pages: std::ops::Range<usize>| {
            pages.for_each(|page| area.words()[page * 512].store(1, Relaxed));
            rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
        };
        let tids = thread::scope(|scope| {
            let threads = [0..200, 200..500].map(|pages| scope.spawn(|| touch(pages)));
            threads.map(|thread| thread.join().unwrap())
        });
        let batch = source.take().unwrap();
        // A user without privileges sees only threads that lived when the source last looked.
        if batch.samples.is_empty() {
            return eprintln!("skipped: only threads are observed here");
        }
        let found = faults_in(&batch, &area);
        let expected: BTreeSet<_> =
            (0..500).map(|page| (page, Some(tids[usize::from(page >= 200)]))).collect();
        assert_eq!(batch.lost, 0);
        assert_eq!((found.len(), found.into_iter().collect()), (500, expected));
        assert!(batch.cpu_ns > 0);
        source.observe(&AccessSampling::default()).unwrap();
        area.advise(AreaAdvice::Discard).unwrap();
        touch(0..500);
        let nothing = AccessBatch { cpu_ns: 0, ..source.take().unwrap() };
        assert_eq!(nothing, AccessBatch::default());
    }

    /// Goal: a ring that is too small loses samples, and says how many: every fault is told or
    /// lost. The smallest ring has 4096 bytes, room for 102 faults of 40 bytes.
    #[test]
    fn what_does_not_fit_is_counted_as_lost() {
        let event = PerfEvent { counter: PerfCounter::PageFaults, registers: 0 };
        if let Err(error) = try_event(event) {
            return eprintln!("skipped: {error}");
        }
        let mut source = PerfSource::new(
            AccessSourceKind::Faults,
            move |_| EventSetup { event, ring_bytes: 1 },
            || FaultReader { kind: AccessKind::Unknown },
        );
        source.observe(&of_own_process()).unwrap();
        let area = MappedArea::map(3000 * 4096, AreaBacking::Anonymous).unwrap();
        area.advise(AreaAdvice::BasePages).ok();
        (0..3000).for_each(|page| area.words()[page * 512].store(1, Relaxed));
        let (mut told, mut lost) = (0, 0);
        // The kernel tells what was lost when there is room again and another sample comes.
        crate::test_wait::wait_until("all faults are told or lost", || {
            let batch = source.take().unwrap();
            let touched = MappedArea::map(4096, AreaBacking::Anonymous).unwrap();
            touched.words()[0].store(1, Relaxed);
            told += faults_in(&batch, &area).len() as u64;
            lost += batch.lost;
            told + lost >= 3000
        });
        assert!(told < 3000 && lost > 0, "{told} {lost}");
    }
}
