//! Fast rounds: between two rounds they only bring back threads that strayed from home. Their
//! number grows with the number of threads that stray; there are none where the kernel leaves
//! threads at home.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::Result;
use nodeward_model::{CpuId, MachineSnapshot};
use nodeward_mover::MoveControl;
use nodeward_policy::placement::Plan;

use super::Balancer;
use super::cpu_budget::Activity;
use super::group_plan;
use super::process_table::ProcessState;
use super::report::RoundReport;
use super::round_state::RoundState;

impl Balancer {
    /// Returns whether the next look is a fast round, because the next full round is not due yet.
    pub(super) fn is_fast_round_due(&self, now_ns: u64) -> bool {
        let interval_ns = self.timing.interval_ns;
        if self.schedule.is_used() {
            return false;
        }
        let left_ns = self.timing.due_ns.saturating_sub(now_ns);
        // If the clock went back, full rounds must not become fast rounds.
        self.timing.fast.are_on() && left_ns > interval_ns / 16 && left_ns <= interval_ns
    }

    /// Brings back threads that strayed. It uses the loads of the last round, because the time
    /// since then is too short to measure new ones, and makes no new decision.
    pub(super) fn fast_round(&mut self, live: &MoveControl) -> Result<RoundReport> {
        let machine = Arc::clone(&self.machine);
        let began_ns = machine.now_ns();
        self.meter.begin(&*machine);
        let machine_snapshot = self.watches.wanted.snapshot()?;
        self.follow(&machine_snapshot);
        let is_too_early = |process: &ProcessState| self.is_undecided(process).is_some();
        let when = (self.timing.decided_at_ns, machine.page_bytes());
        let snapshot = self.tables().snapshot(when, &is_too_early);
        let took_ns = self.meter.lap(&*machine, Activity::Looking);
        self.budget.spend(took_ns);
        let mut plan = self.homes.thread_moves(&snapshot, &self.settings.rules);
        group_plan::divide(&mut plan, &self.groups, (&self.processes, &self.excluded));
        let took_ns = self.meter.lap(&*machine, Activity::Deciding);
        self.budget.spend(took_ns);
        let mut state = RoundState::default();
        self.nudge(&plan, live, &mut state);
        Ok(self.fast_report(&*machine, began_ns, &plan, state))
    }

    /// Enters the CPUs on which threads are now.
    fn follow(&mut self, machine_snapshot: &MachineSnapshot) {
        let cpus: BTreeMap<_, BTreeMap<u32, CpuId>> = machine_snapshot
            .processes
            .iter()
            .map(|one| {
                let cpus = one.threads.iter().map(|thread| (thread.tid, thread.cpu)).collect();
                ((one.pid, one.started_ticks), cpus)
            })
            .collect();
        for (key, process) in self.processes.iter_mut() {
            if let Some(cpus) = cpus.get(&key) {
                process.follow(cpus);
            }
        }
    }

    /// Nudges threads. Pending memory moves wait for the next round.
    fn nudge(&mut self, plan: &Plan, live: &MoveControl, state: &mut RoundState) {
        let machine = Arc::clone(&self.machine);
        let pending = std::mem::take(&mut self.pending);
        let segment_moves = std::mem::take(&mut self.segment_moves);
        self.act(&*machine, plan, live, 0, state);
        (self.pending, self.segment_moves) = (pending, segment_moves);
    }
}
