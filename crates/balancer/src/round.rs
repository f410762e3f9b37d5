//! One round: observe, decide, act, verify.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodeward_machine::{Machine, Result};
use nodeward_model::{MachineSnapshot, Nodemask, Pid};
use nodeward_mover::MoveControl;
use nodeward_policy::placement::Plan;

use super::Balancer;
use super::cpu_budget::Activity;
use super::group_plan;
use super::journals::Subject;
use super::pending::{PendingMove, pages_away};
use super::process_key::ProcessKey;
use super::process_table::ProcessState;
use super::report::{Notice, RoundReport};
use super::round_state::RoundState;
use super::sampling::{self, SampleCause};
use super::timing::FastRounds;

/// Maximum number of samples in a round, whatever their cost.
const SAMPLES_MAX: usize = 64;

impl Balancer {
    /// Looks, decides, acts, and looks at the result. The first round only looks, because loads are
    /// differences between two snapshots. If the timing of the last round asked for it, this is a
    /// fast round: it only brings back threads that strayed.
    ///
    /// # Errors
    /// If the machine as a whole cannot be read.
    pub fn round(&mut self, live: &MoveControl) -> Result<RoundReport> {
        let report = self.make_round(live)?;
        self.sum_up(&report);
        Ok(RoundReport { totals: self.totals.clone(), ..report })
    }

    /// Adds to the totals what the report of a round has.
    fn sum_up(&mut self, report: &RoundReport) {
        let totals = &mut self.totals;
        *if report.fast { &mut totals.fast_rounds } else { &mut totals.rounds } += 1;
        totals.took_ns += report.took_ns;
        totals.samples += report.looked;
        totals.others_pages = self.nodes.pages_migrated_by_others();
        for notice in &report.news {
            *totals.notices.entry(notice.kind()).or_default() += 1;
        }
        let processes = report.processes.iter().map(|row| (row.changed, row.decision.verdict));
        let groups = report.groups.iter().map(|row| (row.changed, row.decision.verdict));
        for (_, verdict) in processes.chain(groups).filter(|(changed, _)| *changed) {
            *totals.changes.entry(verdict.name()).or_default() += 1;
        }
    }

    fn make_round(&mut self, live: &MoveControl) -> Result<RoundReport> {
        if self.is_fast_round_due(self.now_ns()) {
            return self.fast_round(live);
        }
        let machine = Arc::clone(&self.machine);
        let began_ns = machine.now_ns();
        self.meter.begin(&*machine);
        self.rounds += 1;
        let notices = self.rivals.look(&*machine);
        let nice = self.settings.nice.filter(|_| self.settings.act);
        self.niceness.of_looks(&*machine, nice, self.cooperates());
        let mut state = RoundState { notices, ..RoundState::default() };
        if self.settings.act && !self.may_look() {
            state.notices.extend(self.schedule(&BTreeMap::new()));
            return Ok(self.stand_back(&*machine, began_ns, state));
        }
        let elapsed_ns = self.take_snapshot(&*machine, &mut state)?;
        self.see_groups(&*machine, &mut state);
        self.sample(&*machine, live, &mut state);
        self.look_at_segments(&*machine, live, elapsed_ns.unwrap_or(0), &mut state);
        self.look_at_kernel(&*machine);
        let plan = elapsed_ns.map(|_| self.decide(&*machine, began_ns, &mut state));
        let plan = plan.unwrap_or_default();
        self.place_pages(&*machine, &plan, &mut state);
        let thread_homes = std::mem::take(&mut state.thread_homes);
        state.notices.extend(elapsed_ns.and_then(|_| self.schedule(&thread_homes)));
        self.act(&*machine, &plan, live, elapsed_ns.unwrap_or(0), &mut state);
        self.verify(&*machine, live, &plan, &mut state);
        self.verify_segments(&*machine, live, &mut state);
        self.timing.is_settled = elapsed_ns.is_some()
            && plan.settled
            && state.sample_later == 0
            && self.pending.is_empty()
            && self.counts.placing_until_ns().is_none()
            && self.write_rounds.round_ends_ns().is_none()
            && self.segment_moves.is_empty();
        self.journals.end_idle(self.rounds);
        self.save();
        state.notices.extend(self.journals.notices());
        self.meter.lap(&*machine, Activity::Deciding);
        let report = self.report(&*machine, began_ns, plan, state);
        self.last = Some(report.clone());
        Ok(report)
    }

