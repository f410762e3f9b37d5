//! Goal: after a restart, with other addresses, memory and threads are brought to where they were;
//! and what cannot be is told with its reason.

use std::sync::Arc;

use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
use nodeward_machine::{Machine, Process};
use nodeward_model::{
    Account, CpuId, Mapping, MappingKind, MappingOrigin, NodeId, Nodemask, Page, Permissions, Pid,
    ProcessFilter, Range, SegmentId, SegmentPart, SkipReason,
};
use nodeward_records::placement::{EscapedName, PlacedProcess, SavedPlacement, SavedRun};
use proptest::prelude::*;

use super::matching::{MappingKey, pair};
use super::survey::described;
use super::*;
use crate::memory_walk::MemoryView;
use crate::{Jobs, MoveControl, MoveOrder, MoveRequest, Selection, migrate};

const PAGE: u64 = 4096;

fn pid(number: u32) -> Pid {
    Pid::new(number).unwrap()
}

fn node(number: u32) -> NodeId {
    NodeId(number)
}

/// Returns a mapping from page number `first` on.
fn mapping(kind: MappingKind, path: &str, first: u64, pages: u64) -> Mapping {
    Mapping {
        range: Range::new(first * PAGE, (first + pages) * PAGE),
        kind,
        shared: kind == MappingKind::Shared,
        huge_page_bytes: None,
        path: path.into(),
        segment: None,
        origin: MappingOrigin {
            offset: 0,
            permissions: Permissions { read: true, write: true, execute: false },
        },
    }
}

/// A process with mappings whose pages are on nodes; `None` is an absent page.
fn process(mappings: &[(Mapping, Vec<Option<u32>>)]) -> FakeProcess {
    let mut process = FakeProcess::default();
    for (mapping, nodes) in mappings {
        let pages = (mapping.range.start / PAGE..).zip(nodes);
        let on = |(number, on): (u64, &Option<u32>)| Some((number, Page::on(node((*on)?))));
        process.pages.extend(pages.filter_map(on));
        process.mappings.push(mapping.clone());
    }
    process
}

fn held(machine: &FakeMachine, pids: &[u32]) -> Vec<Arc<dyn Process>> {
    pids.iter().map(|&number| machine.open_process(pid(number)).unwrap()).collect()
}

fn views<'a>(processes: &'a [Arc<dyn Process>], selection: &'a Selection) -> Vec<MemoryView<'a>> {
    processes.iter().map(|process| MemoryView { process, selection }).collect()
}

/// Saves the memory of processes.
fn save(machine: &FakeMachine, pids: &[u32]) -> SavedPlacement {
    let (processes, selection) = (held(machine, pids), Selection::default());
    let views = views(&processes, &selection);
    let SavedMemory { mappings, segments } =
        saved_memory(machine, &views, views.len(), usize::MAX, &MoveControl::default()).unwrap();
    let saved = mappings.into_iter().zip(pids).map(|(mappings, &number)| PlacedProcess {
        pid: pid(number),
        name: EscapedName::new("paper"),
        executable: None,
        threads: Vec::new(),
        mappings,
    });
    SavedPlacement::new(0, saved.collect(), segments)
}

/// Decides what goes where, on a machine with nodes 0 and 1.
fn orders(machine: &FakeMachine, pids: &[u32], saved: &SavedPlacement) -> RestoreOrders {
    let (processes, selection) = (held(machine, pids), Selection::default());
    let nodes: Nodemask = "0-1".parse().unwrap();
    let views = views(&processes, &selection);
    restore_orders(machine, &views, saved, &nodes, &MoveControl::default()).unwrap()
}

/// Restores memory, and returns what was decided and how many pages moved.
fn restore(machine: &FakeMachine, pids: &[u32], saved: &SavedPlacement) -> (FoundPlacement, u64) {
    let RestoreOrders { orders, found } = orders(machine, pids, saved);
    (found, carried_out(machine, pids, orders).moved)
}

