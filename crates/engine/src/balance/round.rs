//! One round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodeward_machine::{Machine, Result};
use nodeward_model::{Glance, Pid};
use nodeward_policy::placement::{Decision, EntityId, Plan, Rules};

use super::act::{Actor, Pending, away};
use super::looks::{self, Cause};
use super::meter::For;
use super::observe::{Bars, snapshot, threads_by_node};
use super::patrol::Pace;
use super::report::{Done, News, ProcessRow, RoundReport, Undecided};
use super::roster::{Key, Member};
use super::{Balancer, OnRivals, RoundTime};
use crate::Live;

/// Dear looks in a round at most, whatever they cost.
const LOOKS_MAX: usize = 64;

/// What a round comes to while it goes on.
#[derive(Default)]
pub(super) struct Coming {
    pub(super) news: Vec<News>,
    looked: u64,
    look_later: u64,
    done: BTreeMap<EntityId, Done>,
    /// Whose memory came to the end of its way.
    ended: BTreeSet<EntityId>,
}

impl Balancer {
    /// Looks, decides, acts, and looks at what came of it. The first round only looks, because
    /// loads are what happens between two looks. If it comes early, because the one before said so,
    /// it is a patrol: threads that strayed are brought back.
    ///
    /// # Errors
    /// Only if the machine as a whole cannot be looked at.
    pub fn round(&mut self, live: &Live) -> Result<RoundReport> {
        if self.is_patrol_due(self.now_ns()) {
            return self.patrol(live);
        }
        let machine = Arc::clone(&self.machine);
        let began_ns = machine.now_ns();
        self.meter.begin(&*machine);
        self.rounds += 1;
        let mut coming = Coming { news: self.rivals.look(&*machine), ..Coming::default() };
        if self.settings.act && self.stands_back() {
            return Ok(self.stand_back(&*machine, began_ns, coming));
        }
        let elapsed_ns = self.glance(&*machine, &mut coming)?;
        self.look(&*machine, &mut coming);
        let plan = elapsed_ns.map(|_| self.decide(&*machine, began_ns)).unwrap_or_default();
        self.count(&*machine, &plan, &mut coming);
        self.act(&*machine, &plan, live, elapsed_ns.unwrap_or(0), &mut coming);
        self.verify(&*machine, &plan, &mut coming);
        self.settled = elapsed_ns.is_some()
            && plan.settled
            && coming.look_later == 0
            && self.pending.is_empty();
        self.diary.end_idle(self.rounds);
        self.diary.save(&self.memory());
        coming.news.extend(self.diary.news());
        self.meter.lap(&*machine, For::Deciding);
        let report = self.report(&*machine, began_ns, plan, coming);
        self.last = Some(report.clone());
        Ok(report)
    }

