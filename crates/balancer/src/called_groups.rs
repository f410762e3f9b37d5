//! Groups that programs make by calls: who is in which, and where it is to be.
//!
//! The agent changes them while the balancer runs; each change is saved before it is answered. A
//! thread and an address are in one group: the last call wins. A thread that is started belongs to
//! the group of the thread that started it. A group ends when the last of its threads and of its
//! memory has left it.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_machine::ThreadRecord;
use nodeward_model::{GroupHome, GroupName, MemorySelector, Pid, Range};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::process_key::ProcessKey;

/// Maximum number of groups.
pub const GROUPS_MAX: usize = 4096;
/// Maximum number of pieces of memory of one process in one group.
pub const PIECES_MAX: usize = 4096;

/// The number of a group; no other gets it before the machine starts anew.
pub type GroupNumber = u32;

/// The groups that programs make by calls, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalledGroups {
    last: GroupNumber,
    groups: BTreeMap<GroupNumber, CalledGroup>,
    /// A checksum of the program that each member ran when it was seen last.
    programs: BTreeMap<ProcessKey, u32>,
}

/// A group that a program made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalledGroup {
    /// The name of the group, which several groups may have.
    pub name: GroupName,
    /// The id of the user who made the group.
    pub owner: u32,
    /// The nodes on which the group is to be.
    pub home: GroupHome,
    /// The threads and memory of each process that are in the group.
    pub parts: BTreeMap<ProcessKey, CalledPart>,
}

/// The threads and memory of one process that are in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalledPart {
    /// The threads of the process that are in the group.
    pub threads: ThreadSet,
    /// The memory of the process that is in the group.
    pub memory: Vec<MemorySelector>,
    /// The addresses in `memory` whose pages the process moves itself.
    pub self_moved: Vec<Range>,
}

/// Threads of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ThreadSet {
    /// All threads that are in no other group, also those that will be started.
    All,
    /// The threads with these ids.
    These(BTreeSet<u32>),
}

/// The reasons for which a call changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GroupCallError {
    /// No group has this number.
    #[error("there is no such group")]
    NoGroup,
    /// There are too many groups.
    #[error("there are {GROUPS_MAX} groups; delete some")]
    TooMany,
    /// The process has too many pieces of memory in the group.
    #[error("a process has at most {PIECES_MAX} pieces of memory in a group")]
    TooManyPieces,
}

impl Default for ThreadSet {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl ThreadSet {
    /// Returns whether a thread is in the set.
    pub fn contains(&self, tid: u32) -> bool {
        match self {
            Self::All => true,
            Self::These(tids) => tids.contains(&tid),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn insert(&mut self, tid: u32) {
        if let Self::These(tids) = self {
            tids.insert(tid);
        }
    }

    fn remove(&mut self, tid: u32) {
        if let Self::These(tids) = self {
            tids.remove(&tid);
        }
    }

    /// Returns the ids of the threads that were named; none for all threads.
    pub fn named(&self) -> impl Iterator<Item = u32> {
        let tids = match self {
            Self::All => None,
            Self::These(tids) => Some(tids),
        };
        tids.into_iter().flatten().copied()
    }
}

impl CalledPart {
    fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.memory.is_empty()
    }

    /// Takes a range of addresses out of the part.
    fn cut(&mut self, range: Range) {
        let mut rest = Vec::new();
        // There may be thousands, and thousands of calls in one request: most are only looked at.
        self.memory.retain(|selector| match selector {
            MemorySelector::Range(own) => is_apart(*own, range, &mut rest),
            _ => true,
        });
        self.memory.extend(rest.drain(..).map(MemorySelector::Range));
        self.self_moved.retain(|own| is_apart(*own, range, &mut rest));
        self.self_moved.append(&mut rest);
    }
}

/// Returns whether a piece of memory has no address of `range`. Otherwise the addresses that it has
/// outside of `range` are added to `rest`.
fn is_apart(own: Range, range: Range, rest: &mut Vec<Range>) -> bool {
    if own.intersection(range).is_none() {
        return true;
    }
    let before = Range::new(own.start, own.end.min(range.start));
    let behind = Range::new(own.start.max(range.end), own.end);
    rest.extend([before, behind].into_iter().filter(|piece| !piece.is_empty()));
    false
}

impl CalledGroups {
    /// Makes a group without members. It ends with its last member, or when it is deleted.
    ///
    /// # Errors
    /// If there are too many.
    pub fn add_group(
        &mut self,
        name: GroupName,
        owner: u32,
        home: GroupHome,
    ) -> Result<GroupNumber, GroupCallError> {
        if self.groups.len() >= GROUPS_MAX {
            return Err(GroupCallError::TooMany);
        }
        self.last = self.last.checked_add(1).ok_or(GroupCallError::TooMany)?;
        self.groups.insert(self.last, CalledGroup { name, owner, home, parts: BTreeMap::new() });
        Ok(self.last)
    }