/// Carries orders out.
fn carried_out(machine: &FakeMachine, pids: &[u32], orders: Vec<Arc<[MoveOrder]>>) -> Account {
    let request = MoveRequest {
        orders,
        selection: Selection::default(),
        jobs: Jobs::Fixed(1),
        cpus: Vec::new(),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    };
    let (processes, live) = (held(machine, pids), MoveControl::default());
    migrate(machine, &processes, &request, &live, None).unwrap().account()
}

fn runs(of: &[(u64, u64, u32)]) -> Vec<SavedRun> {
    let run = |&(at, pages, on): &(u64, u64, u32)| SavedRun {
        at: at * PAGE,
        bytes: pages * PAGE,
        node: node(on),
    };
    of.iter().map(run).collect()
}

/// Returns the node of each of some pages.
fn nodes_of(machine: &FakeMachine, number: u32, first: u64, pages: u64) -> Vec<Option<u32>> {
    let process = machine.process(pid(number)).unwrap();
    let on = |page: u64| Some(process.pages.get(&page)?.node()?.0);
    (first..first + pages).map(on).collect()
}

/// Goal: each kind of memory is found again at other addresses: the heap from its start on, the
/// stack from its end on although it is larger, a file by its path and offset although it was
/// replaced, a stack of a thread and an allocation by their sizes.
#[test]
fn memory_is_found_again() {
    use MappingKind::{Anonymous, File, Heap, Stack};
    let machine = FakeMachine::new(true);
    let there = |nodes: &[u32]| nodes.iter().map(|&node| Some(node)).collect::<Vec<_>>();
    let placed = |at: u64, stack: u64, deleted: &str, thread: &str| {
        let mut data = mapping(File, &format!("/lib/x.so{deleted}"), at + 10, 2);
        data.origin.offset = 0x3000;
        [
            mapping(File, &format!("/lib/x.so{deleted}"), at, 2),
            data,
            mapping(Heap, "[heap]", at + 20, 4),
            mapping(Anonymous, "", at + 30, 3),
            mapping(Anonymous, thread, at + 40, 2),
            mapping(Anonymous, thread, at + 50, 2),
            mapping(Stack, "[stack]", at + 60, stack),
        ]
    };
    let before = [&[0, 1][..], &[1, 1], &[0, 1, 1, 0], &[1, 0, 1], &[1, 1], &[0, 0], &[0, 1]];
    let old = placed(16, 2, " (deleted)", "[anon:stack: 71]");
    let with = |nodes: &[u32]| there(nodes);
    let mappings: Vec<_> = old.into_iter().zip(before.map(with)).collect();
    machine.spawn(pid(7), process(&mappings));
    let saved = save(&machine, &[7]);
    assert_eq!(saved.processes[0].mappings[2].runs, runs(&[(0, 1, 0), (1, 2, 1), (3, 1, 0)]));
    let new = placed(1000, 3, "", "[anon:stack: 9]").map(|mapping| {
        let pages = mapping.range.bytes() / PAGE;
        (mapping, vec![Some(0); pages as usize])
    });
    machine.spawn(pid(8), process(&new));
    let (found, moved) = restore(&machine, &[8], &saved);
    // Of 17 pages that were saved 10 were on node 1: 1 + 2 + 2 + 2 + 2 + 0 + 1.
    assert_eq!((moved, &found.unmatched), (10, &vec![]), "{found:?}");
    assert_eq!(found.before, [(node(0), 17)].into());
    assert_eq!((found.leaving, found.arriving), ([(node(0), 10)].into(), [(node(1), 10)].into()));
    assert_eq!((found.not_saved, found.not_in_memory), (1, 0), "the stack's first page is new");
    for (mapping, nodes) in new[..6].iter().map(|(mapping, _)| mapping).zip(before) {
        let first = mapping.range.start / PAGE;
        assert_eq!(nodes_of(&machine, 8, first, nodes.len() as u64), there(nodes), "{mapping:?}");
    }
    assert_eq!(nodes_of(&machine, 8, 1060, 3), there(&[0, 0, 1]));
    assert_eq!(restore(&machine, &[8], &saved).1, 0, "nothing is left to do");
}

