//! Watches a process, or all of them, for a time: where memory and threads are, what moves, and
//! what a balancer would do.
//!
//! A moment costs one snapshot of the processes ([`nodeward_machine::ProcessWatch`]), looks at the
//! memory of a few within a budget of CPU time, and a round of a balancer that does nothing. There
//! are 600 moments at most, so that memory is bounded, however long the watch lasts.

mod agent_watch;
mod balancer_rounds;
mod followed;
mod ledger_moves;
mod moments;
mod progress;

use std::sync::Arc;

use anyhow::Result;
use nodeward_balancer::BalanceSettings;
use nodeward_machine::{Error, Liveness, Machine, Process, ProcessWatch};
use nodeward_model::{MachineSnapshot, Pid, ProcessFilter, Topology};

use crate::results::observation::{WatchEnd, WatchReport};
use balancer_rounds::BalancerRounds;
use followed::{FollowedProcesses, LookingCost};
use moments::Moments;

pub use agent_watch::AgentWatch;
pub use ledger_moves::moves_since;
pub use progress::WatchProgress;

/// Moments at most in a watch.
const MOMENTS_MAX: u64 = 600;
/// Time from one moment to the next, at least, of a watch that lasts for ten moments or more.
const INTERVAL_NS: u64 = 1_000_000_000;
/// The same of a shorter watch.
const INTERVAL_NS_MIN: u64 = 100_000_000;
/// Maximum time between two questions whether to stop.
const NAP_NS: u64 = 100_000_000;

/// What is watched, and for how long.
pub struct WatchRequest {
    /// The process; `None` for all.
    pub subject: Option<Pid>,
    /// For how long, in nanoseconds.
    pub for_ns: u64,
    /// The settings of a balancer, by which the estimate is made; it does not act.
    pub settings: BalanceSettings,
}

/// Returns the time between two moments: a second, less in a short watch, more in a long one.
pub fn interval_ns(for_ns: u64) -> u64 {
    let short = (for_ns / 10).clamp(INTERVAL_NS_MIN, INTERVAL_NS);
    short.max(for_ns.div_ceil(MOMENTS_MAX))
}

/// Watches until the time is over, the process ends, or it is asked to stop. What the ledger and an
/// agent know is left to the caller.
///
/// # Errors
/// If the process or the machine cannot be seen at the beginning.
pub fn observe(
    machine: &Arc<dyn Machine>,
    request: WatchRequest,
    live: &WatchProgress,
) -> Result<WatchReport> {
    let mut observer = WatchRun::begin(machine, request)?;
    let end = observer.watch(live)?;
    observer.end(end)
}

/// A watch that goes on.
struct WatchRun {
    machine: Arc<dyn Machine>,
    subject: Option<Arc<dyn Process>>,
    topology: Topology,
    watch: Box<dyn ProcessWatch>,
    moments: Moments,
    followed: FollowedProcesses,
    rounds: BalancerRounds,
    began_ns: u64,
    for_ns: u64,
    interval_ns: u64,
}

impl WatchRun {
    fn begin(machine: &Arc<dyn Machine>, request: WatchRequest) -> Result<Self> {
        let WatchRequest { subject, for_ns, settings } = request;
        let topology = machine.topology()?;
        let pids: Vec<Pid> = subject.into_iter().collect();
        let held = subject.map(|pid| machine.open_process(pid)).transpose()?;
        let watch = machine.watch(&ProcessFilter { pids, ..ProcessFilter::default() })?;
        Ok(Self {
            moments: Moments::new(machine.page_bytes()),
            followed: FollowedProcesses::new(subject),
            rounds: BalancerRounds::new(machine, settings, subject),
            machine: Arc::clone(machine),
            subject: held,
            topology,
            watch,
            began_ns: machine.now_ns(),
            for_ns,
            interval_ns: interval_ns(for_ns),
        })
    }

    fn watch(&mut self, live: &WatchProgress) -> Result<WatchEnd> {
        loop {
            let at_ns = self.elapsed_ns();
            let is_last = at_ns >= self.for_ns;
            let is_there = self.look(at_ns, is_last, live)?;
            live.update(at_ns, self.followed.len());
            if !is_there {
                return Ok(WatchEnd::Gone);
            }
            if is_last {
                return Ok(WatchEnd::Time);
            }
            self.sleep_until((at_ns + self.interval_ns).min(self.for_ns), live);
            if live.is_stopped() {
                self.look(self.elapsed_ns(), true, live)?;
                return Ok(WatchEnd::Stopped);
            }
        }
    }

    /// Looks at everything once. Returns false if the process is no longer there.
    fn look(&mut self, at_ns: u64, is_last: bool, live: &WatchProgress) -> Result<bool> {
        let snapshot = self.watch.snapshot()?;
        self.check_permission(&snapshot)?;
        let activity = self.followed.see(at_ns, &snapshot, &self.topology);
        let is_edge = is_last || self.moments.is_empty();
        let cost = LookingCost { interval_ns: self.interval_ns, is_edge };
        self.followed.look(&*self.machine, at_ns, cost, live.control());
        let local_ppm = self.followed.local_ppm();
        self.moments.add(at_ns, &snapshot, activity, local_ppm);
        self.rounds.round_if_due(live.control());
        let is_running = |held: &Arc<dyn Process>| held.liveness() == Liveness::Running;
        Ok(self.subject.as_ref().is_none_or(is_running))
    }

