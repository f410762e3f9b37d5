//! Groups whose content changes: memory that is unmapped or grows, threads whose numbers come back,
//! children, rules that match nothing or all, nodes that leave, and a balancer that is killed at
//! any point.

use std::collections::BTreeSet;
use std::sync::Arc;

use nodeward_balancer::{BalanceSettings, Balancer, CalledGroups, RoundReport, ThreadSet};
use nodeward_machine::fake::FakeMachine;
use nodeward_model::{GroupHome, MemorySelector, NodeId, Page, ProcessFilter, Range};
use nodeward_policy::placement::{Home, Reason};
use proptest::prelude::*;

use crate::groups::*;
use crate::stage::*;

fn on_node(text: &str) -> GroupHome {
    GroupHome::Nodes(text.parse().unwrap())
}

/// Puts these pages of process 7 into a new group that is to be on node 1.
fn group_of_pages(balancer: &Balancer, pages: std::ops::Range<u64>) {
    call(balancer, |groups| {
        let number = groups.add_group("x", on_node("1")).unwrap();
        groups.add_memory(number, key(7), range(pages)).unwrap();
    });
}

/// Unmaps the memory of process 7, and maps `pages` pages on node 0 in its place.
fn remap(fake: &FakeMachine, pages: u64) {
    fake.update_process(pid(7), |process| {
        process.mappings[0].range = Range::new(FIRST * 4096, (FIRST + pages) * 4096);
        let page = |number| (FIRST + number, Page::on(NodeId(0)));
        process.pages = (0..pages).map(page).collect();
    });
}

/// Goal: a group has the addresses that were given to it, whatever is mapped there: of a range that
/// is mapped by half that half moves; what grows into it moves when it is there; what is unmapped
/// is missed by nobody; what is mapped again moves again.
#[test]
fn memory_is_unmapped_and_grows() {
    let fake = with(named(&[(1, "a", 0)]));
    let mut balancer = balancer(&fake, settings(Vec::new()));
    group_of_pages(&balancer, PAGES / 2..PAGES * 3 / 2);
    let counts = |fake: &Arc<FakeMachine>| part_of(fake, 7, PAGES / 2..PAGES * 2);
    rounds(&fake, &mut balancer, 6);
    assert_eq!(counts(&fake), [0, PAGES / 2]);
    for pages in [PAGES * 2, PAGES / 4, PAGES] {
        remap(&fake, pages);
        let reports = rounds(&fake, &mut balancer, 100);
        let inside = (PAGES * 3 / 2).min(pages).saturating_sub(PAGES / 2);
        let behind = pages.saturating_sub(PAGES * 3 / 2);
        assert_eq!(counts(&fake), [behind, inside], "{pages}");
        let told = reports.last().unwrap().groups.first().map(|row| row.residency.clone());
        let there: Vec<_> = told.into_iter().flatten().filter(|&(_, pages)| pages > 0).collect();
        let expected = [(NodeId(1), inside)].into_iter().filter(|&(_, pages)| pages > 0);
        assert_eq!(there, expected.collect::<Vec<_>>(), "{pages}");
    }
    assert_eq!(part_of(&fake, 7, 0..PAGES / 2), [PAGES / 2, 0]);
}

/// Goal: a thread that ended has left its group: another that gets its number is none of it.
#[test]
fn a_number_that_comes_back_is_another_thread() {
    let fake = with(named(&[(1, "a", 0), (2, "b", 1)]));
    let mut balancer = balancer(&fake, settings(Vec::new()));
    group_of_pages(&balancer, 0..100);
    call(&balancer, |groups| groups.add_thread(1, key(7), 2).unwrap());
    rounds(&fake, &mut balancer, 4);
    assert_eq!(node_of(&fake, 7, 2), 1);
    let thread = fake.process(pid(7)).unwrap().threads[&1].clone();
    fake.update_process(pid(7), |process| _ = process.threads.remove(&2));
    rounds(&fake, &mut balancer, 2);
    fake.update_process(pid(7), |process| _ = process.threads.insert(2, thread));
    rounds(&fake, &mut balancer, 6);
    assert_eq!(node_of(&fake, 7, 2), 0);
    let left = call(&balancer, |groups| groups.0.get(1).unwrap().parts[&key(7)].threads.clone());
    assert_eq!(left, ThreadSet::default());
}