/// Goal: what has no counterpart, or more than one, is told with its pages and its reason; so is
/// memory that was on a node that is not here, and memory that is not there yet.
#[test]
fn what_does_not_match_is_told() {
    use MappingKind::{Anonymous, Heap};
    let machine = FakeMachine::new(true);
    let of = |number: u64, pages: u64, on: u32| {
        (mapping(Anonymous, "", number, pages), vec![Some(on); pages as usize])
    };
    let heap = |number, nodes: &[Option<u32>]| {
        (mapping(Heap, "[heap]", number, nodes.len() as u64), nodes.to_vec())
    };
    let far = [Some(1), Some(3), Some(1), Some(1)];
    let old = [heap(10, &far), of(20, 3, 1), of(30, 5, 1), of(40, 5, 0), of(50, 7, 1)];
    machine.spawn(pid(7), process(&old));
    let saved = save(&machine, &[7]);
    let near = [Some(0), Some(0), Some(0), None];
    let new = [heap(110, &near), of(130, 5, 0), of(140, 5, 0), of(145, 5, 0), of(150, 7, 0)];
    machine.spawn(pid(8), process(&new));
    let (found, moved) = restore(&machine, &[8], &saved);
    let told: Vec<_> = found.unmatched.iter().map(|it| (it.pages, it.why.name())).collect();
    assert_eq!(told, [(3, "none-alike"), (5, "ambiguous"), (5, "ambiguous")]);
    assert_eq!(found.missing_nodes, [(node(3), 1)].into());
    // Not in memory: the last page of the heap. Not saved: three mappings of 5 pages.
    assert_eq!((found.not_in_memory, found.not_saved, moved), (1, 15, 2 + 7));
}

/// Goal: a look that finds more pieces than are wanted ends: of five mappings with a run each, 10
/// pieces, all are there with 10, and the control is stopped with 9.
#[test]
fn a_look_at_too_many_pieces_ends() {
    let machine = FakeMachine::new(true);
    let of = |first| (mapping(MappingKind::Anonymous, "", first, 2), vec![Some(0); 2]);
    machine.spawn(pid(7), process(&[10, 20, 30, 40, 50].map(of)));
    let (processes, selection) = (held(&machine, &[7]), Selection::default());
    let views = views(&processes, &selection);
    for (pieces_max, is_stopped) in [(10, false), (9, true)] {
        let control = MoveControl::default();
        saved_memory(&machine, &views, 1, pieces_max, &control).unwrap();
        assert_eq!(control.is_stopped(), is_stopped);
    }
}

/// Goal: if a node goes offline after it was decided what goes there, that stays, with the kernel's
/// reason, and the rest comes back: of four pages on the wrong node two.
#[test]
fn a_node_that_went_offline_takes_nothing() {
    let machine = FakeMachine::new(true);
    let heap = |nodes| process(&[(mapping(MappingKind::Heap, "[heap]", 16, 4), nodes)]);
    machine.spawn(pid(7), heap([0, 0, 1, 1].map(Some).into()));
    let saved = save(&machine, &[7]);
    machine.spawn(pid(8), heap([1, 1, 0, 0].map(Some).into()));
    let orders = orders(&machine, &[8], &saved);
    machine.set_offline(node(1), true);
    let account = carried_out(&machine, &[8], orders.orders);
    assert_eq!((account.moved, account.skipped), (2, [(SkipReason::NotAllowed, 2)].into()));
    assert_eq!(nodes_of(&machine, 8, 16, 4), [0; 4].map(Some));
}

/// Goal: a folio that is larger than what was there goes whole to where most of it was.
#[test]
fn a_folio_is_not_split() {
    let machine = FakeMachine::new(true);
    let old = mapping(MappingKind::Heap, "[heap]", 16, 8);
    let nodes = [1, 1, 1, 0, 0, 1, 0, 0].map(Some);
    machine.spawn(pid(7), process(&[(old, nodes.into())]));
    let saved = save(&machine, &[7]);
    let mut new = process(&[(mapping(MappingKind::Heap, "[heap]", 32, 8), vec![Some(0); 8])]);
    for (number, page) in &mut new.pages {
        page.folio_pages = if number % 4 == 0 { 4 } else { 0 };
    }
    machine.spawn(pid(8), new);
    assert_eq!(restore(&machine, &[8], &saved).1, 4);
    let nodes = [1, 1, 1, 1, 0, 0, 0, 0].map(Some);
    assert_eq!(nodes_of(&machine, 8, 32, 8), nodes);
}

