//! Collapsing what a move brought to its node, on the fake machine.

use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_machine::{CollapseRefusal, Machine};
use nodeward_model::{MappingKind, NodeId, NodePairs, Page, Pid, Range};
use nodeward_mover::{
    CollapseReport, Jobs, MoveControl, MoveOrder, MoveRequest, Selection, collapse, migrate,
};

/// Pages of a part: a huge page of 2 MiB.
const PART: u64 = 512;
/// The number of the first whole part of a fake process, which begins at page 16.
const FIRST: u64 = PART;

fn pid() -> Pid {
    Pid::new(7).unwrap()
}

fn request() -> MoveRequest {
    let pairs = NodePairs::from_lists(&[NodeId(0)], &[NodeId(1)]);
    MoveRequest {
        orders: vec![[MoveOrder { pairs, pages: None }].into()],
        selection: Selection::default(),
        jobs: Jobs::Fixed(1),
        cpus: Vec::new(),
        rate_bytes_per_s: None,
        stall_ns: None,
        split_huge: false,
    }
}

/// A process of 496 pages, four whole parts, and 16 pages.
fn five_tables() -> FakeProcess {
    FakeProcess::with_pages(&vec![Page::on(NodeId(0)); 5 * PART as usize])
}

/// Moves all from node 0 to 1, and collapses. Returns the report and the process.
fn run(
    fake_process: FakeProcess,
    request: &MoveRequest,
    control: &MoveControl,
) -> (CollapseReport, FakeProcess) {
    let machine = FakeMachine::new(false);
    machine.spawn(pid(), fake_process);
    let processes = [machine.open_process(pid()).unwrap()];
    migrate(&machine, &processes, request, &MoveControl::default(), None).unwrap();
    let report = collapse(&machine, &processes, request, control);
    (report, machine.process(pid()).unwrap())
}

/// Goal: whole parts become huge pages where they are; what begins or ends within one stays as it
/// is.
#[test]
fn whole_parts_are_collapsed() {
    let (report, after) = run(five_tables(), &request(), &MoveControl::default());
    assert_eq!((report.collapsed, report.mixed, report.elsewhere), (4, 0, 0), "{report:?}");
    assert_eq!(report.part_bytes, PART * 4096);
    let heads: Vec<u64> =
        after.pages.iter().filter(|(_, page)| page.folio_pages == 512).map(|(&n, _)| n).collect();
    assert_eq!(heads, [1, 2, 3, 4].map(|part| part * PART));
    assert_eq!(after.residency(), [(NodeId(1), 5 * PART)].into(), "nothing is lost");
}

/// Goal: a part with a pinned page that stayed behind, one with a hole, one that is shared, and one
/// that is refused are each told, and none of them is changed.
#[test]
fn what_is_not_whole_stays() {
    let mut fake_process = five_tables();
    fake_process.pinned = [FIRST + 7].into();
    fake_process.pages.remove(&(FIRST + PART + 3));
    fake_process.collapse_refusals = [(FIRST + 2 * PART, CollapseRefusal::NoHugePage)].into();
    fake_process.pages.insert(FIRST + 3 * PART, Page { shared: true, ..Page::on(NodeId(1)) });
    let (report, after) = run(fake_process, &request(), &MoveControl::default());
    assert_eq!((report.collapsed, report.mixed), (0, 3), "{report:?}");
    assert_eq!(report.refused, [(CollapseRefusal::NoHugePage, 1)].into());
    assert!(after.pages.values().all(|page| page.folio_pages == 1));
}

/// Goal: memory that is not selected, and shared mappings, are left alone.
#[test]
fn only_private_selected_memory_is_collapsed() {
    let mut shared = five_tables();
    shared.mappings[0].shared = true;
    assert_eq!(run(shared, &request(), &MoveControl::default()).0.collapsed, 0);
    let mut file = five_tables();
    file.mappings[0].kind = MappingKind::File;
    assert_eq!(run(file, &request(), &MoveControl::default()).0.collapsed, 0);
    let second = Range::new(2 * PART * 4096, 3 * PART * 4096);
    let selection = Selection { ranges: vec![second], ..Selection::default() };
    let one = MoveRequest { selection, ..request() };
    assert_eq!(run(five_tables(), &one, &MoveControl::default()).0.collapsed, 1);
}

/// Goal: a stop is obeyed between two parts, and told.
#[test]
fn a_stop_ends_it() {
    let control = MoveControl::default();
    control.stop();
    let (report, _) = run(five_tables(), &request(), &control);
    assert_eq!((report.collapsed, report.interrupted), (0, true), "{report:?}");
}

/// Goal: the rate of the move holds: four parts of 2 MiB at 1 MiB a second. The first waits for
/// nothing.
#[test]
fn the_rate_holds() {
    let slow = MoveRequest { rate_bytes_per_s: Some(1 << 20), ..request() };
    let (report, _) = run(five_tables(), &slow, &MoveControl::default());
    assert_eq!(report.collapsed, 4);
    assert!((5_000_000_000..9_000_000_000).contains(&report.took_ns), "{} ns", report.took_ns);
}
