//! A balancer with groups on a machine on which things go wrong: it is killed now and then, and the
//! next one goes on from what it saved.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_balancer::{BalanceSettings, Balancer, RoundReport, SavedState};
use nodeward_machine::Machine;
use nodeward_model::{GroupHome, Pid, ProcessFilter};
use nodeward_policy::placement::Rules;

use crate::swarm::check::{CheckFinding, Checker, CheckerResult, groups};
use crate::swarm::checked_machine::CheckedMachine;
use crate::swarm::event_counts::EventCounts;
use crate::swarm::generator::{GroupPolicy, SwarmCase};

/// The balancers of a machine, one after the other.
pub struct GroupRounds<'a> {
    machine: &'a CheckedMachine,
    case: &'a SwarmCase,
    settings: BalanceSettings,
    saved: Option<SavedState>,
    /// Who had the memory of which process in the last round that looked.
    owners: BTreeMap<Pid, GroupHome>,
}

impl<'a> GroupRounds<'a> {
    /// Prepares balancers that decide at once: scenarios last for milliseconds.
    pub fn new(machine: &'a CheckedMachine, case: &'a SwarmCase, policy: &GroupPolicy) -> Self {
        let rules = Rules { run_ns_min: 0, debounce_ns: 0, home_hold_ns: 1, ..Rules::default() };
        let settings = BalanceSettings {
            interval_ns: policy.interval_ns,
            groups: case.scenario.groups.clone(),
            rules,
            steady_ppm: 1_000_000,
            converging_ppm: 1_000_000,
            ..BalanceSettings::default()
        };
        Self { machine, case, settings, saved: None, owners: BTreeMap::new() }
    }

    /// Lets a balancer make rounds, with `between` before each, and kills it.
    ///
    /// # Errors
    /// The first finding.
    pub fn live(
        &mut self,
        rounds: u64,
        counts: &mut EventCounts,
        between: impl Fn() -> Result<(), CheckFinding>,
    ) -> Result<(), CheckFinding> {
        let shared: Arc<dyn Machine> = Arc::new(self.machine.clone());
        let (all, settings) = (ProcessFilter::default(), self.settings.clone());
        let balancer = Balancer::new(shared, &all, settings, self.saved.clone());
        let mut balancer = self.machine.judge(balancer.map_err(failed))?;
        for _ in 0..rounds {
            between()?;
            if self.machine.is_over() {
                return Ok(());
            }
            self.machine.take_destinations();
            let report = balancer.round(self.machine.live());
            let report = self.machine.judge(report.map_err(failed))?;
            self.machine.record_result(self.check(&report))?;
            counts.add("rounds with groups", (!report.groups.is_empty()).into());
            counts.add("pages moved for groups", moved(&report));
        }
        let saved = balancer.saved_state();
        let before = self.saved.as_ref().map(|saved| saved.groups.clone()).unwrap_or_default();
        self.machine.record_result(groups::check_numbers(&before, &saved.groups))?;
        counts.add("balancers killed", 1);
        self.saved = Some(saved);
        Ok(())
    }

    /// Checks a round. Memory whose group this round or the last one that looked did not know yet
    /// may go where the process was at home.
    fn check(&mut self, report: &RoundReport) -> CheckerResult {
        let rules = &self.case.scenario.groups;
        groups::check_report(report, rules)?;
        let sent = self.machine.take_destinations();
        if report.processes.is_empty() {
            return groups::check_destinations(&sent, &self.owners);
        }
        let now = groups::owners(report, rules);
        let before = std::mem::replace(&mut self.owners, now);
        let known = self.owners.iter().filter(|&(pid, home)| before.get(pid) == Some(home));
        let known = known.map(|(pid, home)| (*pid, home.clone())).collect();
        groups::check_destinations(&sent, &known)
    }
}

fn failed(error: impl std::fmt::Display) -> (Checker, String) {
    (Checker::Groups, format!("the balancer failed: {error}"))
}

fn moved(report: &RoundReport) -> u64 {
    report.groups.iter().map(|row| row.done.pages_moved).sum()
}
