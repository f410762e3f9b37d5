//! The groups that are placed: those that programs made by calls, and those of the rules in the
//! settings. A group is an entity; what of a process belongs to it is a [`GroupPart`].

use std::collections::{BTreeMap, BTreeSet};

use nodeward_model::{GroupHome, GroupName, GroupSpec};
use nodeward_policy::placement::{EntityId, Target};

use super::called_groups::{CalledGroup, CalledGroups, CalledPart, GroupNumber};
use super::group_key::GroupKey;
use super::group_part::GroupPart;
use super::process_key::ProcessKey;
use super::process_table::ProcessState;
use super::reported_decision::ReportedDecision;

/// The user whose groups have no budget of their own, and decide about memory that others map.
const ROOT: u32 = 0;

/// A group, made by calls or by a rule.
pub struct GroupState {
    pub name: GroupName,
    pub home: GroupHome,
    /// The number of the group, if calls made it.
    pub called: Option<GroupNumber>,
    /// The decision that was reported last.
    pub told: ReportedDecision,
}

/// The groups, those of calls first, then those of rules in the order of the settings.
#[derive(Default)]
pub struct GroupTable {
    numbers: BTreeMap<GroupKey, EntityId>,
    groups: BTreeMap<EntityId, GroupState>,
    rules: Vec<GroupSpec>,
    called: CalledGroups,
}

impl GroupTable {
    /// Takes in the groups that there are now. New ones get numbers.
    pub fn see(
        &mut self,
        called: CalledGroups,
        rules: &[GroupSpec],
        mut number: impl FnMut() -> EntityId,
    ) {
        let by_call = called
            .iter()
            .map(|(it, group)| (GroupKey::Called(it), group.name.clone(), group.home.clone()));
        let rule = |rule: &GroupSpec| {
            (GroupKey::Rule(rule.name.clone()), rule.name.clone(), rule.home.clone())
        };
        let all: Vec<_> = by_call.chain(rules.iter().map(rule)).collect();
        let (mut earlier, mut known) =
            (std::mem::take(&mut self.groups), std::mem::take(&mut self.numbers));
        for (key, name, home) in all {
            let entity = known.remove(&key).unwrap_or_else(&mut number);
            let told = earlier.remove(&entity).map(|group| group.told).unwrap_or_default();
            let called = match &key {
                GroupKey::Called(number) => Some(*number),
                GroupKey::Rule(_) => None,
            };
            self.groups.insert(entity, GroupState { name, home, called, told });
            self.numbers.insert(key, entity);
        }
        (self.rules, self.called) = (rules.to_vec(), called);
    }

    /// Restores the numbers that an earlier balancer gave.
    pub fn recall(&mut self, numbers: BTreeMap<GroupKey, EntityId>) {
        self.numbers.extend(numbers);
    }

    /// Returns the numbers of all groups.
    pub fn numbers(&self) -> &BTreeMap<GroupKey, EntityId> {
        &self.numbers
    }

    /// Returns whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns whether there are rules, so that processes must be asked for the facts that patterns
    /// test.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Returns a group, to be changed.
    pub fn get_mut(&mut self, entity: EntityId) -> Option<&mut GroupState> {
        self.groups.get_mut(&entity)
    }

    /// Returns the group of an entity.
    pub fn get(&self, entity: EntityId) -> Option<&GroupState> {
        self.groups.get(&entity)
    }

    /// Returns the users other than root who made groups, some of them repeatedly.
    pub fn users(&self) -> impl Iterator<Item = u32> {
        self.called.iter().filter_map(|(_, group)| user(group))
    }

    /// Returns the parts of a process that belong to groups, without numbers: each of its threads
    /// in the first group that wants it.
    pub fn parts_of(&self, key: ProcessKey, process: &ProcessState) -> Vec<GroupPart> {
        let threads = process.seen.iter().flat_map(|seen| &seen.threads);
        let mut free: BTreeSet<u32> = threads.map(|thread| thread.tid).collect();
        let called = self.called.iter().filter_map(|(it, group)| {
            Some((GroupKey::Called(it), user(group), group.parts.get(&key)?))
        });
        let (mut all, named): (Vec<_>, Vec<_>) =
            called.partition(|(_, _, part)| part.threads.contains(u32::MAX));
        let mut parts = Vec::new();
        let mut take = |key: GroupKey, wants: &dyn Fn(u32) -> bool, part: GroupPart| {
            let threads: BTreeSet<u32> = free.iter().copied().filter(|&tid| wants(tid)).collect();
            free.retain(|tid| !threads.contains(tid));
            let group = self.numbers.get(&key).copied();
            parts.extend(group.map(|group| GroupPart { group, threads, ..part }));
        };
        // Threads that a call named are not among all that another call took.
        let in_order = named.into_iter().chain(all.drain(..));
        for (group, user, CalledPart { threads, memory, self_moved }) in in_order {
            let (memory, self_moved) = (memory.clone(), self_moved.clone());
            let part = GroupPart { memory, self_moved, user, ..GroupPart::default() };
            take(group, &|tid| threads.contains(tid), part);
        }
        for (rule, threads) in self.wanted_by_rules(process) {
            let part = GroupPart { memory: rule.memory.clone(), ..GroupPart::default() };
            take(GroupKey::Rule(rule.name.clone()), &|tid| threads.contains(&tid), part);
        }
        parts
    }

    /// The threads of a process that rules name, where they name any.
    fn wanted_by_rules(&self, process: &ProcessState) -> Vec<(&GroupSpec, BTreeSet<u32>)> {
        let (Some(seen), Some(known)) = (&process.seen, &process.traits) else { return Vec::new() };
        let wanted = |rule: &GroupSpec| rule.threads_of(seen.pid, &seen.name, &known.traits);
        let all = self.rules.iter().map(|rule| (rule, wanted(rule).into_iter().collect()));
        all.filter(|(_, threads): &(_, BTreeSet<u32>)| !threads.is_empty()).collect()
    }
}

/// Returns the user who made a group, unless that is root.
fn user(group: &CalledGroup) -> Option<u32> {
    Some(group.owner).filter(|&owner| owner != ROOT)
}

impl GroupState {
    /// Returns the nodes among which policy is to place the group.
    pub fn target(&self) -> Target {
        match &self.home {
            GroupHome::Auto => Target::Anywhere,
            GroupHome::Nodes(nodes) => Target::Within(nodes.clone()),
            GroupHome::Spread(nodes) => Target::Even(nodes.clone()),
        }
    }
}