    /// A process that may not be watched is an error, not a page without content.
    fn check_permission(&self, snapshot: &MachineSnapshot) -> Result<()> {
        let Some(pid) = self.subject.as_ref().map(|held| held.pid()) else { return Ok(()) };
        match snapshot.denied.iter().find(|(denied, _)| *denied == pid) {
            Some((_, remedy)) => {
                let (action, remedy) = (format!("watching process {pid}"), remedy.clone());
                Err(Error::Denied { action, remedy }.into())
            }
            None => Ok(()),
        }
    }

    fn elapsed_ns(&self) -> u64 {
        self.machine.now_ns().saturating_sub(self.began_ns)
    }

    fn sleep_until(&self, at_ns: u64, live: &WatchProgress) {
        while !live.is_stopped() {
            let left_ns = at_ns.saturating_sub(self.elapsed_ns());
            if left_ns == 0 {
                return;
            }
            self.machine.sleep_ns(left_ns.min(NAP_NS));
            live.update(self.elapsed_ns(), self.followed.len());
        }
    }

    fn end(self, end: WatchEnd) -> Result<WatchReport> {
        let watched_ns = self.moments.last_ns();
        let mut unseen = self.moments.unseen();
        unseen.extend(self.followed.unseen());
        unseen.extend(self.rounds.unseen());
        let unfollowed = self.followed.unfollowed();
        let processes = self.followed.into_processes(&self.topology);
        let (estimate, undecided) = self.rounds.into_estimate(&processes);
        Ok(WatchReport {
            subject: self.subject.map(|held| held.pid()),
            scenario: None,
            began_unix_ms: 0,
            asked_ns: self.for_ns,
            watched_ns,
            interval_ns: self.interval_ns,
            end,
            access_sources: self.machine.access_sources(),
            topology: self.topology,
            moments: self.moments.into_all(),
            processes,
            unfollowed,
            moves: Vec::new(),
            decisions: None,
            estimate,
            undecided,
            unseen,
        })
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
    use nodeward_model::{CpuId, NodeId, Page};

    use super::*;
    use crate::progress::StoppableWork as _;

    const SECOND: u64 = 1_000_000_000;

    /// Goal: a moment a second, more of a short watch, and 600 at most of a long one.
    #[test]
    fn moments_are_chosen_by_length() {
        let seconds = |seconds: u64| interval_ns(seconds * SECOND);
        assert_eq!([seconds(30), seconds(600), seconds(3600)], [SECOND, SECOND, 6 * SECOND]);
        assert_eq!([seconds(2), seconds(1)], [SECOND / 5, SECOND / 10]);
        assert_eq!(interval_ns(1), INTERVAL_NS_MIN);
        let year = 365 * 86_400 * SECOND;
        assert!(year.div_ceil(interval_ns(year)) <= MOMENTS_MAX);
    }

    /// A process with 300 of 400 pages on node 1, whose thread runs half the time on node 0.
    fn machine(pid: Pid) -> Arc<dyn Machine> {
        let machine = FakeMachine::with_topology(true, "2n 2c 1t 4GiB");
        let pages: Vec<_> = (0..400).map(|i| Page::on(NodeId(u32::from(i >= 100)))).collect();
        let thread = FakeThread::new(CpuId(0), "0-3".parse().unwrap(), 500);
        let process = FakeProcess {
            name: "worker".into(),
            threads: [(pid.number(), thread)].into(),
            ..FakeProcess::with_pages(&pages)
        };
        machine.spawn(pid, process);
        Arc::new(machine)
    }

    fn request(subject: Option<Pid>) -> WatchRequest {
        let settings = BalanceSettings { act: false, ..BalanceSettings::default() };
        WatchRequest { subject, for_ns: 10 * SECOND, settings }
    }

    /// Goal: a watch of ten seconds has eleven moments, CPU time by node, memory by node and kind,
    /// the local share, and what the process would gain.
    #[test]
    fn a_process_is_watched() {
        let pid = Pid::new(7).unwrap();
        let live = WatchProgress::new(10 * SECOND);
        let seen = observe(&machine(pid), request(Some(pid)), &live).unwrap();
        assert_eq!((seen.end, seen.moments.len()), (WatchEnd::Time, 11));
        assert_eq!(seen.watched_ns, 10 * SECOND);
        let second = &seen.moments[1];
        assert_eq!(second.cpu_ns, [(NodeId(0), 500_000_000)].into());
        assert_eq!(second.local_ppm, Some(250_000)); // 100 of 400 pages
        let process = seen.process().unwrap();
        assert_eq!(process.looks.len(), 11);
        assert_eq!(process.memory(), Some(&[(NodeId(0), 409_600), (NodeId(1), 1_228_800)].into()));
        let gain = process.gain.as_ref().unwrap();
        assert_eq!((gain.destination, gain.misplaced_bytes), (NodeId(0), 1_228_800));
        assert!(seen.estimate.is_some(), "two rounds can decide");
    }

    /// Goal: a watch that is asked to stop ends at once with what was seen; a process that is not
    /// there is an error.
    #[test]
    fn a_watch_ends_early() {
        let pid = Pid::new(7).unwrap();
        let live = WatchProgress::new(10 * SECOND);
        live.stop();
        let seen = observe(&machine(pid), request(None), &live).unwrap();
        assert_eq!((seen.end, seen.moments.len(), seen.watched_ns), (WatchEnd::Stopped, 2, 0));
        let gone = observe(&machine(pid), request(Pid::new(8).ok()), &live).map(|_| ());
        assert!(gone.unwrap_err().to_string().contains("process 8 is gone"));
    }
}
