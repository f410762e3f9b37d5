//! The loop around rounds: it waits for the next round, for new settings, or for the end.

use nodeward_machine::Result;
use nodeward_model::ProcessFilter;
use nodeward_mover::MoveControl;

use super::{BalanceSettings, Balancer, RoundReport};

/// Maximum time between two questions to the host, in nanoseconds.
const NAP_NS: u64 = 100_000_000;
/// The same while rounds are put off or the balancer stands back. Waking up costs 60 us there, a
/// hundredth of what a round costs; and a signal that ends the balancer waits so long.
const REST_NAP_NS: u64 = 500_000_000;

/// The longest time from one round to the next, in intervals: what needs no CPU time, such as a
/// changed control group, is seen then.
const INTERVALS_MAX: u64 = 10;

/// An event that ends the wait between two rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The next round is due.
    RoundDue,
    /// The settings have changed; the next round is due at once.
    Reload(Box<ProcessFilter>, Box<BalanceSettings>),
    /// The balancer has to end, with no move half-done.
    Stop,
}

/// The program that runs a balancer, such as the daemon.
pub trait Host {
    /// Returns what the program wants now, if anything. The balancer asks before each round, and
    /// at least twice a second between rounds.
    fn wish(&mut self) -> Option<Event>;

    /// Receives the report of a round.
    fn round(&mut self, report: &RoundReport);
}

impl Balancer {
    /// Makes rounds that only look until one can decide: loads are differences between two looks.
    /// Sleeps for an interval between them.
    ///
    /// # Errors
    /// As [`Balancer::round`].
    pub fn warm_up(&mut self, live: &MoveControl) -> Result<()> {
        self.round(live)?;
        self.sleep_ns(self.settings.interval_ns);
        Ok(())
    }

    /// Makes rounds until the host ends the balancer.
    ///
    /// # Errors
    /// If a round lacks something essential, such as the list of processes.
    pub fn run(&mut self, host: &mut dyn Host, live: &MoveControl) -> Result<()> {
        let mut due_ns = self.now_ns();
        loop {
            match self.wait(host, due_ns) {
                Event::Stop => {
                    self.journals.end_all(false);
                    return Ok(());
                }
                Event::Reload(wanted, settings) => {
                    self.reload(&wanted, *settings)?;
                    due_ns = self.now_ns();
                }
                Event::RoundDue => {
                    let report = self.round(live)?;
                    due_ns = report.at_ns.saturating_add(report.interval_ns);
                    host.round(&report);
                }
            }
        }
    }

    /// Sleeps until the next event. A round that is due is put off while the machine is idle.
    fn wait(&mut self, host: &mut dyn Host, mut due_ns: u64) -> Event {
        let mut nap_ns = if self.stands_back() { REST_NAP_NS } else { NAP_NS };
        loop {
            if let Some(event) = host.wish() {
                return event;
            }
            let left_ns = due_ns.saturating_sub(self.now_ns());
            if left_ns > 0 {
                self.sleep_ns(left_ns.min(nap_ns));
            } else if self.puts_off_round() {
                nap_ns = REST_NAP_NS;
                due_ns = self.now_ns().saturating_add(self.settings.interval_ns);
            } else {
                return Event::RoundDue;
            }
        }
    }

    /// Returns whether the round that is due now is put off by an interval: the machine was idle
    /// since the last one, nothing is left to do, and no program waits for what it called for.
    fn puts_off_round(&mut self) -> bool {
        let was_idle = self.idle_machine.was_idle(&*self.machine, self.nodes.cpu_count());
        let interval_ns = self.settings.interval_ns;
        let since_ns = self.last.as_ref().map(|round| self.now_ns().saturating_sub(round.at_ns));
        // Half an interval, because naps are a little longer than they should be.
        let most_ns = interval_ns.saturating_mul(INTERVALS_MAX) - interval_ns / 2;
        let is_early = since_ns.is_some_and(|ns| ns < most_ns);
        let is_calm = self.stands_back() || self.is_calm();
        let is_at_rest = self.settings.act && is_calm && self.first.is_none();
        let is_put_off =
            was_idle && is_early && is_at_rest && self.called.lock().iter().next().is_none();
        if is_put_off {
            self.processes.rested_until(self.now_ns());
        }
        is_put_off
    }
}
