//! Groups: what a round says of them, and where their memory went.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_balancer::{GroupKey, RoundReport};
use nodeward_model::{GroupHome, GroupSpec, NodeId, Nodemask, Pid};
use nodeward_policy::placement::{EntityId, Home};

use super::{Checker, CheckerResult, ensure};

/// Checks a report: each group is told of once and has members; no thread is counted in two; a
/// home is where the rule allows one.
pub fn check_report(report: &RoundReport, groups: &[GroupSpec]) -> CheckerResult {
    let mut seen = BTreeSet::new();
    for row in &report.groups {
        let name = &row.name;
        let once = || format!("group {name} is told of twice");
        ensure(seen.insert(name), Checker::Groups, once)?;
        let empty = || format!("group {name} has no members, and is there");
        ensure(!row.processes.is_empty(), Checker::Groups, empty)?;
        let rule = groups.iter().find(|group| group.name == *name);
        let homes = row.home.as_ref().map(Home::thread_nodes);
        if let (Some(allowed), Some(homes)) = (rule.and_then(|it| nodes_of(&it.home)), homes) {
            let away = || format!("group {name} is at home on {homes}, and may be on {allowed}");
            ensure(homes.is_subset(allowed), Checker::Groups, away)?;
        }
    }
    let threads = report.groups.iter().flat_map(|row| row.threads.values());
    let in_groups: u64 = threads.map(|&threads| u64::from(threads)).sum();
    let there = report.threads;
    let more = || format!("of {there} threads {in_groups} are in groups");
    ensure(in_groups <= there, Checker::Groups, more)
}

/// The groups that have the memory of processes, by a report: of each process the first that may.
pub fn owners(report: &RoundReport, groups: &[GroupSpec]) -> BTreeMap<Pid, GroupHome> {
    let mut owners = BTreeMap::new();
    for rule in groups.iter().filter(|rule| !rule.memory.is_empty()) {
        let row = report.groups.iter().find(|row| row.name == rule.name);
        for &pid in row.into_iter().flat_map(|row| &row.processes) {
            owners.entry(pid).or_insert_with(|| rule.home.clone());
        }
    }
    owners
}

/// Checks where memory of processes was sent: that of a group goes to its home only.
pub fn check_destinations(
    sent: &BTreeMap<Pid, BTreeSet<NodeId>>,
    owners: &BTreeMap<Pid, GroupHome>,
) -> CheckerResult {
    for (pid, nodes) in sent {
        let Some(allowed) = owners.get(pid).and_then(nodes_of) else { continue };
        let away = nodes.iter().find(|&&node| !allowed.contains(node));
        let what = || format!("memory of {pid} was sent to {away:?}, and may be on {allowed}");
        ensure(away.is_none(), Checker::Groups, what)?;
    }
    Ok(())
}

/// Checks that a group has the number that it had before the balancer was killed.
pub fn check_numbers(
    before: &BTreeMap<GroupKey, EntityId>,
    after: &BTreeMap<GroupKey, EntityId>,
) -> CheckerResult {
    for (key, number) in before {
        let now = after.get(key);
        let what = || format!("{key:?} had number {number:?}, and has {now:?}");
        ensure(now.is_none_or(|now| now == number), Checker::Groups, what)?;
    }
    Ok(())
}

/// The home of a group may be on these nodes only, and so may its memory.
fn nodes_of(home: &GroupHome) -> Option<&Nodemask> {
    match home {
        GroupHome::Auto => None,
        GroupHome::Nodes(nodes) | GroupHome::Spread(nodes) => Some(nodes),
    }
}

#[cfg(test)]
mod tests {
    use nodeward_balancer::{Done, GroupRow};
    use nodeward_policy::placement::{Decision, Reason, Verdict};

    use super::*;

    fn nodes(list: &str) -> Nodemask {
        list.parse().unwrap()
    }

    /// Goal: memory of a group that went to another node than its home is found; where a group may
    /// be anywhere, or has no memory of a process, all nodes are right.
    #[test]
    fn memory_that_went_elsewhere_is_found() {
        let pid = |number| Pid::new(number).unwrap();
        let owners = BTreeMap::from([
            (pid(1), GroupHome::Nodes(nodes("1"))),
            (pid(2), GroupHome::Spread(nodes("0-1"))),
            (pid(3), GroupHome::Auto),
        ]);
        let is_right = |process: u32, node: u32| {
            let sent = BTreeMap::from([(pid(process), BTreeSet::from([NodeId(node)]))]);
            check_destinations(&sent, &owners).is_ok()
        };
        assert_eq!([0, 1, 2].map(|node| is_right(1, node)), [false, true, false]);
        assert_eq!([0, 1, 2].map(|node| is_right(2, node)), [true, true, false]);
        assert!(is_right(3, 2) && is_right(4, 2));
    }

    /// Goal: a group that lost its number is found; new ones and those that ended are right.
    #[test]
    fn numbers_that_changed_are_found() {
        let numbers = |all: &[(u32, u64)]| -> BTreeMap<GroupKey, EntityId> {
            all.iter().map(|&(key, number)| (GroupKey::Called(key), EntityId(number))).collect()
        };
        let before = numbers(&[(1, 10), (2, 20)]);
        let is_right = |after: &[(u32, u64)]| check_numbers(&before, &numbers(after)).is_ok();
        assert!(is_right(&[(1, 10), (2, 20), (3, 30)]) && is_right(&[(2, 20)]));
        assert!(!is_right(&[(1, 20), (2, 20)]));
    }

    /// Goal: more threads in groups than there are, groups told of twice, and groups without
    /// members are found in a report.
    #[test]
    fn reports_that_contradict_themselves_are_found() {
        let problem = |report: &RoundReport| check_report(report, &[]).unwrap_err().1;
        let fine = RoundReport::default();
        assert_eq!(check_report(&fine, &[]), Ok(()));
        let row = group_row("a", &[1], 2);
        let report = |groups, threads| RoundReport { groups, threads, ..RoundReport::default() };
        assert_eq!(check_report(&report(vec![row.clone()], 2), &[]), Ok(()));
        assert!(problem(&report(vec![row.clone()], 1)).contains("of 1 threads 2"));
        assert!(problem(&report(vec![row.clone(), row], 4)).contains("twice"));
        assert!(problem(&report(vec![group_row("b", &[], 0)], 4)).contains("no members"));
    }

    fn group_row(name: &str, pids: &[u32], threads: u32) -> GroupRow {
        GroupRow {
            name: name.parse().unwrap(),
            called: None,
            home: None,
            decision: Decision::new(EntityId(0), Verdict::Stays, Reason::RunsThere),
            changed: false,
            processes: pids.iter().map(|&pid| Pid::new(pid).unwrap()).collect(),
            threads: BTreeMap::from([(NodeId(0), threads)]),
            residency: BTreeMap::new(),
            done: Done::default(),
        }
    }
}