/// A process that shows a segment from its page `offset` on.
fn shows(inode: u64, (first, offset): (u64, u64), nodes: &[Option<u32>]) -> FakeProcess {
    let mut shared = mapping(MappingKind::Shared, "/dev/shm/pool", first, nodes.len() as u64);
    let id = SegmentId { major: 0, minor: 1, inode };
    shared.segment = Some(SegmentPart { id, offset: offset * PAGE, writable: true });
    process(&[(shared, nodes.to_vec())])
}

/// Goal: a segment is saved once, and restored through whatever process has its pages now: here
/// the first had touched pages 0 to 3 and the second 2 to 5, and now it is the other way round.
#[test]
fn a_segment_is_restored_through_any_process() {
    let machine = FakeMachine::new(true);
    machine.spawn(pid(7), shows(4711, (16, 0), &[Some(1), Some(1), Some(0), Some(0), None, None]));
    machine.spawn(pid(8), shows(4711, (32, 2), &[Some(0), Some(0), Some(1), Some(0)]));
    let saved = save(&machine, &[7, 8]);
    assert_eq!(saved.segments, [runs(&[(0, 2, 1), (2, 2, 0), (4, 1, 1), (5, 1, 0)])]);
    machine.spawn(pid(9), shows(5, (64, 0), &[None, None, Some(0), Some(0), Some(0), Some(0)]));
    machine.spawn(pid(10), shows(5, (96, 2), &[Some(0), Some(0), Some(0), Some(0)]));
    machine.spawn(pid(11), shows(5, (128, 0), &[Some(0), Some(0), Some(0), None, None, None]));
    let mut again = saved.clone();
    let third = PlacedProcess { pid: pid(9), ..saved.processes[0].clone() };
    again.processes.push(third);
    let (found, moved) = restore(&machine, &[9, 10, 11], &again);
    assert_eq!((moved, found.before), (3, [(node(0), 6)].into()), "each page once");
    assert_eq!((found.not_in_memory, found.not_saved, found.unmatched), (0, 0, vec![]));
}

/// Goal: a segment that no process has now is told once.
#[test]
fn a_segment_that_is_gone_is_told_once() {
    let machine = FakeMachine::new(true);
    machine.spawn(pid(7), shows(4711, (16, 0), &[Some(1), Some(1)]));
    machine.spawn(pid(8), shows(4711, (16, 0), &[Some(1), Some(1)]));
    let saved = save(&machine, &[7, 8]);
    let heap = (mapping(MappingKind::Heap, "[heap]", 16, 1), vec![Some(0)]);
    machine.spawn(pid(7), process(std::slice::from_ref(&heap)));
    machine.spawn(pid(8), process(&[heap]));
    let RestoreOrders { found, .. } = orders(&machine, &[7, 8], &saved);
    let told: Vec<_> = found.unmatched.iter().map(|it| (it.pages, it.why.name())).collect();
    assert_eq!(told, [(2, "none-alike")]);
}