    /// Returns whether a round that is to act looks at processes: seldom, if it stands back.
    /// Pending moves then end where they are.
    fn may_look(&mut self) -> bool {
        if !self.stands_back() {
            self.rivals.act();
            return true;
        }
        self.pending.clear();
        self.segment_moves.clear();
        self.journals.end_all(false);
        self.timing.fast = FastRounds::default();
        self.rivals.is_survey()
    }

    /// Gives the scheduler, if there is one, the homes of threads. While the balancer does not act
    /// no thread has one.
    fn schedule(&mut self, homes: &BTreeMap<u32, Nodemask>) -> Option<Notice> {
        match self.acts() {
            true => self.schedule.set(homes, &self.settings.keep_empty),
            false => self.schedule.set(&BTreeMap::new(), &Nodemask::new()),
        }
    }

    /// Takes the snapshot of all processes and nodes. Returns the time since the last one.
    fn take_snapshot(
        &mut self,
        machine: &dyn Machine,
        state: &mut RoundState,
    ) -> Result<Option<u64>> {
        let machine_snapshot = self.watches.wanted.snapshot()?;
        self.excluded.by_settings = match &mut self.watches.except {
            Some(except) => {
                except.snapshot()?.processes.iter().map(|process| process.pid).collect()
            }
            None => Vec::new(),
        };
        self.excluded.by_settings.sort_unstable();
        self.excluded.own = machine.own_pid();
        state.notices.extend(self.nodes.see(machine, &machine_snapshot)?);
        state.notices.extend(self.denials(&machine_snapshot));
        self.recall(machine, machine_snapshot.processes.iter().map(|process| process.pid));
        let (elapsed_ns, gone) =
            self.processes.see(machine_snapshot, self.settings.interval_ns / 2);
        gone.into_iter().for_each(|entity| self.journals.end(Subject::Process(entity), false));
        self.processes.iter_mut().for_each(|(_, process)| process.forget_pins_of_others());
        // The balancer's own load ends soon; no other process shall stay away from home because of
        // it.
        let own = self.processes.iter_mut().find(|((pid, _), _)| Some(*pid) == self.excluded.own);
        own.into_iter().for_each(|(_, process)| process.disregard_load());
        let took_ns = self.meter.lap(machine, Activity::Looking);
        let threads = self.processes.threads();
        let elapsed = elapsed_ns.unwrap_or(self.settings.interval_ns);
        self.budget.grant(&self.settings, threads, elapsed, self.is_calm());
        // The first snapshot sees everything for the first time, so its cost says nothing about the
        // next one.
        if elapsed_ns.is_some() {
            self.budget.spend_snapshot(took_ns);
        }
        Ok(elapsed_ns)
    }

    /// Returns a notice about processes that may not be read, if it is new.
    fn denials(&mut self, machine_snapshot: &MachineSnapshot) -> Vec<Notice> {
        let mut by_need: BTreeMap<&str, Vec<Pid>> = BTreeMap::new();
        for (pid, need) in
            machine_snapshot.denied.iter().filter(|(pid, _)| !self.denied.contains(pid))
        {
            by_need.entry(need).or_default().push(*pid);
        }
        let denied = |(need, pids): (&str, Vec<Pid>)| Notice::Denied { pids, need: need.into() };
        let notices = by_need.into_iter().map(denied).collect();
        self.denied = machine_snapshot.denied.iter().map(|(pid, _)| *pid).collect();
        notices
    }

    /// Continues from the state that an earlier balancer saved, if that is of this boot. A held
    /// process tells the boot id: the first of `pids` that can be held.
    pub(super) fn recall(&mut self, machine: &dyn Machine, pids: impl IntoIterator<Item = Pid>) {
        if !self.boot.is_empty() {
            return;
        }
        let boot = |pid| Some(machine.open_process(pid).ok()?.identity().ok()?.boot_id);
        let Some(boot) = pids.into_iter().find_map(boot) else { return };
        match self.recalled.take() {
            Some(saved) if saved.boot == boot => {
                self.processes.recall(&saved.processes);
                self.homes = saved.homes;
                self.homes.resume();
                self.groups.recall(saved.groups);
            }
            Some(saved) => {
                self.called.lock().groups_mut().forget(&saved.called);
            }
            None => {}
        }
        self.boot = boot;
    }

