//! Reports a group in a round as the sum of its parts.

use std::collections::BTreeMap;

use nodeward_model::GroupName;
use nodeward_policy::placement::{Decision, EntityId, Plan};

use super::group_part::GroupPart;
use super::nodes::Nodes;
use super::process_table::{ProcessState, ProcessTable};
use super::report::{Done, GroupRow, Outcome};

impl GroupRow {
    /// Returns the row of a group of this name.
    pub(super) fn of(
        (name, decision): (GroupName, &Decision),
        plan: &Plan,
        (processes, nodes): (&ProcessTable, &Nodes),
        done: &BTreeMap<EntityId, Done>,
    ) -> Self {
        let mut row = Self {
            name,
            called: None,
            home: plan.homes.get(&decision.entity).cloned(),
            decision: decision.clone(),
            changed: false,
            processes: Vec::new(),
            threads: BTreeMap::new(),
            residency: BTreeMap::new(),
            done: Done::default(),
        };
        for (_, process) in processes.iter() {
            for part in process.parts.iter().filter(|part| part.group == decision.entity) {
                row.add(process, part, nodes);
                done.get(&part.entity).into_iter().for_each(|done| row.done.add(done));
            }
        }
        row
    }

    fn add(&mut self, process: &ProcessState, part: &GroupPart, nodes: &Nodes) {
        self.processes.extend(process.seen.as_ref().map(|seen| seen.pid));
        let threads = process.threads().filter(|(thread, _)| part.has_thread(thread));
        for node in threads.filter_map(|(thread, _)| nodes.node_of(thread.cpu)) {
            *self.threads.entry(node).or_default() += 1;
        }
        let pages = process.sample.as_ref().map(|sample| sample.pages_of(part.entity));
        for (&node, &pages) in pages.into_iter().flatten() {
            *self.residency.entry(node).or_default() += pages;
        }
    }
}

impl Done {
    /// Adds the results of another part.
    fn add(&mut self, other: &Self) {
        self.threads_placed += other.threads_placed;
        self.threads_not_allowed += other.threads_not_allowed;
        self.threads_changed += other.threads_changed;
        self.threads_asleep += other.threads_asleep;
        self.threads_gone += other.threads_gone;
        self.pages_planned += other.pages_planned;
        self.pages_moved += other.pages_moved;
        self.pages_pending += other.pages_pending;
        for (&reason, &pages) in &other.pages_skipped {
            *self.pages_skipped.entry(reason).or_default() += pages;
        }
        self.short = self.short.or(other.short);
        if let Some(away) = other.pages_away_after {
            *self.pages_away_after.get_or_insert_default() += away;
        }
        if let Some(outcome) = &other.outcome {
            self.outcome.get_or_insert_default().join(outcome);
        }
    }
}

impl Outcome {
    fn join(&mut self, other: &Self) {
        self.pages_planned += other.pages_planned;
        self.pages_moved += other.pages_moved;
        for (&reason, &pages) in &other.pages_stayed {
            *self.pages_stayed.entry(reason).or_default() += pages;
        }
        self.short = self.short.or(other.short);
    }
}
