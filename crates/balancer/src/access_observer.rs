//! The source of accesses: which one is open, which processes it observes, and how hard.
//!
//! A source is opened when the first process needs one, and observes those that need it only. It
//! is the first of the machine's that works: a machine lists the cheapest first. While none works
//! the observer tries again now and then, because a privilege may come.

use nodeward_machine::{
    AccessBatch, AccessSampling, AccessSource, AccessSourceKind, AccessSourceStatus, Error,
    Machine, Result,
};
use nodeward_model::Pid;

use super::settings::AccessChoice;

/// Number of samples that a period collects on all CPUs together, whatever its length: enough for
/// ranges of a thousandth of the memory.
const SAMPLES_PER_PERIOD: u64 = 8_000;
/// Lowest and highest rate, in samples a second on each CPU. A watched program does not feel the
/// lowest, and feels the highest for seconds only.
const RATES_HZ: [u64; 2] = [100, 1_000];
/// The observer looks for a source again after this time, in nanoseconds.
const RETRY_NS: u64 = 60_000_000_000;

/// The open source, or why there is none.
#[derive(Default)]
pub struct AccessObserver {
    source: Option<Box<dyn AccessSource>>,
    sampling: AccessSampling,
    /// Time at which no source worked, by the machine's clock, and the reason.
    failure: Option<(u64, String)>,
}

impl AccessObserver {
    /// Observes the processes `pids` from now on, for periods of `period_ns` and on about `cpus`
    /// CPUs. An empty list closes the source.
    pub fn observe(
        &mut self,
        machine: &dyn Machine,
        choice: AccessChoice,
        pids: Vec<Pid>,
        (period_ns, cpus): (u64, u64),
    ) {
        let rate_hz = settled_hz(self.sampling.rate_hz, rate_hz(period_ns, cpus));
        let sampling = AccessSampling { pids, rate_hz };
        if sampling.pids.is_empty() || !self.is_chosen(choice) {
            *self = Self::default();
        }
        if sampling.pids.is_empty() || sampling == self.sampling || self.is_too_early(machine) {
            return;
        }
        let known = self.source.take().and_then(|source| still_observing(source, &sampling));
        self.source = known.or_else(|| self.open(machine, choice, &sampling));
        self.sampling = if self.source.is_some() { sampling } else { AccessSampling::default() };
    }

    /// Takes the accesses since the last call; `None` while there is no source.
    pub fn take(&mut self) -> Option<AccessBatch> {
        match self.source.as_mut()?.take() {
            Ok(batch) => Some(batch),
            Err(error) => {
                tracing::debug!(%error, "the source of accesses ended");
                *self = Self::default();
                None
            }
        }
    }

    /// Returns the kind of the open source; `None` if no source is open.
    pub fn kind(&self) -> Option<AccessSourceKind> {
        self.source.as_ref().map(|source| source.kind())
    }

    /// Returns the reason for which there is no source, if one was wanted.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_ref().map(|(_, why)| why.as_str())
    }

    fn is_chosen(&self, choice: AccessChoice) -> bool {
        self.kind().is_none_or(|kind| choice.allows(kind))
    }

    fn is_too_early(&self, machine: &dyn Machine) -> bool {
        let passed = |at_ns: u64| machine.now_ns().saturating_sub(at_ns);
        self.failure.as_ref().is_some_and(|(at_ns, _)| passed(*at_ns) < RETRY_NS)
    }

    /// Opens the first source that observes these processes. That they ended says nothing about
    /// sources.
    fn open(
        &mut self,
        machine: &dyn Machine,
        choice: AccessChoice,
        sampling: &AccessSampling,
    ) -> Option<Box<dyn AccessSource>> {
        let mut why = None;
        for status in machine.access_sources().iter().filter(|it| choice.allows(it.kind)) {
            match opened(machine, status, sampling) {
                Ok(source) => {
                    self.failure = None;
                    return Some(source);
                }
                Err(None) => return None,
                Err(Some(obstacle)) => {
                    why.get_or_insert(format!("{}: {obstacle}", status.kind));
                }
            }
        }
        let why = why.unwrap_or_else(|| choice.why_none().to_owned());
        self.failure = Some((machine.now_ns(), why));
        None
    }
}