    /// Samples the residency of as many processes as the budget allows, and of at least one, or of
    /// none if that sample is owed to a segment: otherwise segments would wait for as long as
    /// processes do.
    fn sample(&mut self, machine: &dyn Machine, live: &MoveControl, state: &mut RoundState) {
        let now_ns = machine.now_ns();
        let due = |(key, process): (ProcessKey, &ProcessState)| {
            let cause = sampling::cause(process, &self.nodes, now_ns, &self.settings)?;
            (!self.excluded.contains(key.0)).then(|| (key, cause, process.load_ppm()))
        };
        let mut due: Vec<_> = self.processes.iter().filter_map(due).collect();
        sampling::in_order(&mut due, self.first);
        let most = match self.segments.is_sample_owed && !self.budget.is_left() {
            true => 0,
            false => SAMPLES_MAX,
        };
        let mut rest = due.into_iter();
        for (key, cause, _) in rest.by_ref().take(most) {
            self.sample_one(machine, live, key, cause, state);
            if !self.budget.is_left() || live.is_stopped() {
                break;
            }
        }
        state.sample_later = rest.len() as u64;
    }

    fn sample_one(
        &mut self,
        machine: &dyn Machine,
        live: &MoveControl,
        key: ProcessKey,
        cause: SampleCause,
        state: &mut RoundState,
    ) {
        let Some(process) = self.processes.get_mut(key) else { return };
        let known = (&self.nodes, &self.segments.ids());
        let before = process.sample.as_ref().map(|sample| sample.at_ns);
        let wanted = (&self.settings, cause, live);
        let sampled = sampling::sample(machine, (key, process), known, wanted);
        match (sampled, &process.sample) {
            (Err(error), _) => state.notices.extend(process.went_wrong(key, error)),
            (Ok(()), Some(sample)) if before != Some(sample.at_ns) => {
                self.called.lock().groups_mut().see_program_again(key, sample.program);
            }
            (Ok(()), _) => {}
        }
        state.sampled += 1;
        self.first = self.first.filter(|&first| first != key.0);
        let took_ns = self.meter.lap(machine, Activity::Looking);
        self.budget.spend(took_ns);
    }

    fn decide(&mut self, machine: &dyn Machine, at_ns: u64, state: &mut RoundState) -> Plan {
        let rules = &self.rules();
        let is_too_early = |process: &ProcessState| self.is_undecided(process).is_some();
        let snapshot = self.tables().snapshot((at_ns, machine.page_bytes()), &is_too_early);
        self.meter.lap(machine, Activity::Looking);
        let mut homes = self.homes.clone();
        let mut plan = homes.decide(&snapshot, rules);
        state.groups =
            group_plan::divide(&mut plan, &self.groups, (&self.processes, &self.excluded));
        self.timing.decided_at_ns = at_ns;
        // Moves that are only reported did not happen, so the next round has to plan them again.
        let has_moves = !plan.moves.is_empty() || !plan.segment_moves.is_empty();
        if self.acts() || !has_moves {
            self.homes = homes;
        }
        if self.schedule.is_used() {
            state.thread_homes = self.homes.thread_homes(&snapshot, rules);
        }
        self.meter.lap(machine, Activity::Deciding);
        plan
    }

    /// Samples processes again whose memory was moved.
    fn verify(
        &mut self,
        machine: &dyn Machine,
        live: &MoveControl,
        plan: &Plan,
        state: &mut RoundState,
    ) {
        let moving: BTreeSet<_> = self.pending.iter().map(PendingMove::entity).collect();
        for (_, process) in self.processes.iter_mut() {
            let numbers = process.numbers();
            process.is_moving = numbers.iter().any(|number| moving.contains(number));
            process.sampling.is_due |= numbers.iter().any(|number| state.ended.contains(number));
        }
        for entity in state.ended.clone() {
            let Some(key) = self.processes.key(entity) else { continue };
            self.sample_one(machine, live, key, SampleCause::Moved, state);
            let sample = self.processes.get_mut(key).and_then(|process| process.sample.as_ref());
            let away = sample
                .zip(plan.homes.get(&entity))
                .map(|(sample, home)| pages_away(sample.pages_of(entity), home));
            if let Some(done) = state.done.get_mut(&entity) {
                done.pages_away_after = away;
            }
        }
    }
}
