//! The report of a round. This stage also decides when the next round is due.

use std::collections::BTreeMap;

use nodeward_machine::Machine;
use nodeward_model::{NodeId, ProcessSnapshot, SegmentId};
use nodeward_policy::placement::{Decision, EntityId, Plan, SegmentDecision};

use super::Balancer;
use super::cpu_budget::Activity;
use super::report::{Done, GroupRow, Notice, ProcessRow, RoundReport, SegmentRow};
use super::round_state::RoundState;

impl Balancer {
    /// Makes the report of a round.
    pub(super) fn report(
        &mut self,
        machine: &dyn Machine,
        began_ns: u64,
        plan: Plan,
        mut state: RoundState,
    ) -> RoundReport {
        let threads = self.processes.threads();
        let factor = self.budget.factor(&self.settings, threads, self.is_calm());
        if factor > 1 && self.timing.factor == 1 {
            let factor = u32::try_from(factor).unwrap_or(0);
            state.notices.push(Notice::LookingSlowed { factor });
        }
        self.timing.factor = factor;
        let interval_ns = match factor {
            1 => self.settings.interval_ns.min(self.until_period_ends(began_ns)),
            _ => self.settings.interval_ns.saturating_mul(factor),
        };
        self.next_round_in(began_ns, interval_ns);
        self.timing.fast.begin_round();
        self.learn_strays(&plan, &state);
        let processes = self.rows(&plan, &state.done);
        let segments = self.segment_rows(&plan, &state.segments_done);
        let groups = self.group_rows(&plan, &state);
        RoundReport {
            interval_ns: self.timing.fast.part(interval_ns),
            processes,
            groups,
            segments,
            nodes: plan.nodes,
            ..self.outline(machine, began_ns, state)
        }
    }

    /// Makes the report of a fast round.
    pub(super) fn fast_report(
        &mut self,
        machine: &dyn Machine,
        began_ns: u64,
        plan: &Plan,
        state: RoundState,
    ) -> RoundReport {
        self.learn_strays(plan, &state);
        let left_ns = self.timing.due_ns.saturating_sub(began_ns);
        let interval_ns = left_ns.min(self.timing.fast.part(self.timing.interval_ns));
        RoundReport { fast: true, interval_ns, ..self.outline(machine, began_ns, state) }
    }

    /// Makes a round that looks at no process, because another balancer is active.
    pub(super) fn stand_back(
        &mut self,
        machine: &dyn Machine,
        began_ns: u64,
        mut state: RoundState,
    ) -> RoundReport {
        self.timing.is_settled = true;
        state.notices.extend(self.journals.notices());
        self.meter.lap(machine, Activity::Looking);
        let interval_ns = self.settings.interval_ns;
        self.next_round_in(began_ns, interval_ns);
        let outline = self.outline(machine, began_ns, state);
        let report = RoundReport { interval_ns, threads: 0, ..outline };
        self.last = Some(report.clone());
        report
    }

    /// Sets the next round to be due after this time.
    fn next_round_in(&mut self, began_ns: u64, interval_ns: u64) {
        self.timing.due_ns = began_ns.saturating_add(interval_ns);
        self.timing.interval_ns = interval_ns;
    }

    /// Returns the time until the sampling period or the round of write faults ends that chooses
    /// pages, but at least half an interval, the least for loads.
    fn until_period_ends(&self, began_ns: u64) -> u64 {
        let ends = [self.counts.placing_until_ns(), self.write_rounds.round_ends_ns()];
        let ends_ns = ends.into_iter().flatten().min().unwrap_or(u64::MAX);
        ends_ns.saturating_sub(began_ns).max(self.settings.interval_ns / 2)
    }

    fn learn_strays(&mut self, plan: &Plan, state: &RoundState) {
        let has_home = |entity: EntityId| plan.homes.contains_key(&entity);
        let homed = self
            .processes
            .iter()
            .filter(|(_, process)| process.numbers().into_iter().any(has_home));
        let threads = homed.map(|(_, process)| process.thread_count()).sum();
        let may_look = self.budget.is_left() && self.timing.factor == 1;
        self.timing.fast.learn(state.nudged(), threads, may_look);
    }