    /// Sets where a group is to be.
    ///
    /// # Errors
    /// If there is no such group.
    pub fn set_home(&mut self, number: GroupNumber, home: GroupHome) -> Result<(), GroupCallError> {
        self.group_mut(number)?.home = home;
        Ok(())
    }

    /// Puts a thread of a process into a group.
    ///
    /// # Errors
    /// If there is no such group.
    pub fn add_thread(
        &mut self,
        number: GroupNumber,
        key: ProcessKey,
        tid: u32,
    ) -> Result<(), GroupCallError> {
        self.group_mut(number)?;
        self.parts_of(key).for_each(|part| part.threads.remove(tid));
        self.group_mut(number)?.parts.entry(key).or_default().threads.insert(tid);
        self.end_empty(number);
        Ok(())
    }

    /// Puts all threads of a process into a group, also those that it will start.
    ///
    /// # Errors
    /// If there is no such group.
    pub fn add_all_threads(
        &mut self,
        number: GroupNumber,
        key: ProcessKey,
    ) -> Result<(), GroupCallError> {
        self.group_mut(number)?;
        self.parts_of(key).for_each(|part| part.threads = ThreadSet::default());
        self.group_mut(number)?.parts.entry(key).or_default().threads = ThreadSet::All;
        self.end_empty(number);
        Ok(())
    }

    /// Puts memory of a process into a group. Addresses leave the group in which they were.
    ///
    /// # Errors
    /// If there is no such group, or it has too many pieces.
    pub fn add_memory(
        &mut self,
        number: GroupNumber,
        key: ProcessKey,
        memory: MemorySelector,
    ) -> Result<(), GroupCallError> {
        let known = self.group_mut(number)?.parts.get(&key);
        if known.is_some_and(|part| part.memory.len() >= PIECES_MAX) {
            return Err(GroupCallError::TooManyPieces);
        }
        match memory {
            MemorySelector::Range(range) => self.parts_of(key).for_each(|part| part.cut(range)),
            ref other => self.parts_of(key).for_each(|part| part.memory.retain(|it| it != other)),
        }
        self.group_mut(number)?.parts.entry(key).or_default().memory.push(memory);
        self.end_empty(number);
        Ok(())
    }

    /// Puts addresses of a process into a group whose pages it moves itself to where the group is.
    /// They count where they are, and the balancer moves none of them.
    ///
    /// # Errors
    /// Those of [`CalledGroups::add_memory`].
    pub fn add_self_moved(
        &mut self,
        number: GroupNumber,
        key: ProcessKey,
        range: Range,
    ) -> Result<(), GroupCallError> {
        self.add_memory(number, key, MemorySelector::Range(range))?;
        self.group_mut(number)?.parts.entry(key).or_default().self_moved.push(range);
        Ok(())
    }

    /// Enters which program a process runs now, by a checksum. By exec it left all groups: the
    /// memory that was in them is gone.
    pub fn see_program(&mut self, key: ProcessKey, program: u32) {
        let before = self.programs.insert(key, program);
        if before.is_some_and(|before| before != program) {
            self.drop_parts(|of, _| of != key);
        }
    }

    /// Returns a checksum of the program that a process ran when it was seen last.
    pub fn program(&self, key: ProcessKey) -> Option<u32> {
        self.programs.get(&key).copied()
    }

    /// Enters the program of a process like [`Self::see_program`], if the process is known here.
    pub fn see_program_again(&mut self, key: ProcessKey, program: u32) {
        if self.programs.contains_key(&key) {
            self.see_program(key, program);
        }
    }

    /// Returns whether calls named single threads. Only then does it matter which thread starts
    /// which.
    pub fn has_named_threads(&self) -> bool {
        self.named_threads().next().is_some()
    }