/// Goal: mappings are told apart by what stays the same over a restart.
#[test]
fn what_is_alike() {
    use MappingKind::{Anonymous, File, Heap, Shared, Stack};
    let key = |mapping: &Mapping| MappingKey::of(&described(mapping));
    let base = mapping(Anonymous, "", 16, 4);
    let with = |change: &dyn Fn(&mut Mapping)| {
        let mut changed = base.clone();
        change(&mut changed);
        key(&changed)
    };
    assert_eq!(key(&mapping(Anonymous, "", 99, 4)), key(&base));
    assert_ne!(key(&mapping(Anonymous, "", 16, 5)), key(&base), "another size");
    assert_ne!(with(&|it| it.origin.permissions.write = false), key(&base));
    assert_eq!(with(&|it| it.origin.offset = 5), key(&base), "no file, no offset");
    for kind in [Heap, Stack, File] {
        assert_eq!(key(&mapping(kind, "/x", 16, 5)), key(&mapping(kind, "/x", 99, 4)), "{kind}");
    }
    assert_ne!(key(&mapping(File, "/x", 16, 4)), key(&mapping(File, "/y", 16, 4)));
    assert_eq!(key(&mapping(File, "/x (deleted)", 16, 4)), key(&mapping(File, "/x", 16, 4)));
    for name in ["/SYSV00000000 (deleted)", "/dev/zero (deleted)", "/memfd:pool (deleted)"] {
        assert_ne!(key(&mapping(Shared, name, 16, 5)), key(&mapping(Shared, name, 16, 4)));
        assert_eq!(key(&mapping(Shared, name, 16, 4)), key(&mapping(Shared, name, 99, 4)));
    }
}

/// A process with threads, each with a name, a CPU, and the CPUs on which it may run.
fn with_threads(threads: &[(&str, u32, &str)]) -> FakeProcess {
    let mut process = process(&[(mapping(MappingKind::Heap, "[heap]", 16, 1), vec![Some(0)])]);
    for (tid, (name, cpu, cpus)) in (7..).zip(threads) {
        let thread = FakeThread::new(CpuId(*cpu), cpus.parse().unwrap(), 500);
        process.threads.insert(tid, FakeThread { name: (*name).into(), ..thread });
    }
    process
}

/// Returns the threads of a process.
fn threads(machine: &FakeMachine, number: u32) -> Vec<PresentThread> {
    let wanted = ProcessFilter { pids: vec![pid(number)], ..ProcessFilter::default() };
    let sample = machine.watch(&wanted).unwrap().snapshot().unwrap();
    let topology = machine.topology().unwrap();
    let process = machine.open_process(pid(number)).unwrap();
    present_threads(&*process, &sample.processes[0], &topology).unwrap()
}

/// Goal: a thread that was free is brought to its node and stays free; one that was bound is bound
/// again, unless it is bound by now; names that are more or fewer than they were are left alone.
/// CPUs 0 to 3 are node 0, 4 to 7 node 1.
#[test]
fn threads_are_brought_back() {
    let machine = FakeMachine::with_topology(true, "2n 4c 1t 4GiB");
    machine.spawn(
        pid(7),
        with_threads(&[
            ("db", 0, "0-7"),
            ("wal", 5, "0-7"),
            ("io", 6, "6"),
            ("log", 1, "1-2"),
            ("pool", 5, "0-7"),
            ("pool", 1, "0-7"),
            ("gone", 1, "0-7"),
            ("cron", 1, "0-3"),
        ]),
    );
    let saved: Vec<_> = threads(&machine, 7).into_iter().map(|it| it.thread).collect();
    assert_eq!((saved[1].node, saved[1].cpus.as_ref()), (Some(node(1)), None));
    assert_eq!(saved[2].cpus.as_ref().map(ToString::to_string).as_deref(), Some("6"));
    machine.spawn(
        pid(8),
        with_threads(&[
            ("db", 4, "0-7"),
            ("wal", 1, "0-7"),
            ("io", 0, "0-7"),
            ("log", 4, "4"),
            ("pool", 0, "0-7"),
            ("cron", 1, "0-3"),
        ]),
    );
    let process = machine.open_process(pid(8)).unwrap();
    let topology = machine.topology().unwrap();
    let told = |action| {
        let present = threads(&machine, 8);
        let told = restore_threads(&*process, &saved, &present, &topology, action).unwrap();
        told.into_iter().map(ThreadOutcome::name).collect::<Vec<_>>()
    };
    let expected = [
        "on-its-node",
        "on-its-node",
        "bound",
        "own-affinity",
        "ambiguous",
        "ambiguous",
        "none-alike",
        "bound",
    ];
    assert_eq!(told(ThreadMode::Plan), expected);
    assert_eq!(machine.process(pid(8)).unwrap().affinity_calls, 0, "a plan changes nothing");
    assert_eq!(told(ThreadMode::Place), expected);
    let now = machine.process(pid(8)).unwrap().threads;
    let shown: Vec<_> = now.values().map(|it| (it.cpu.0 / 4, it.cpus.to_string())).collect();
    let free = "0-7".to_owned();
    let expected = [
        (0, free.clone()),
        (1, free.clone()),
        (1, "6".to_owned()),
        (1, "4".to_owned()),
        (0, free),
        (0, "0-3".to_owned()),
    ];
    assert_eq!(shown, expected);
}

