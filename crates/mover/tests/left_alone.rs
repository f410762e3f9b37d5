//! Memory that a move leaves where it is on request, on the fake machine: large shared memory, and
//! what is probably pinned.

use std::collections::BTreeMap;

use nodeward_machine::Machine;
use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_model::{
    Mapping, MappingKind, MappingOrigin, Name, NodeId, NodePairs, Nodemask, Page, Pid, Range,
    SegmentId, SegmentPart, SkipReason,
};
use nodeward_mover::{
    Jobs, MoveControl, MoveOrder, MoveReport, MoveRequest, Selection, migrate, plan,
};

const PAGE_BYTES: u64 = 4096;

fn pid() -> Pid {
    Pid::new(7).unwrap()
}

/// Returns a process with mappings of the given pages on node 0, one after another from page 16 on.
/// A mapping with a number and an offset in pages is of that segment.
fn process(mappings: &[(u64, Option<(u64, u64)>)]) -> FakeProcess {
    let mut process = FakeProcess::default();
    let mut first = 16;
    for &(pages, segment) in mappings {
        let range = Range::new(first * PAGE_BYTES, (first + pages) * PAGE_BYTES);
        let part = |(inode, offset)| SegmentPart {
            id: SegmentId { inode, ..SegmentId::default() },
            offset: offset * PAGE_BYTES,
            writable: true,
        };
        process.mappings.push(Mapping {
            range,
            kind: if segment.is_some() { MappingKind::Shared } else { MappingKind::Anonymous },
            shared: segment.is_some(),
            huge_page_bytes: None,
            path: Name::default(),
            segment: segment.map(part),
            origin: MappingOrigin::default(),
        });
        process.pages.extend((first..first + pages).map(|page| (page, Page::on(NodeId(0)))));
        first += pages;
    }
    process
}

fn request(selection: Selection) -> MoveRequest {
    let pairs = NodePairs::all_to(&Nodemask::from_iter([NodeId(0)]), NodeId(1));
    MoveRequest {
        orders: vec![[MoveOrder { pairs, pages: None }].into()],
        selection,
        jobs: Jobs::Fixed(1),
        cpus: Vec::new(),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    }
}

/// Moves; returns the report, the pages moved and skipped, and the process afterwards.
fn run(
    process: FakeProcess,
    selection: Selection,
) -> (MoveReport, (u64, BTreeMap<SkipReason, u64>), FakeProcess) {
    let machine = FakeMachine::new(true);
    machine.spawn(pid(), process);
    let held = [machine.open_process(pid()).unwrap()];
    let live = MoveControl::default();
    let report = migrate(&machine, &held, &request(selection), &live, None).unwrap();
    assert_eq!(report.processes[0].residue.appeared(), 0, "the account explains what is there");
    let account = report.account();
    (report, (account.moved, account.skipped), machine.process(pid()).unwrap())
}

/// Goal: a segment stays if what the process maps of it is larger than the limit, in one mapping or
/// in several; smaller ones and private memory move. The plan tells the same.
#[test]
fn large_segments_stay() {
    let mappings =
        [(4000, None), (1000, Some((1, 0))), (1000, Some((1, 1000))), (1500, Some((2, 0)))];
    let selection = Selection { shared_bytes_max: Some(1500 * PAGE_BYTES), ..Selection::default() };
    let (_, told, after) = run(process(&mappings), selection.clone());
    assert_eq!(told, (5500, [(SkipReason::SharedAbove, 2000)].into()));
    assert_eq!(after.residency(), [(NodeId(0), 2000), (NodeId(1), 5500)].into());
    let machine = FakeMachine::new(true);
    machine.spawn(pid(), process(&mappings));
    let held = [machine.open_process(pid()).unwrap()];
    let planned = plan(&machine, &held, &request(selection), &MoveControl::default()).unwrap();
    let total = planned.total();
    assert_eq!((total.pages(), total.account.skipped_for(SkipReason::SharedAbove)), (5500, 2000));
}

/// Goal: on a kernel that lists no populated memory, what stays is not moved by a walk either.
#[test]
fn a_walk_moves_nothing_that_stays() {
    let machine = FakeMachine::new(true).without_pagemap_scan();
    machine.spawn(pid(), process(&[(10, None), (1000, Some((1, 0)))]));
    let held = [machine.open_process(pid()).unwrap()];
    let selection = Selection { shared_bytes_max: Some(0), ..Selection::default() };
    let live = MoveControl::default();
    let report = migrate(&machine, &held, &request(selection), &live, None).unwrap();
    assert_eq!(report.account().skipped, [(SkipReason::SharedAbove, 1000)].into());
    assert_eq!(machine.process(pid()).unwrap().residency()[&NodeId(0)], 1000);
}

const SKIP_PINNED: fn() -> Selection = || Selection { skip_pinned: true, ..Selection::default() };

/// Goal: of a mapping that is pinned as a whole 64 pages are tried; other mappings move. (4096
/// pages from page 16 on, then 1000.)
#[test]
fn a_pinned_mapping_is_tried_once() {
    let pinned = (16..16 + 4096).collect();
    let pinned = FakeProcess { pinned, ..process(&[(4096, None), (1000, None)]) };
    let (_, told, after) = run(pinned.clone(), SKIP_PINNED());
    let left = [(SkipReason::Pinned, 64), (SkipReason::PinnedUntried, 4032)];
    assert_eq!(told, (1000, left.into()));
    let (_, told, tried) = run(pinned, Selection::default());
    assert_eq!(told, (1000, [(SkipReason::Pinned, 4096)].into()));
    assert!(after.run_pages_max <= 1000 && tried.run_pages_max > 1000, "the kernel saw no more");
}

/// Goal: some pinned pages make no pinned mapping where nothing is counted.
#[test]
fn a_mapping_that_moves_is_tried_to_its_end() {
    let some = FakeProcess { pinned: (16..26).collect(), ..process(&[(4096, None)]) };
    let (_, told, _) = run(some, SKIP_PINNED());
    assert_eq!(told, (4086, [(SkipReason::Pinned, 10)].into()));
}

/// Goal: where the kernel counts 100 pages, the first refusal tells where they are, and no more are
/// left untried. Of 64 pages that are tried first, those from the 11th on are refused: 54. So 46
/// follow that are not tried.
#[test]
fn no_more_is_left_than_is_counted() {
    let pinned = (26..126).collect();
    let pinned_bytes = 100 * PAGE_BYTES;
    let some = FakeProcess { pinned, pinned_bytes, ..process(&[(4096, None)]) };
    let (_, told, _) = run(some, SKIP_PINNED());
    let left = [(SkipReason::Pinned, 54), (SkipReason::PinnedUntried, 46)];
    assert_eq!(told, (3996, left.into()));
}