    /// Enters threads that started and ended, in that order. One that is started joins the group in
    /// which its starter is by name, unless a call named it already; one that ends leaves.
    pub fn see_threads(&mut self, records: &[ThreadRecord]) {
        let keys: BTreeMap<Pid, ProcessKey> =
            self.keys_with_named_threads().map(|key| (key.0, key)).collect();
        let mut own = records.iter().filter(|record| keys.contains_key(&record.pid())).peekable();
        if own.peek().is_none() {
            return;
        }
        let mut group_of: BTreeMap<(ProcessKey, u32), GroupNumber> =
            self.named_threads().map(|(number, key, tid)| ((key, tid), number)).collect();
        for record in own {
            let key = keys[&record.pid()];
            match *record {
                ThreadRecord::Started { tid, starter, .. } => {
                    let starters = group_of.get(&(key, starter)).copied();
                    if let (Some(number), false) = (starters, group_of.contains_key(&(key, tid))) {
                        group_of.insert((key, tid), number);
                        self.change_threads(number, key, |threads| threads.insert(tid));
                    }
                }
                ThreadRecord::Ended { tid, .. } => {
                    if let Some(number) = group_of.remove(&(key, tid)) {
                        self.change_threads(number, key, |threads| threads.remove(tid));
                    }
                }
            }
        }
    }

    /// The processes of which calls named threads, in ascending order within each group.
    fn keys_with_named_threads(&self) -> impl Iterator<Item = ProcessKey> {
        let parts = self.groups.values().flat_map(|group| &group.parts);
        parts.filter(|(_, part)| part.threads.named().next().is_some()).map(|(&key, _)| key)
    }

    /// The threads that calls named, with their groups and processes.
    fn named_threads(&self) -> impl Iterator<Item = (GroupNumber, ProcessKey, u32)> {
        self.groups.iter().flat_map(|(&number, group)| {
            let parts = group.parts.iter();
            parts.flat_map(move |(&key, part)| {
                part.threads.named().map(move |tid| (number, key, tid))
            })
        })
    }

    fn change_threads(
        &mut self,
        number: GroupNumber,
        key: ProcessKey,
        change: impl FnOnce(&mut ThreadSet),
    ) {
        let group = self.groups.get_mut(&number);
        if let Some(part) = group.and_then(|group| group.parts.get_mut(&key)) {
            change(&mut part.threads);
        }
    }

    /// Deletes a group. Its threads and its memory belong to their processes again.
    ///
    /// # Errors
    /// If there is no such group.
    pub fn delete(&mut self, number: GroupNumber) -> Result<CalledGroup, GroupCallError> {
        self.groups.remove(&number).ok_or(GroupCallError::NoGroup)
    }

    /// Keeps what is still there: processes by their keys, and threads of these. Groups that lost
    /// their last member end. Returns whether anything changed.
    pub fn keep(
        &mut self,
        is_there: impl Fn(ProcessKey) -> bool,
        has_thread: impl Fn(ProcessKey, u32) -> bool,
    ) -> bool {
        let mut changed = false;
        self.drop_parts(|key, part| {
            if let ThreadSet::These(tids) = &mut part.threads {
                let before = tids.len();
                tids.retain(|&tid| has_thread(key, tid));
                changed |= tids.len() < before;
            }
            let stays = is_there(key) && !part.is_empty();
            changed |= !stays;
            stays
        });
        self.programs.retain(|&key, _| is_there(key));
        changed
    }

    /// Drops the parts for which `stays` is false. A group that lost its last part ends.
    fn drop_parts(&mut self, mut stays: impl FnMut(ProcessKey, &mut CalledPart) -> bool) {
        self.groups.retain(|_, group| {
            let before = group.parts.len();
            group.parts.retain(|&key, part| stays(key, part));
            group.parts.len() == before || !group.parts.is_empty()
        });
    }

    /// Deletes the groups of `before`; their numbers are not used again.
    pub fn forget(&mut self, before: &Self) {
        self.groups.retain(|&number, _| number > before.last);
    }

    /// Returns the number of the group that was made last.
    pub fn last(&self) -> GroupNumber {
        self.last
    }

    /// Returns the group with this number.
    pub fn get(&self, number: GroupNumber) -> Option<&CalledGroup> {
        self.groups.get(&number)
    }

    /// Returns all groups, in ascending order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (GroupNumber, &CalledGroup)> {
        self.groups.iter().map(|(&number, group)| (number, group))
    }