proptest! {
    /// Goal: of things in any order, the n-th of a kind is the n-th of it again, whatever is
    /// between; a kind of which one came or went is ambiguous or gone, and no other is.
    #[test]
    fn the_nth_is_the_nth(
        saved in proptest::collection::vec(0..4_u8, 0..30),
        places in proptest::collection::vec(any::<u32>(), 30),
        lost in proptest::option::of(0..4_u8),
    ) {
        let mut present: Vec<(u32, u8)> = places.iter().copied().zip(saved.clone()).collect();
        let mut of_kind = [0; 4];
        for (place, kind) in &mut present {
            // Within a kind the order stays.
            of_kind[usize::from(*kind)] += 1 + *place % 7;
            *place = of_kind[usize::from(*kind)];
        }
        present.sort_by_key(|(place, _)| *place);
        let lost_at = lost.and_then(|lost| present.iter().position(|(_, kind)| *kind == lost));
        lost_at.map(|at| present.remove(at));
        let present: Vec<u8> = present.into_iter().map(|(_, kind)| kind).collect();
        let nth = |list: &[u8], at: usize| {
            list[..at].iter().filter(|&&kind| kind == list[at]).count()
        };
        for (at, paired) in pair(&saved, &present).into_iter().enumerate() {
            match paired {
                Ok(new) => {
                    prop_assert_eq!(present[new], saved[at]);
                    prop_assert_eq!(nth(&present, new), nth(&saved, at));
                }
                Err(Unmatched::NoneAlike) => prop_assert!(!present.contains(&saved[at])),
                Err(Unmatched::Ambiguous) => {
                    prop_assert!(lost_at.is_some() && lost == Some(saved[at]));
                }
            }
        }
    }

    /// Goal: whatever was saved, each page that is there again ends where it was, and each other
    /// page where it is; and every page is counted once.
    #[test]
    fn each_page_ends_where_it_was(
        old in proptest::collection::vec(proptest::option::of(0..3_u32), 1..80),
        new in proptest::collection::vec(proptest::option::of(0..2_u32), 1..80),
    ) {
        let machine = FakeMachine::new(true);
        let heap = |first, nodes: &Vec<Option<u32>>| {
            (mapping(MappingKind::Heap, "[heap]", first, nodes.len() as u64), nodes.clone())
        };
        machine.spawn(pid(7), process(&[heap(16, &old)]));
        let saved = save(&machine, &[7]);
        machine.spawn(pid(8), process(&[heap(500, &new)]));
        let (found, moved) = restore(&machine, &[8], &saved);
        let wanted = |at: usize| old.get(at).copied().flatten();
        let expected: Vec<_> = new.iter().enumerate().map(|(at, now)| match (wanted(at), now) {
            (Some(node @ 0..2), Some(_)) => Some(node),
            _ => *now,
        }).collect();
        let changed = expected.iter().zip(&new).filter(|(then, now)| then != now).count() as u64;
        prop_assert_eq!(nodes_of(&machine, 8, 500, new.len() as u64), expected);
        prop_assert_eq!(moved, changed);
        let sum = |counts: &std::collections::BTreeMap<NodeId, u64>| counts.values().sum::<u64>();
        let counted = sum(&found.before) + sum(&found.missing_nodes);
        let present = new.iter().flatten().count() as u64;
        prop_assert_eq!(counted + found.not_saved, present);
        let saved_pages = old.iter().flatten().count() as u64;
        prop_assert_eq!(counted + found.not_in_memory, saved_pages);
    }
}
