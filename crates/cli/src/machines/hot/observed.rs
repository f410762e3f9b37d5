//! Sources of the machine that tell which thread uses which page.

use std::sync::Arc;

use anyhow::Result;
use nodeward_machine::{
    AccessBatch, AccessSampling, AccessSource, AccessSourceKind, AccessSourceStatus, Error,
    Liveness, Machine, Process,
};
use nodeward_model::units::format_ns;
use nodeward_model::{Access, AccessSample};

use super::source::{AccessUnit, Half, HotSource};

/// Samples a second of each CPU: what a program does not feel for seconds.
const RATE_HZ: u32 = 1_000;
/// What was tried, in errors.
const ACTION: &str = "observing accesses";
/// The time between two looks into the source, in nanoseconds, so that its buffers do not fill.
const TAKE_INTERVAL_NS: u64 = 100_000_000;

/// A source that observes for a time in nanoseconds.
pub struct ObservedSource {
    machine: Arc<dyn Machine>,
    source: Box<dyn AccessSource>,
    blind_to: &'static str,
    watch_ns: u64,
}

impl ObservedSource {
    /// Opens a source of a machine, or with no kind the first one that works.
    ///
    /// # Errors
    /// If none works, with what keeps each from it.
    pub fn open(
        machine: Arc<dyn Machine>,
        kind: Option<AccessSourceKind>,
        watch_ns: u64,
    ) -> Result<Self> {
        let mut refusals = Vec::new();
        for status in machine.access_sources().into_iter().filter(|it| is_meant(it, kind)) {
            match machine.open_access_source(status.kind) {
                Ok(source) => {
                    return Ok(Self { machine, source, blind_to: status.blind_to, watch_ns });
                }
                Err(error) => refusals.push((status.kind, error)),
            }
        }
        Err(none_works(&refusals).into())
    }

    /// Returns its kind.
    pub fn kind(&self) -> AccessSourceKind {
        self.source.kind()
    }

    /// Returns what it cannot see, in a line.
    pub fn blind_to(&self) -> &'static str {
        self.blind_to
    }

    /// Passes each sample of a process to `see`, until the time is over or `stop` says so, which is
    /// told how many nanoseconds are.
    ///
    /// # Errors
    /// If the process cannot be observed.
    pub fn watch(
        &mut self,
        process: &dyn Process,
        stop: &dyn Fn(u64) -> bool,
        see: &mut dyn FnMut(Half, &AccessSample),
    ) -> Result<AccessUnit> {
        let began_ns = self.machine.now_ns();
        let sampling = AccessSampling { pids: vec![process.pid()], rate_hz: RATE_HZ };
        self.source.observe(&sampling)?;
        let mut missed = Missed::default();
        let mut unit = AccessUnit::Counts;
        loop {
            let left_ns = self.watch_ns.saturating_sub(self.machine.now_ns() - began_ns);
            self.machine.sleep_ns(left_ns.min(TAKE_INTERVAL_NS));
            let batch = self.source.take()?;
            missed.add(&batch);
            unit = batch.sample_ns.map_or(unit, AccessUnit::Ticks);
            let is_late = batch.sample_ns.is_some() && left_ns < self.watch_ns / 2;
            let half = if is_late { Half::Second } else { Half::First };
            batch.samples.iter().for_each(|sample| see(half, sample));
            let is_stopped = stop(self.watch_ns - left_ns);
            if left_ns == 0 || is_stopped || process.liveness() != Liveness::Running {
                break;
            }
        }
        missed.report();
        Ok(unit)
    }
}

/// Returns the error of sources of which none could be opened: a missing privilege if one of them
/// lacks it, with what keeps each.
fn none_works(refusals: &[(AccessSourceKind, Error)]) -> Error {
    let told = |(kind, error): &(AccessSourceKind, Error)| match error {
        Error::Denied { remedy: why, .. } | Error::Unsupported { reason: why, .. } => {
            format!("{kind}: {why}")
        }
        error => format!("{kind}: {error}"),
    };
    let reason = refusals.iter().map(told).collect::<Vec<_>>().join("; ");
    match refusals.iter().any(|(_, error)| error.is_permission()) {
        true => Error::Denied { action: ACTION.to_owned(), remedy: reason },
        false => Error::Unsupported { action: ACTION, reason },
    }
}

/// Returns whether a source is the one that was named; if none was, whether it knows threads.
fn is_meant(status: &AccessSourceStatus, kind: Option<AccessSourceKind>) -> bool {
    kind.map_or(status.kind != AccessSourceKind::Damon, |kind| kind == status.kind)
}

impl HotSource for ObservedSource {
    fn describe(&self) -> String {
        let (time, kind) = (format_ns(self.watch_ns), self.source.kind());
        format!("watching for {time} by {kind}; not seen: {}", self.blind_to)
    }

    fn misses_per_count(&self) -> u64 {
        1
    }

    fn observe(
        mut self: Box<Self>,
        process: &dyn Process,
        stop: &dyn Fn() -> bool,
        see: &mut dyn FnMut(Half, Access),
    ) -> Result<AccessUnit> {
        self.watch(process, &|_| stop(), &mut |half, sample| see(half, sample.access))
    }
}

/// The processes and samples that a watch did not see.
#[derive(Default)]
struct Missed {
    samples: u64,
    without_address: u64,
    lost: u64,
}

impl Missed {
    fn add(&mut self, batch: &AccessBatch) {
        self.samples += batch.samples.len() as u64;
        self.without_address += batch.without_address;
        self.lost += batch.lost;
    }

    fn report(&self) {
        if self.without_address + self.lost > 0 {
            say!(
                "nodeward: {} samples named an address, {} did not, {} were lost",
                self.samples,
                self.without_address,
                self.lost
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: if one of several sources lacks only a privilege, that is the error (exit code 4), and
    /// each source has its reason.
    #[test]
    fn a_missing_privilege_is_told_first() {
        let lacks = |reason: &str| Error::Unsupported { action: ACTION, reason: reason.to_owned() };
        let denied = Error::Denied { action: ACTION.to_owned(), remedy: "run as root".to_owned() };
        let dirty = || (AccessSourceKind::SoftDirty, lacks("no such bits"));
        assert_eq!(
            none_works(&[dirty()]).to_string(),
            "observing accesses is not available here: soft-dirty: no such bits"
        );
        let both = none_works(&[dirty(), (AccessSourceKind::Registers, denied)]);
        assert!(both.is_permission());
        assert_eq!(
            both.to_string(),
            "observing accesses is not permitted: soft-dirty: no such bits; registers: run as root"
        );
    }
}
