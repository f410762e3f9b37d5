//! The loop around rounds: it waits for the next round, for new settings, or for the end.

use nodeward_machine::Result;
use nodeward_model::ProcessFilter;
use nodeward_mover::MoveControl;

use super::{BalanceSettings, Balancer, RoundReport};

/// Maximum time between two questions to the host, in nanoseconds.
const NAP_NS: u64 = 100_000_000;

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
    /// several times a second between rounds.
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

    /// Sleeps until the next event.
    fn wait(&self, host: &mut dyn Host, due_ns: u64) -> Event {
        loop {
            if let Some(event) = host.wish() {
                return event;
            }
            let left_ns = due_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return Event::RoundDue;
            }
            self.sleep_ns(left_ns.min(NAP_NS));
        }
    }
}