    fn outline(&self, machine: &dyn Machine, began_ns: u64, state: RoundState) -> RoundReport {
        let (cost, total_cost) = self.meter.costs();
        RoundReport {
            round: self.rounds,
            at_ns: began_ns,
            took_ns: machine.now_ns().saturating_sub(began_ns),
            settled: self.timing.is_settled,
            acted: self.acts(),
            stands_back: self.stands_back(),
            nudged: state.nudged(),
            moved_pages: state.moved_pages(),
            page_bytes: machine.page_bytes(),
            threads: self.processes.threads(),
            looked: state.sampled,
            look_later: state.sample_later,
            rivals: self.rivals.seen().to_vec(),
            rival_mode: self.settings.rivals,
            access_source: self.observer.kind().or(self.write_rounds.kind()),
            access_obstacle: self.observer.failure().map(str::to_owned),
            cost,
            total_cost,
            news: state.notices,
            ..RoundReport::default()
        }
    }

    fn rows(&mut self, plan: &Plan, done: &BTreeMap<EntityId, Done>) -> Vec<ProcessRow> {
        let row = |decision: &Decision| self.row(decision, plan, done);
        let mut rows: Vec<_> = plan.decisions.iter().filter_map(row).collect();
        rows.sort_by_key(|row| (row.pid, row.decision.entity));
        rows
    }

    fn row(
        &mut self,
        decision: &Decision,
        plan: &Plan,
        done: &BTreeMap<EntityId, Done>,
    ) -> Option<ProcessRow> {
        let entity = decision.entity;
        let process = self.processes.by_number(entity)?;
        if process.entity != entity {
            return None; // a part of it, which belongs to a group
        }
        let home = plan.homes.get(&entity);
        let changed = process.told.tell(decision, home);
        let process = &*process;
        let segments = self.segments.of(process).map(|(id, _)| id).collect();
        let (seen, sample) = (process.seen.as_ref()?, process.sample.as_ref());
        let pages = sample.map(|sample| sample.pages.clone()).unwrap_or_default();
        let pages_at_ns = sample.map(|sample| sample.at_ns);
        let (pid, name) = (seen.pid, seen.name.clone());
        let nodes = &self.nodes;
        let threads = count_by_node(seen, |thread| nodes.node_of(thread.cpu));
        Some(ProcessRow {
            pid,
            name,
            home: home.cloned(),
            decision: decision.clone(),
            counted_pages: self.counts.pages(entity),
            changed,
            threads,
            pages,
            pages_at_ns,
            segments,
            done: done.get(&entity).cloned().unwrap_or_default(),
        })
    }
}

impl Balancer {
    fn group_rows(&mut self, plan: &Plan, state: &RoundState) -> Vec<GroupRow> {
        let row = |decision: &Decision| {
            let group = self.groups.get_mut(decision.entity)?;
            let named = (group.name.clone(), decision);
            let row = GroupRow::of(named, plan, (&self.processes, &self.nodes), &state.done);
            let changed = group.told.tell(decision, row.home.as_ref());
            Some(GroupRow { changed, called: group.called, ..row })
        };
        state.groups.iter().filter_map(row).collect()
    }

    fn segment_rows(&mut self, plan: &Plan, done: &BTreeMap<SegmentId, Done>) -> Vec<SegmentRow> {
        let row = |decision: &SegmentDecision| {
            let state = self.segments.get_mut(decision.segment)?;
            let changed = state.tell(decision);
            let (pages_at_ns, residency) = state.sample.clone()?;
            Some(SegmentRow {
                name: state.name.clone(),
                bytes: state.bytes,
                mappers: state.mappers.len() as u64,
                decision: decision.clone(),
                changed,
                residency,
                pages_at_ns,
                done: done.get(&decision.segment).cloned().unwrap_or_default(),
            })
        };
        plan.segments.iter().filter_map(row).collect()
    }
}

/// Counts threads of a process by the node on which they ran last.
fn count_by_node(
    seen: &ProcessSnapshot,
    node_of: impl Fn(&nodeward_model::ThreadSnapshot) -> Option<NodeId>,
) -> BTreeMap<NodeId, u32> {
    let mut counts = BTreeMap::new();
    for node in seen.threads.iter().filter_map(node_of) {
        *counts.entry(node).or_default() += 1;
    }
    counts
}