/// Goal: a child of fork is another process: it is in no group that its parent joined by a call,
/// and in that of a rule if the rule names it, too.
#[test]
fn a_child_is_another_process() {
    for by_rule in [false, true] {
        let fake = with(named(&[(1, "a", 0)]));
        let all = range(0..PAGES);
        let rules = by_rule.then(|| rule("x", "thread:a", std::slice::from_ref(&all), "1"));
        let mut balancer = balancer(&fake, settings(rules.into_iter().collect()));
        if !by_rule {
            group_of_pages(&balancer, 0..PAGES);
        }
        rounds(&fake, &mut balancer, 6);
        fake.spawn(pid(8), named(&[(8, "a", 0)]));
        let reports = rounds(&fake, &mut balancer, 10);
        assert_eq!(part_of(&fake, 7, 0..PAGES), [0, PAGES]);
        let members = &group(reports.last().unwrap(), "x").processes;
        match by_rule {
            true => assert_eq!(members, &[pid(7), pid(8)]),
            false => assert_eq!(members, &[pid(7)]),
        }
        let own: u64 = row(reports.last().unwrap(), 8).pages.values().sum();
        assert_eq!(own, if by_rule { 0 } else { PAGES }, "by rule: {by_rule}");
    }
}

/// Goal: a rule that matches nothing is no group and changes nothing; one that matches all takes
/// all, and leaves nothing to the rules behind it.
#[test]
fn rules_of_nothing_and_of_all() {
    let fake = fake();
    fake.spawn(pid(7), named(&[(7, "a", 0)]));
    fake.spawn(pid(8), named(&[(8, "b", 1)]));
    let memory = ["anonymous".parse::<MemorySelector>().unwrap()];
    let rules = vec![
        rule("nothing", "command:nobody thread:*", &memory, "0"),
        rule("all", "thread:*", &memory, "1"),
        rule("late", "thread:a", &memory, "0"),
    ];
    let mut balancer = balancer(&fake, settings(rules));
    let reports = rounds(&fake, &mut balancer, 10);
    let last = reports.last().unwrap();
    let with_pages = last.groups.iter().filter(|row| !row.residency.is_empty());
    assert_eq!(with_pages.map(|row| row.name.as_str()).collect::<Vec<_>>(), ["all"]);
    assert_eq!(group(last, "all").processes, [pid(7), pid(8)]);
    for number in [7, 8] {
        assert_eq!(part_of(&fake, number, 0..PAGES), [0, PAGES]);
        assert_eq!(node_of(&fake, number, number), 1);
    }
    assert_eq!(moved(&reports), 2 * PAGES, "each page once");
}

/// Goal: a group whose only node goes offline stays where it is and says why; it goes there when
/// the node is back. Its memory is nowhere else meanwhile.
#[test]
fn the_node_of_a_group_goes_offline() {
    let fake = with(named(&[(1, "a", 0), (2, "b", 1)]));
    let mut balancer = balancer(&fake, settings(Vec::new()));
    fake.set_offline(NodeId(1), true);
    group_of_pages(&balancer, 0..100);
    call(&balancer, |groups| groups.add_thread(1, key(7), 2).unwrap());
    let without = rounds(&fake, &mut balancer, 10);
    assert_eq!((part_of(&fake, 7, 0..100), node_of(&fake, 7, 2)), ([100, 0], 0));
    let told = group(without.last().unwrap(), "x");
    assert_eq!((&told.home, told.decision.reason), (&None, Reason::OneNode));
    fake.set_offline(NodeId(1), false);
    let with_it = rounds(&fake, &mut balancer, 10);
    assert_eq!((part_of(&fake, 7, 0..100), node_of(&fake, 7, 2)), ([0, 100], 1));
    assert_eq!(group(with_it.last().unwrap(), "x").home, Some(Home::Node(NodeId(1))));
    assert_eq!(moved(&with_it), 100);
}

