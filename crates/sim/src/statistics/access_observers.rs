//! The sources of accesses that are open, and what each of them has seen.

use std::collections::BTreeMap;

use nodeward_machine::{AccessBatch, AccessSampling, AccessSourceKind};
use nodeward_model::{AccessSample, Pid};
use nodeward_policy::sampling::SplitMix64;

/// Limit on the samples that wait to be taken; further ones are lost.
const SAMPLES_MAX: usize = 1 << 18;

/// An open source.
#[derive(Debug)]
pub struct OpenAccessSource {
    kind: AccessSourceKind,
    sampling: AccessSampling,
    /// When it began to observe what it does now.
    since_ns: u64,
    batch: AccessBatch,
    /// Draws of its own: the run goes on as if nobody had drawn.
    pub rng: SplitMix64,
}

impl OpenAccessSource {
    /// Whether it observes a process.
    pub fn wants(&self, pid: Pid) -> bool {
        self.sampling.pids.binary_search(&pid).is_ok()
    }

    /// Returns the time from one sample of a CPU to the next, in nanoseconds; without a rate it
    /// never ends.
    pub fn interval_ns(&self) -> u64 {
        1_000_000_000_u64.checked_div(self.sampling.rate_hz.into()).map_or(u64::MAX, |ns| ns.max(1))
    }

    /// Returns how many samples one of `cpus` CPUs takes in a span of time. Each takes them at its
    /// own times.
    pub fn ticks(&self, (cpu, cpus): (usize, usize), from_ns: u64, to_ns: u64) -> u64 {
        let interval_ns = self.interval_ns();
        let phase_ns = interval_ns / cpus.max(1) as u64 * cpu as u64;
        let until = |ns: u64| ns.saturating_add(phase_ns) / interval_ns;
        until(to_ns).saturating_sub(until(from_ns.max(self.since_ns)))
    }

    /// Adds an access, if there is room.
    pub fn push(&mut self, sample: AccessSample) {
        match self.batch.samples.len() < SAMPLES_MAX {
            true => self.batch.samples.push(sample),
            false => self.batch.lost += 1,
        }
    }

    /// Adds samples that told no address.
    pub fn push_without_address(&mut self, count: u64) {
        self.batch.without_address += count;
    }

    /// Adds an access that got lost.
    pub fn push_lost(&mut self) {
        self.batch.lost += 1;
    }
}

/// All of them, by number.
#[derive(Debug, Default)]
pub struct AccessObservers {
    next: u64,
    open: BTreeMap<u64, OpenAccessSource>,
}

impl AccessObservers {
    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens a source, which observes nothing yet. All that it draws comes from `seed`. Returns its
    /// number.
    pub fn open(&mut self, kind: AccessSourceKind, seed: u64) -> u64 {
        self.next += 1;
        let observer = OpenAccessSource {
            kind,
            sampling: AccessSampling::default(),
            since_ns: 0,
            batch: AccessBatch::default(),
            rng: SplitMix64::new(seed ^ self.next),
        };
        self.open.insert(self.next, observer);
        self.next
    }

    /// Closes a source.
    pub fn close(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// Lets a source observe these processes from now on, and no others. Samples of another rate
    /// stand for another time, so they are dropped. Returns whether the processes are others than
    /// before.
    pub fn observe(&mut self, number: u64, sampling: &AccessSampling, now_ns: u64) -> bool {
        let Some(observer) = self.open.get_mut(&number) else { return false };
        if observer.sampling.rate_hz != sampling.rate_hz {
            observer.batch = AccessBatch::default();
        }
        let is_new = observer.sampling.pids != sampling.pids;
        observer.sampling = sampling.clone();
        observer.since_ns = now_ns;
        is_new
    }

    /// Takes what a source has seen since the last time.
    pub fn take(&mut self, number: u64) -> AccessBatch {
        let Some(open) = self.open.get_mut(&number) else { return AccessBatch::default() };
        let is_timer = open.kind == AccessSourceKind::Registers && open.sampling.rate_hz > 0;
        let sample_ns = is_timer.then(|| open.interval_ns());
        AccessBatch { sample_ns, ..std::mem::take(&mut open.batch) }
    }

    /// Whether a source observes a process.
    pub fn is_wanted(&self, number: u64, pid: Pid) -> bool {
        self.open.get(&number).is_some_and(|observer| observer.wants(pid))
    }

    /// Returns the sources of a kind that observe a process.
    pub fn of(
        &mut self,
        kind: AccessSourceKind,
        pid: Pid,
    ) -> impl Iterator<Item = &mut OpenAccessSource> {
        let is_meant =
            move |observer: &&mut OpenAccessSource| observer.kind == kind && observer.wants(pid);
        self.open.values_mut().filter(is_meant)
    }
}