    /// What keeps processes from being balanced now.
    pub(super) fn bars(&self) -> Bars<'_> {
        Bars { excluded: &self.excluded, own: self.own }
    }

    /// The cheap look. Returns the time since the last one.
    fn glance(&mut self, machine: &dyn Machine, coming: &mut Coming) -> Result<Option<u64>> {
        let glance = self.eyes.wanted.glance()?;
        self.excluded = match &mut self.eyes.except {
            Some(except) => except.glance()?.processes.iter().map(|process| process.pid).collect(),
            None => Vec::new(),
        };
        self.excluded.sort_unstable();
        self.own = machine.own_pid();
        coming.news.extend(self.ground.see(machine, &glance)?);
        coming.news.extend(self.denials(&glance));
        self.recall(machine, &glance);
        let (elapsed_ns, gone) = self.roster.see(&glance, self.settings.interval_ns / 2);
        gone.into_iter().for_each(|entity| self.diary.end(entity, false));
        self.roster.members_mut().for_each(|(_, member)| member.forget_pins_of_others());
        // What we do ourselves is soon over: nobody shall stay away from home for that.
        let own = self.roster.members_mut().find(|((pid, _), _)| Some(*pid) == self.own);
        own.into_iter().for_each(|(_, member)| member.disregard_load());
        let took_ns = self.meter.lap(machine, For::Looking);
        let threads = self.roster.threads();
        let elapsed = elapsed_ns.unwrap_or(self.settings.interval_ns);
        self.allowance.grant(&self.settings, threads, elapsed, self.is_calm());
        // The first look, at what is all new, is made once and says nothing about the next.
        if elapsed_ns.is_some() {
            self.allowance.glanced(took_ns);
        }
        Ok(elapsed_ns)
    }

    /// Who may not be looked at, unless that was told before.
    fn denials(&mut self, glance: &Glance) -> Vec<News> {
        let mut by_need: BTreeMap<&str, Vec<Pid>> = BTreeMap::new();
        for (pid, need) in glance.denied.iter().filter(|(pid, _)| !self.denied.contains(pid)) {
            by_need.entry(need).or_default().push(*pid);
        }
        let news = by_need.into_iter().map(|(need, pids)| News::Denied { pids, need: need.into() });
        let news = news.collect();
        self.denied = glance.denied.iter().map(|(pid, _)| *pid).collect();
        news
    }

    /// Goes on with what an earlier balancer remembered, if the machine is still in the boot of
    /// which that tells: a process that is held says which it is in.
    fn recall(&mut self, machine: &dyn Machine, glance: &Glance) {
        if !self.boot.is_empty() {
            return;
        }
        let boot = |pid| Some(machine.hold(pid).ok()?.identity().ok()?.boot);
        let Some(boot) = glance.processes.iter().find_map(|process| boot(process.pid)) else {
            return;
        };
        if let Some(memory) = self.recalled.take().filter(|memory| memory.boot == boot) {
            self.roster.recall(&memory.known);
            self.homes = memory.homes;
            self.homes.resume();
        }
        self.boot = boot;
    }

    fn stands_back(&self) -> bool {
        self.settings.rivals == OnRivals::StandBack && !self.rivals.seen().is_empty()
    }

    /// A round in which somebody else balances: nobody is looked at, as nothing would come of it,
    /// and what was on its way ends where it is.
    fn stand_back(
        &mut self,
        machine: &dyn Machine,
        began_ns: u64,
        mut coming: Coming,
    ) -> RoundReport {
        self.pending.clear();
        self.diary.end_all(false);
        self.settled = true;
        self.pace = Pace::default();
        coming.news.extend(self.diary.news());
        self.meter.lap(machine, For::Looking);
        let interval_ns = self.settings.interval_ns;
        self.next_round = RoundTime { due_ns: began_ns.saturating_add(interval_ns), interval_ns };
        let report = RoundReport { interval_ns, ..self.outline(machine, began_ns, coming) };
        self.last = Some(report.clone());
        report
    }

    /// Dear looks, as many as are allowed, and one at least.
    fn look(&mut self, machine: &dyn Machine, coming: &mut Coming) {
        let now_ns = machine.now_ns();
        let bars = self.bars();
        let due = |(key, member): (Key, &Member)| {
            let cause = looks::cause(member, &self.ground, now_ns, &self.settings)?;
            (!bars.is_left_out(key.0)).then(|| (key, cause, member.load_ppm()))
        };
        let mut due: Vec<_> = self.roster.members().filter_map(due).collect();
        looks::in_order(&mut due, self.first);
        let mut rest = due.into_iter();
        for (key, cause, _) in rest.by_ref().take(LOOKS_MAX) {
            self.look_into(machine, key, cause, coming);
            if !self.allowance.is_left() {
                break;
            }
        }
        coming.look_later = rest.len() as u64;
    }

    fn look_into(&mut self, machine: &dyn Machine, key: Key, cause: Cause, coming: &mut Coming) {
        let Some(member) = self.roster.get_mut(key) else { return };
        let looked = looks::look(machine, (key, member), &self.ground, &self.settings, cause);
        if let Err(error) = looked {
            coming.news.extend(member.went_wrong(key, error));
        }
        coming.looked += 1;
        self.first = self.first.filter(|&first| first != key.0);
        let took_ns = self.meter.lap(machine, For::Looking);
        self.allowance.spend(took_ns);
    }

    fn decide(&mut self, machine: &dyn Machine, at_ns: u64) -> Plan {
        let rules = &self.rules();
        let is_too_early = |member: &Member| self.is_undecided(member).is_some();
        let when = (at_ns, machine.page_bytes());
        let snapshot = snapshot(when, &self.ground, &self.roster, &self.bars(), &is_too_early);
        self.meter.lap(machine, For::Looking);
        let mut homes = self.homes.clone();
        let plan = homes.decide(&snapshot, rules);
        self.decided_at_ns = at_ns;
        // Moves that are only told did not happen: the next round tells them again.
        if self.settings.act || plan.moves.is_empty() {
            self.homes = homes;
        }
        self.meter.lap(machine, For::Deciding);
        plan
    }

    /// The rules of the settings, with what moves were measured to cost.
    pub(super) fn rules(&self) -> Rules {
        let rules = &self.settings.rules;
        Rules { page_ns: self.speed.page_ns(rules.page_ns), ..rules.clone() }
    }

    /// Why it is too early to decide about a process. Where it belongs is better decided once, with
    /// its memory and its load, than twice.
    pub(super) fn is_undecided(&self, member: &Member) -> Option<Undecided> {
        let now = member.now.as_ref()?;
        let rules = &self.settings.rules;
        if now.cpu_time_ns < rules.run_ns_min || self.homes.home(member.entity).is_some() {
            None
        } else if member.sight.is_none() {
            Some(Undecided::NotLookedInto)
        } else if member.load_ppm() < u64::from(rules.nudge_ppm_min) {
            Some(Undecided::Idle)
        } else {
            None
        }
    }

    fn act(
        &mut self,
        machine: &dyn Machine,
        plan: &Plan,
        live: &Live,
        elapsed_ns: u64,
        coming: &mut Coming,
    ) {
        let rules = self.rules();
        let settings = &self.settings;
        let interval_ns = settings.interval_ns.saturating_mul(self.factor);
        self.purse.fill(settings.budget_bytes_per_s, elapsed_ns, interval_ns);
        for (_, member) in self.roster.members_mut() {
            member.purse.fill(settings.process_budget_bytes_per_s, elapsed_ns, interval_ns);
        }
        let mut actor = Actor {
            machine,
            ground: &self.ground,
            settings,
            live,
            roster: &mut self.roster,
            diary: &mut self.diary,
            purse: &mut self.purse,
            pending: &mut self.pending,
            round: self.rounds,
            rules: &rules,
            until_ns: machine.now_ns().saturating_add(interval_ns / 8 * 7),
            held: BTreeMap::new(),
            done: BTreeMap::new(),
            news: Vec::new(),
        };
        coming.ended = actor.carry_out(plan);
        coming.news.append(&mut actor.news);
        coming.done = actor.done;
        let took_ns = self.meter.lap(machine, For::Moving);
        self.speed.pass(elapsed_ns);
        self.speed.learn(coming.moved_pages(), took_ns);
    }

    /// Brings back who strayed; memory that is on its way waits for the next round.
    pub(super) fn nudge_only(
        &mut self,
        machine: &dyn Machine,
        plan: &Plan,
        live: &Live,
        coming: &mut Coming,
    ) {
        let pending = std::mem::take(&mut self.pending);
        self.act(machine, plan, live, 0, coming);
        self.pending = pending;
    }

    /// Looks again at whose memory was moved.
    fn verify(&mut self, machine: &dyn Machine, plan: &Plan, coming: &mut Coming) {
        let moving: BTreeSet<_> = self.pending.iter().map(Pending::entity).collect();
        for (_, member) in self.roster.members_mut() {
            member.is_moving = moving.contains(&member.entity);
            member.must_look |= coming.ended.contains(&member.entity);
        }
        for entity in coming.ended.clone() {
            let Some(key) = self.roster.key(entity) else { continue };
            self.look_into(machine, key, Cause::Moved, coming);
            let sight = self.roster.get_mut(key).and_then(|member| member.sight.as_ref());
            let away =
                sight.zip(plan.homes.get(&entity)).map(|(sight, home)| away(&sight.pages, home));
            if let Some(done) = coming.done.get_mut(&entity) {
                done.pages_away_after = away;
            }
        }
    }

    /// Whether nothing is left to do, nobody is on the way, and threads stay where they are.
    fn is_calm(&self) -> bool {
        self.settled && self.pace.is_calm()
    }

    fn report(
        &mut self,
        machine: &dyn Machine,
        began_ns: u64,
        plan: Plan,
        mut coming: Coming,
    ) -> RoundReport {
        let threads = self.roster.threads();
        let factor = self.allowance.factor(&self.settings, threads, self.is_calm());
        if factor > 1 && self.factor == 1 {
            coming.news.push(News::LookingSlowed { factor: u32::try_from(factor).unwrap_or(0) });
        }
        self.factor = factor;
        let interval_ns = self.settings.interval_ns.saturating_mul(factor);
        let due_ns = began_ns.saturating_add(interval_ns);
        self.next_round = RoundTime { due_ns, interval_ns };
        self.pace.begin_round();
        self.learn_pace(&plan, &coming);
        let rows = self.rows(&plan, &coming.done);
        let mut report = self.outline(machine, began_ns, coming);
        report.interval_ns = self.pace.part(interval_ns);
        report.processes = rows;
        report.nodes = plan.nodes;
        report
    }

    /// What a patrol came to.
    pub(super) fn patrol_report(
        &mut self,
        machine: &dyn Machine,
        began_ns: u64,
        plan: &Plan,
        coming: Coming,
    ) -> RoundReport {
        self.learn_pace(plan, &coming);
        let RoundTime { due_ns, interval_ns } = self.next_round;
        let left_ns = due_ns.saturating_sub(began_ns);
        let mut report = self.outline(machine, began_ns, coming);
        report.patrol = true;
        report.interval_ns = left_ns.min(self.pace.part(interval_ns));
        report
    }

    fn learn_pace(&mut self, plan: &Plan, coming: &Coming) {
        let homed = |entity: &EntityId| plan.homes.contains_key(entity);
        let members = self.roster.members().filter(|(_, member)| homed(&member.entity));
        let threads = members.map(|(_, member)| member.loads.len() as u64).sum();
        let may_look = self.allowance.is_left() && self.factor == 1;
        self.pace.learn(coming.nudged(), threads, may_look);
    }

    fn outline(&self, machine: &dyn Machine, began_ns: u64, coming: Coming) -> RoundReport {
        let (cost, total_cost) = self.meter.costs();
        RoundReport {
            round: self.rounds,
            at_ns: began_ns,
            took_ns: machine.now_ns().saturating_sub(began_ns),
            settled: self.settled,
            acted: self.settings.act,
            stands_back: self.stands_back(),
            nudged: coming.nudged(),
            moved_pages: coming.moved_pages(),
            page_bytes: machine.page_bytes(),
            threads: self.roster.threads(),
            looked: coming.looked,
            look_later: coming.look_later,
            rivals: self.rivals.seen().to_vec(),
            cost,
            total_cost,
            news: coming.news,
            ..RoundReport::default()
        }
    }

    fn rows(&mut self, plan: &Plan, done: &BTreeMap<EntityId, Done>) -> Vec<ProcessRow> {
        let mut rows = Vec::with_capacity(plan.decisions.len());
        for decision in &plan.decisions {
            let Some(member) = self.roster.by_number(decision.entity) else { continue };
            let home = plan.homes.get(&decision.entity).cloned();
            let changed = member.tell(decision, home.clone());
            let Some(now) = &member.now else { continue };
            let sight = member.sight.as_ref();
            rows.push(ProcessRow {
                entity: decision.entity,
                pid: now.pid,
                name: now.name.clone(),
                home,
                verdict: decision.verdict,
                reason: decision.reason,
                threads_reason: decision.threads,
                memory_reason: decision.memory,
                counts_wanted: decision.counts_wanted,
                counted_pages: self.census.pages(decision.entity),
                numbers: decision.numbers.clone(),
                changed,
                threads: threads_by_node(now, &self.ground),
                pages: sight.map(|sight| sight.pages.clone()).unwrap_or_default(),
                pages_at_ns: sight.map(|sight| sight.at_ns),
                done: done.get(&decision.entity).cloned().unwrap_or_default(),
            });
        }
        rows.sort_by_key(|row| (row.pid, row.entity));
        rows
    }
}

impl Coming {
    fn moved_pages(&self) -> u64 {
        self.done.values().map(|done| done.pages_moved).sum()
    }

    /// Threads that are where they were sent.
    fn nudged(&self) -> u64 {
        self.done.values().map(|done| u64::from(done.threads_placed)).sum()
    }
}

impl Member {
    fn forget_pins_of_others(&mut self) {
        if let Some(now) = &self.now {
            self.pins.keep(&now.threads);
        }
    }

    /// Notes what is told of it; whether that is new.
    fn tell(
        &mut self,
        decision: &Decision,
        home: Option<nodeward_policy::placement::Home>,
    ) -> bool {
        let reasons = [Some(decision.reason), decision.threads, decision.memory];
        let told = (home, decision.verdict, reasons);
        let is_new = self.told.as_ref() != Some(&told);
        self.told = Some(told);
        is_new
    }
}