    /// Returns the group of a thread.
    pub fn group_of(&self, key: ProcessKey, tid: u32) -> Option<GroupNumber> {
        let named = |set: &ThreadSet| matches!(set, ThreadSet::These(tids) if tids.contains(&tid));
        let part = |group: &'_ CalledGroup| group.parts.get(&key).map(|part| part.threads.clone());
        let sets = || self.groups.iter().filter_map(|(&it, group)| Some((it, part(group)?)));
        let by_name = sets().find(|(_, set)| named(set));
        by_name.or_else(|| sets().find(|(_, set)| *set == ThreadSet::All)).map(|(it, _)| it)
    }

    fn group_mut(&mut self, number: GroupNumber) -> Result<&mut CalledGroup, GroupCallError> {
        self.groups.get_mut(&number).ok_or(GroupCallError::NoGroup)
    }

    fn parts_of(&mut self, key: ProcessKey) -> impl Iterator<Item = &mut CalledPart> {
        self.groups.values_mut().filter_map(move |group| group.parts.get_mut(&key))
    }

    /// Ends groups, other than `to`, that lost all their members to it.
    fn end_empty(&mut self, to: GroupNumber) {
        self.groups.retain(|&number, group| {
            let had_any = !group.parts.is_empty();
            group.parts.retain(|_, part| !part.is_empty());
            number == to || !had_any || !group.parts.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::{MappingKind, Pid};

    use super::*;

    fn key(pid: u32) -> ProcessKey {
        (Pid::new(pid).unwrap(), 0)
    }

    fn groups(count: u32) -> CalledGroups {
        let mut groups = CalledGroups::default();
        for number in 1..=count {
            let name = format!("g{number}").parse().unwrap();
            assert_eq!(groups.add_group(name, 1000, GroupHome::Auto), Ok(number));
        }
        groups
    }

    fn range(start: u64, end: u64) -> MemorySelector {
        MemorySelector::Range(Range::new(start, end))
    }

    /// Goal: a thread is in one group, the last call wins, and a group that loses its last member
    /// to another ends; one that never had a member stays.
    #[test]
    fn the_last_call_wins() {
        let mut groups = groups(3);
        groups.add_thread(1, key(7), 7).unwrap();
        groups.add_thread(1, key(7), 8).unwrap();
        groups.add_thread(2, key(7), 8).unwrap();
        let of = |groups: &CalledGroups, tid| groups.group_of(key(7), tid);
        assert_eq!([7, 8, 9].map(|tid| of(&groups, tid)), [Some(1), Some(2), None]);
        groups.add_thread(2, key(7), 7).unwrap();
        assert_eq!(groups.iter().map(|(number, _)| number).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(groups.add_thread(1, key(7), 7), Err(GroupCallError::NoGroup));
        assert_eq!(of(&groups, 7), Some(2), "a call in vain changes nothing");
    }

    /// Goal: all threads of a process are in a group until one is put elsewhere by its number.
    #[test]
    fn all_threads_but_those_named_elsewhere() {
        let mut groups = groups(2);
        groups.add_thread(2, key(7), 9).unwrap();
        groups.add_all_threads(1, key(7)).unwrap();
        assert!(groups.get(2).is_none(), "its thread went to the first");
        let number = groups.add_group("h".parse().unwrap(), 0, GroupHome::Auto).unwrap();
        groups.add_thread(number, key(7), 9).unwrap();
        assert_eq!(groups.group_of(key(7), 9), Some(number));
        assert_eq!(groups.group_of(key(7), 10), Some(1));
        assert_eq!(groups.group_of(key(8), 10), None);
    }

    /// Goal: an address is in one group: a range cuts those of others, also in the middle, and of
    /// this process only.
    #[test]
    fn ranges_cut_others() {
        let mut groups = groups(2);
        groups.add_memory(1, key(7), range(0, 100)).unwrap();
        groups.add_memory(1, key(8), range(0, 100)).unwrap();
        groups.add_memory(2, key(7), range(40, 60)).unwrap();
        let memory = |groups: &CalledGroups, number, pid| {
            groups.get(number).unwrap().parts[&key(pid)].memory.clone()
        };
        assert_eq!(memory(&groups, 1, 7), [range(0, 40), range(60, 100)]);
        assert_eq!(memory(&groups, 1, 8), [range(0, 100)]);
        groups.add_memory(1, key(7), range(50, 55)).unwrap();
        assert_eq!(memory(&groups, 2, 7), [range(40, 50), range(55, 60)]);
        groups.add_memory(1, key(7), MemorySelector::Kind(MappingKind::Heap)).unwrap();
        groups.add_memory(2, key(7), MemorySelector::Kind(MappingKind::Heap)).unwrap();
        assert_eq!(memory(&groups, 1, 7).len(), 3, "the heap went to the second");
    }

    /// Goal: addresses that a process moves itself are cut like all others by a later call, whoever
    /// moves those of it, and are no more its own when it says so.
    #[test]
    fn who_moves_addresses_is_said_by_the_last_call() {
        let mut groups = groups(2);
        groups.add_self_moved(1, key(7), Range::new(0, 100)).unwrap();
        groups.add_memory(2, key(7), range(40, 60)).unwrap();
        let part =
            |groups: &CalledGroups, number| groups.get(number).unwrap().parts[&key(7)].clone();
        let rest = [Range::new(0, 40), Range::new(60, 100)];
        assert_eq!(part(&groups, 1).self_moved, rest);
        assert_eq!(part(&groups, 1).memory, rest.map(MemorySelector::Range));
        assert_eq!(part(&groups, 2).self_moved, []);
        groups.add_self_moved(2, key(7), Range::new(50, 70)).unwrap();
        assert_eq!(part(&groups, 1).self_moved, [Range::new(0, 40), Range::new(70, 100)]);
        assert_eq!(part(&groups, 2).self_moved, [Range::new(50, 70)]);
        assert_eq!(part(&groups, 2).memory, [range(40, 50), range(50, 70)]);
        groups.add_memory(2, key(7), range(50, 70)).unwrap();
        assert_eq!(part(&groups, 2).self_moved, []);
    }

    /// Goal: threads and processes that are gone leave, and what is empty then ends.
    #[test]
    fn who_is_gone_leaves() {
        let mut groups = groups(3);
        groups.add_thread(1, key(7), 7).unwrap();
        groups.add_thread(1, key(7), 8).unwrap();
        groups.add_memory(2, key(8), range(0, 100)).unwrap();
        assert!(!groups.keep(|_| true, |_, _| true));
        assert!(groups.keep(|key| key.0.number() == 7, |_, tid| tid == 8));
        assert_eq!(groups.iter().map(|(number, _)| number).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(groups.group_of(key(7), 7), None);
        assert!(groups.keep(|_| true, |_, _| false));
        assert_eq!(groups.iter().map(|(number, _)| number).collect::<Vec<_>>(), [3]);
    }

    /// Goal: a process that calls exec leaves its groups, and may join again; others stay.
    #[test]
    fn exec_leaves_groups() {
        let mut groups = groups(2);
        for pid in [7, 8] {
            groups.see_program(key(pid), 1);
            groups.add_thread(1, key(pid), pid).unwrap();
        }
        groups.add_memory(2, key(7), range(0, 100)).unwrap();
        groups.see_program(key(7), 1);
        assert_eq!(groups.group_of(key(7), 7), Some(1));
        groups.see_program(key(7), 2);
        assert_eq!([7, 8].map(|pid| groups.group_of(key(pid), pid)), [None, Some(1)]);
        assert!(groups.get(2).is_none(), "nothing else was in it");
        groups.add_thread(1, key(7), 7).unwrap();
        groups.see_program(key(7), 2);
        assert_eq!(groups.group_of(key(7), 7), Some(1));
    }

    /// Goal: numbers are never given twice, and there is an end of groups and of pieces.
    #[test]
    fn there_is_an_end() {
        let mut groups = groups(2);
        groups.delete(2).unwrap();
        assert_eq!(groups.add_group("h".parse().unwrap(), 0, GroupHome::Auto), Ok(3));
        for piece in 0..PIECES_MAX as u64 {
            groups.add_memory(1, key(7), range(2 * piece, 2 * piece + 1)).unwrap();
        }
        let more = groups.add_memory(1, key(7), range(u64::MAX - 1, u64::MAX));
        assert_eq!(more, Err(GroupCallError::TooManyPieces));
        let before = groups.clone();
        assert_eq!(groups.add_group("i".parse().unwrap(), 0, GroupHome::Auto), Ok(4));
        groups.forget(&before);
        assert_eq!(groups.iter().map(|(number, _)| number).collect::<Vec<_>>(), [4]);
    }
}