/// Opens a source; fails with the obstacle, or with `None` if the processes ended.
fn opened(
    machine: &dyn Machine,
    status: &AccessSourceStatus,
    sampling: &AccessSampling,
) -> std::result::Result<Box<dyn AccessSource>, Option<String>> {
    if let Some(obstacle) = &status.obstacle {
        return Err(Some(obstacle.clone()));
    }
    let open = || -> Result<Box<dyn AccessSource>> {
        let mut source = machine.open_access_source(status.kind)?;
        source.observe(sampling)?;
        Ok(source)
    };
    open().map_err(|error: Error| (!error.is_gone()).then(|| error.to_string()))
}

/// Asks the source to observe the processes of `sampling`; `None` if it cannot.
fn still_observing(
    mut source: Box<dyn AccessSource>,
    sampling: &AccessSampling,
) -> Option<Box<dyn AccessSource>> {
    match source.observe(sampling) {
        Ok(()) => Some(source),
        Err(error) => {
            tracing::debug!(%error, "the source of accesses observes no longer");
            None
        }
    }
}

/// Returns the rate at which a period of this length collects [`SAMPLES_PER_PERIOD`] on `cpus`
/// CPUs.
fn rate_hz(period_ns: u64, cpus: u64) -> u32 {
    let hz = SAMPLES_PER_PERIOD * 1_000_000_000 / period_ns.max(1) / cpus.max(1);
    u32::try_from(hz.clamp(RATES_HZ[0], RATES_HZ[1])).unwrap_or(u32::MAX)
}

/// The rate to go on with: the present one unless the wanted one is half as high again, or the
/// other way round. Samples of another rate stand for another time, so a change drops those of the
/// period; loads waver more than that is worth.
fn settled_hz(now: u32, wanted: u32) -> u32 {
    let is_near = now * 2 <= wanted * 3 && wanted * 2 <= now * 3;
    if is_near { now } else { wanted }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess};

    use super::*;

    /// Goal: a load that wavers by a third changes no rate; a period of twice the length does.
    #[test]
    fn a_rate_stays_while_loads_waver() {
        let rate = |cpus| rate_hz(1_000_000_000, cpus);
        assert_eq!([rate(16), rate(12), rate(20)], [500, 666, 400]);
        assert_eq!([666, 400].map(|wanted| settled_hz(500, wanted)), [500, 500]);
        assert_eq!(settled_hz(500, rate_hz(2_000_000_000, 16)), 250);
        assert_eq!([settled_hz(0, 500), settled_hz(250, 500)], [500, 500]);
    }

    /// Goal: a short period samples at the highest rate, a long one at the lowest; between them the
    /// number of samples is the same. (8,000 samples of 4 CPUs in 4 s are 500 a second on each.)
    #[test]
    fn a_period_has_its_samples() {
        let rates = [1, 2, 4, 20, 64].map(|seconds| rate_hz(seconds * 1_000_000_000, 4));
        assert_eq!(rates, [1_000, 1_000, 500, 100, 100]);
        assert_eq!(
            [1, 16, 64, 128].map(|cpus| rate_hz(1_000_000_000, cpus)),
            [1_000, 500, 125, 100]
        );
        assert_eq!(rate_hz(0, 0), 1_000);
    }

    /// Goal: that a process ended before it could be observed is not taken for the lack of a
    /// source: the next one is observed at once.
    #[test]
    fn who_ended_lacks_no_source() {
        let machine = FakeMachine::new(false);
        machine.add_accesses(&[], 1_000_000); // from now on there is a source
        let [ended, running] = [7, 8].map(|pid| Pid::new(pid).unwrap());
        machine.spawn(running, FakeProcess::with_pages(&[]));
        let mut observer = AccessObserver::default();
        let mut observe = |pid| {
            observer.observe(&machine, AccessChoice::default(), vec![pid], (1_000_000_000, 1));
            (observer.kind().is_some(), observer.failure().map(str::to_owned))
        };
        assert_eq!(observe(ended), (false, None));
        assert_eq!(observe(running), (true, None));
    }
}