/// Goal: after whatever round a balancer is killed, and in whatever round after it has acted and
/// before it has saved that, the next one ends where one that lives on ends: each page of the group
/// moves once, to its home, and no other page moves.
#[test]
fn killed_at_any_point() {
    for (after, unsaved) in (1..8).flat_map(|after| [(after, 0), (after, 1)]) {
        let fake = with(named(&[(1, "a", 0), (2, "b", 1)]));
        // 2 MiB a second: 512 pages, so that the move of 2048 takes some rounds.
        let settings = || BalanceSettings { budget_bytes_per_s: 2 << 20, ..settings(Vec::new()) };
        let mut first = balancer(&fake, settings());
        group_of_pages(&first, 0..PAGES / 2);
        call(&first, |groups| groups.add_thread(1, key(7), 2).unwrap());
        let mut before = rounds(&fake, &mut first, after);
        let saved = first.saved_state();
        before.extend(rounds(&fake, &mut first, unsaved));
        drop(first);
        let all = ProcessFilter::default();
        let mut second = Balancer::new(machine(&fake), &all, settings(), Some(saved)).unwrap();
        let after_it = rounds(&fake, &mut second, 20);
        assert_eq!(
            part_of(&fake, 7, 0..PAGES / 2),
            [0, PAGES / 2],
            "after {after} rounds and {unsaved}"
        );
        assert_eq!(
            part_of(&fake, 7, PAGES / 2..PAGES),
            [PAGES / 2, 0],
            "after {after} rounds and {unsaved}"
        );
        assert_eq!(node_of(&fake, 7, 2), 1);
        let of_both: Vec<RoundReport> = before.into_iter().chain(after_it).collect();
        assert_eq!(moved(&of_both), PAGES / 2, "after {after} rounds and {unsaved}");
    }
}

/// Goal: what is moved for the groups of a user, however many those are, stays within the user's
/// budget; root has none, and all comes home in the end.
#[test]
fn users_have_a_budget() {
    let fake = fake();
    for number in [7, 8, 9] {
        fake.spawn(pid(number), named(&[(number, "a", 0)]));
    }
    // 1 MiB a second: 256 pages.
    let settings = BalanceSettings { user_budget_bytes_per_s: 1 << 20, ..settings(Vec::new()) };
    let mut balancer = balancer(&fake, settings);
    call(&balancer, |groups| {
        for (number, user) in [(7, 1000), (8, 1000), (9, 0)] {
            let group = groups.0.add_group("x".parse().unwrap(), user, on_node("1")).unwrap();
            groups.add_memory(group, key(number), range(0..PAGES)).unwrap();
        }
    });
    let at_home = |number| part_of(&fake, number, 0..PAGES)[1];
    let of_user = || at_home(7) + at_home(8);
    let mut may_pages = 256; // of the first interval
    for _ in 0..10 {
        let report = round(&fake, &mut balancer);
        // A call that was begun is finished: 256 pages more at most, which the next interval pays.
        assert!(of_user() <= may_pages + 256, "{} of {may_pages}", of_user());
        may_pages += 256 * report.interval_ns / S;
    }
    assert!(of_user() > 0);
    assert_eq!(at_home(9), PAGES);
    rounds(&fake, &mut balancer, 30); // 2 x 4096 / 256 = 32 s
    assert_eq!([7, 8].map(at_home), [PAGES; 2]);
}

