//! Rounds of a balancer that does nothing, as of `nodeward balance --dry-run`: what it would do,
//! and why.

use std::sync::Arc;

use nodeward_balancer::{BalanceSettings, Balancer, RoundReport, Undecided};
use nodeward_machine::{Machine, Result};
use nodeward_model::{Pid, ProcessFilter};
use nodeward_mover::MoveControl;

use crate::results::observation::{FollowedProcess, Unseen};

/// A balancer and its last round.
pub struct BalancerRounds {
    machine: Arc<dyn Machine>,
    subject: Option<Pid>,
    balancer: Result<Balancer>,
    due_ns: u64,
    last: Option<RoundReport>,
}

impl BalancerRounds {
    /// Begins. All processes are taken into account, also if one is watched: the time that nodes
    /// have for it depends on the others.
    pub fn new(
        machine: &Arc<dyn Machine>,
        settings: BalanceSettings,
        subject: Option<Pid>,
    ) -> Self {
        let wanted = ProcessFilter::default();
        let mut balancer = Balancer::new(Arc::clone(machine), &wanted, settings, None);
        if let (Ok(balancer), Some(pid)) = (&mut balancer, subject) {
            balancer.sample_first(pid);
        }
        let machine = Arc::clone(machine);
        Self { due_ns: machine.now_ns(), machine, subject, balancer, last: None }
    }

    /// Makes a round, if the balancer's own interval since the last one is over. If one fails,
    /// there are no further ones.
    pub fn round_if_due(&mut self, control: &MoveControl) {
        let Ok(balancer) = &mut self.balancer else { return };
        if self.machine.now_ns() < self.due_ns {
            return;
        }
        match balancer.round(control) {
            Ok(report) => {
                self.due_ns = report.at_ns.saturating_add(report.interval_ns);
                // A fast round decides nothing, and neither does the first one.
                if !report.fast && report.round > 1 {
                    self.last = Some(report);
                }
            }
            Err(error) => self.balancer = Err(error),
        }
    }

    /// Returns what could not be decided.
    pub fn unseen(&self) -> Vec<Unseen> {
        let why = match (&self.balancer, &self.last) {
            (Err(error), _) => error.to_string(),
            (Ok(_), None) => {
                "the watch was too short: loads are what happens between two looks".to_owned()
            }
            (Ok(_), Some(_)) => return Vec::new(),
        };
        vec![Unseen { what: "what the balancer would do".to_owned(), why }]
    }

    /// Returns the last round, with the rows of the followed processes alone, and why there is none
    /// for the one process.
    pub fn into_estimate(
        self,
        followed: &[FollowedProcess],
    ) -> (Option<RoundReport>, Option<Undecided>) {
        let has_row = |report: &RoundReport, pid| report.processes.iter().any(|it| it.pid == pid);
        let undecided = match (self.subject, &self.balancer, &self.last) {
            (Some(pid), Ok(balancer), Some(report)) if !has_row(report, pid) => {
                Some(balancer.why_undecided(pid))
            }
            _ => None,
        };
        let estimate = self.last.map(|mut report| {
            let is_followed = |pid: Pid| followed.iter().any(|process| process.pid == pid);
            report.processes.retain(|row| is_followed(row.pid));
            report
        });
        (estimate, undecided)
    }
}