/// A call about groups that a program may make.
#[derive(Clone, Debug)]
enum Ask {
    Create,
    Thread { group: u32, pid: u32, tid: u32 },
    AllThreads { group: u32, pid: u32 },
    Memory { group: u32, pid: u32, pages: (u64, u64) },
    Delete { group: u32 },
    EndOfProcess { pid: u32 },
    EndOfThread { tid: u32 },
}

fn asks() -> impl Strategy<Value = Ask> {
    let (group, pid, tid) = (1..6_u32, 7..10_u32, 1..5_u32);
    let pages = (0..8_u64, 1..4_u64);
    prop_oneof![
        2 => Just(Ask::Create),
        4 => (group.clone(), pid.clone(), tid.clone())
            .prop_map(|(group, pid, tid)| Ask::Thread { group, pid, tid }),
        1 => (group.clone(), pid.clone()).prop_map(|(group, pid)| Ask::AllThreads { group, pid }),
        4 => (group.clone(), pid.clone(), pages)
            .prop_map(|(group, pid, pages)| Ask::Memory { group, pid, pages }),
        1 => group.prop_map(|group| Ask::Delete { group }),
        1 => pid.prop_map(|pid| Ask::EndOfProcess { pid }),
        1 => tid.prop_map(|tid| Ask::EndOfThread { tid }),
    ]
}

fn obey(groups: &mut CalledGroups, ask: &Ask) {
    match *ask {
        Ask::Create => _ = groups.add_group("x".parse().unwrap(), 0, GroupHome::Auto),
        Ask::Thread { group, pid, tid } => _ = groups.add_thread(group, key(pid), tid),
        Ask::AllThreads { group, pid } => _ = groups.add_all_threads(group, key(pid)),
        Ask::Memory { group, pid, pages: (first, count) } => {
            _ = groups.add_memory(group, key(pid), range(first..first + count));
        }
        Ask::Delete { group } => _ = groups.delete(group),
        Ask::EndOfProcess { pid } => _ = groups.keep(|of| of != key(pid), |_, _| true),
        Ask::EndOfThread { tid } => _ = groups.keep(|_| true, |_, of| of != tid),
    }
}

/// Returns the number of groups that have a page of a process.
fn owners(groups: &CalledGroups, pid: u32, page: u64) -> usize {
    let page = range(page..page + 1);
    let parts = groups.iter().filter_map(|(_, group)| group.parts.get(&key(pid)));
    parts.flat_map(|part| &part.memory).filter(|own| overlap(own, &page)).count()
}

fn overlap(one: &MemorySelector, other: &MemorySelector) -> bool {
    match (one, other) {
        (MemorySelector::Range(one), MemorySelector::Range(other)) => {
            one.intersection(*other).is_some()
        }
        _ => one == other,
    }
}

proptest! {
    /// Goal: whatever is asked in whatever order, a page and a thread are in one group at most, all
    /// other threads of a process, too, and no part of a group is empty.
    #[test]
    fn everything_is_in_one_group(list in proptest::collection::vec(asks(), 0..60)) {
        let mut groups = CalledGroups::default();
        for ask in &list {
            obey(&mut groups, ask);
            for pid in 7..10 {
                for page in 0..12 {
                    prop_assert!(owners(&groups, pid, page) <= 1, "page {page} of {pid}");
                }
                let parts: Vec<_> =
                    groups.iter().filter_map(|(_, group)| group.parts.get(&key(pid))).collect();
                let all = parts.iter().filter(|part| part.threads == ThreadSet::All).count();
                prop_assert!(all <= 1);
                let mut seen = BTreeSet::new();
                for part in parts {
                    prop_assert!(part.threads != ThreadSet::default() || !part.memory.is_empty());
                    if let ThreadSet::These(tids) = &part.threads {
                        prop_assert!(tids.iter().all(|&tid| seen.insert(tid)));
                    }
                }
            }
        }
    }
}
