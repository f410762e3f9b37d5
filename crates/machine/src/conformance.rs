//! Test bodies that every machine must pass: the fake one
//! ([`FakeMachine`](crate::fake::FakeMachine)), this kernel and the simulator.
//!
//! A [`MoveFixture`] is a process with pages on one node, and another node to move them to. A body
//! panics with the expected result. Bodies that need pages, nodes or processes in a special state
//! are in [`conditions`]; bodies that read processes are in [`watch`], those about memory that two
//! processes map in [`segments`], those of sources of accesses in [`accesses`], those of threads
//! that start and end in [`thread_records`].

pub mod accesses;
pub mod conditions;
pub mod segments;
pub mod thread_records;
pub mod watch;

use std::collections::BTreeSet;

use nodeward_model::{Mapping, NodeId, Page, PageLocation, Pid, Range};

use crate::{
    CallEnd, EntryRefusal, EntryStatus, Error, Liveness, Machine, MovePagesCall, Process, SEPARATOR,
};

/// The input of a test body.
pub struct MoveFixture<'a> {
    /// The machine.
    pub machine: &'a dyn Machine,
    /// A running process.
    pub pid: Pid,
    /// At least 1024 base pages of the process, private, present and on `source`.
    pub range: Range,
    /// The node that holds the pages.
    pub source: NodeId,
    /// Another node with room for them.
    pub destination: NodeId,
}

/// A test body.
pub type MoveTest = fn(&MoveFixture<'_>);

/// All bodies, by name. Each leaves the pages on `source`.
pub const ALL: [(&str, MoveTest); 9] = [
    ("looking_and_locating_agree", looking_and_locating_agree),
    ("pages_are_where_they_were_sent", pages_are_where_they_were_sent),
    ("pages_already_there_stay", pages_already_there_stay),
    ("a_separator_costs_nothing", a_separator_costs_nothing),
    ("a_hole_is_told_and_does_no_harm", a_hole_is_told_and_does_no_harm),
    ("a_process_that_is_not_there_is_gone", a_process_that_is_not_there_is_gone),
    ("a_process_is_itself", a_process_is_itself),
    ("frames_are_told_or_denied", frames_are_told_or_denied),
    ("nodes_with_pages_tell_their_room", nodes_tell_their_room),
];

const PAGES: u64 = 64;

impl MoveFixture<'_> {
    fn open_process(&self) -> std::sync::Arc<dyn Process> {
        let process = self.machine.open_process(self.pid).expect("the process can be held");
        assert_eq!(process.liveness(), Liveness::Running);
        process
    }

    fn first_addresses(&self) -> Vec<u64> {
        (0..PAGES).map(|i| self.range.start + i * self.machine.page_bytes()).collect()
    }

    fn mapping(&self, process: &dyn Process) -> Mapping {
        let mappings = process.mappings().expect("mappings can be read");
        let holds = |m: &Mapping| m.range.intersection(self.range) == Some(self.range);
        mappings.into_iter().find(holds).expect("one mapping holds the range")
    }

    fn read_pages(&self, process: &dyn Process) -> Vec<Page> {
        let end = self.range.start + PAGES * self.machine.page_bytes();
        let mut pages = Vec::new();
        let mapping = self.mapping(process);
        process
            .pages(&mapping, Range::new(self.range.start, end), &mut pages)
            .expect("pages can be looked at");
        pages
    }

    fn move_to(&self, process: &dyn Process, to: NodeId) {
        let mut batch = MovePagesCall::new(false);
        self.first_addresses().iter().for_each(|&address| batch.push(address, to));
        let outcome = process.move_pages(&batch).expect("the call is made");
        assert_eq!(outcome.end, CallEnd::Complete);
    }

    fn assert_all_on(&self, process: &dyn Process, node: NodeId) {
        let places = process.locate(&self.first_addresses()).expect("pages can be located");
        assert!(
            places.iter().all(|&place| place == PageLocation::On(node)),
            "{places:?} on {node}"
        );
    }
}

/// The page table and the residency query give the same nodes.
fn looking_and_locating_agree(fixture: &MoveFixture<'_>) {
    let process = fixture.open_process();
    fixture.assert_all_on(&*process, fixture.source);
    let pages = fixture.read_pages(&*process);
    assert_eq!(pages.len() as u64, PAGES);
    assert!(pages.iter().all(|page| page.node() == Some(fixture.source)), "{pages:?}");
    let total: u64 = pages.iter().map(|page| u64::from(page.folio_pages)).sum();
    assert_eq!(total, PAGES, "folios cover the range exactly");
}

/// Pages moved to another node and back arrive both times, according to every way of reading them.
fn pages_are_where_they_were_sent(fixture: &MoveFixture<'_>) {
    let process = fixture.open_process();
    for node in [fixture.destination, fixture.source] {
        fixture.move_to(&*process, node);
        fixture.assert_all_on(&*process, node);
        assert!(fixture.read_pages(&*process).iter().all(|page| page.node() == Some(node)));
    }
}

/// A request for the present placement changes nothing and reports the present node.
fn pages_already_there_stay(fixture: &MoveFixture<'_>) {
    let process = fixture.open_process();
    let mut batch = MovePagesCall::new(false);
    fixture.first_addresses().iter().for_each(|&address| batch.push(address, fixture.source));
    let outcome = process.move_pages(&batch).expect("the call is made");
    assert_eq!(outcome.end, CallEnd::Complete);
    assert!(outcome.status.iter().all(|&status| status == EntryStatus::On(fixture.source)));
}

/// Separators do not stop the entries after them from moving.
fn a_separator_costs_nothing(fixture: &MoveFixture<'_>) {
    let process = fixture.open_process();
    let mut batch = MovePagesCall::new(false);
    for run in fixture.first_addresses().chunks(8) {
        run.iter().for_each(|&address| batch.push(address, fixture.destination));
        batch.end_run();
    }
    let outcome = process.move_pages(&batch).expect("the call is made");
    assert_eq!(outcome.end, CallEnd::Complete);
    for (address, status) in batch.addresses().iter().zip(&outcome.status) {
        match *address {
            SEPARATOR => assert!(matches!(status, EntryStatus::Refused(_)), "{status:?}"),
            _ => assert_eq!(*status, EntryStatus::On(fixture.destination)),
        }
    }
    fixture.assert_all_on(&*process, fixture.destination);
    fixture.move_to(&*process, fixture.source);
}

/// An unmapped address is refused, and the pages on both sides of it move.
fn a_hole_is_told_and_does_no_harm(fixture: &MoveFixture<'_>) {
    let process = fixture.open_process();
    let [first, second, ..] = fixture.first_addresses()[..] else { unreachable!("64 pages") };
    let mut batch = MovePagesCall::new(false);
    batch.push(first, fixture.destination);
    batch.push(fixture.machine.page_bytes(), fixture.destination); // the second page: never mapped
    batch.push(second, fixture.destination);
    let outcome = process.move_pages(&batch).expect("the call is made");
    assert_eq!(outcome.end, CallEnd::Complete);
    let hole = outcome.status[1];
    let told = [EntryRefusal::Absent, EntryRefusal::Fault].map(EntryStatus::Refused);
    assert!(told.contains(&hole), "{hole:?}");
    let places = process.locate(&[first, second]).expect("pages can be located");
    assert_eq!(places, [PageLocation::On(fixture.destination); 2]);
    fixture.move_to(&*process, fixture.source);
}

/// Holding a process that does not exist fails with `Gone`.
fn a_process_that_is_not_there_is_gone(fixture: &MoveFixture<'_>) {
    let nobody = Pid::new(Pid::LIMIT).expect("the limit is a valid number");
    assert!(matches!(fixture.machine.open_process(nobody), Err(Error::Gone(pid)) if pid == nobody));
}

/// Every handle of a process has the same identity, however often it is taken.
fn a_process_is_itself(fixture: &MoveFixture<'_>) {
    let identity = || fixture.open_process().identity().expect("a running process has an identity");
    assert_eq!(identity().pid, fixture.pid);
    assert!(identity().is_same(&identity()));
}

/// Each page has a frame of its own below the end, or the machine reports that frame numbers are
/// hidden.
fn frames_are_told_or_denied(fixture: &MoveFixture<'_>) {
    let process = fixture.open_process();
    let end = fixture.range.start + PAGES * fixture.machine.page_bytes();
    let mut frames = Vec::new();
    let told = process.frames(Range::new(fixture.range.start, end), &mut frames);
    if !fixture.machine.capabilities().frame_numbers {
        assert!(matches!(told, Err(Error::Denied { .. })), "{told:?}");
        assert_eq!(fixture.machine.frames_end(), None);
        return;
    }
    told.expect("frames can be read");
    let last = fixture.machine.frames_end().expect("frames have an end");
    let present: BTreeSet<u64> = frames.iter().flatten().copied().collect();
    assert_eq!(present.len() as u64, PAGES, "{frames:?}");
    assert!(present.iter().all(|&frame| frame < last), "{present:?} below {last}");
}

/// A node that a process can be moved to has free pages, or no limit.
fn nodes_tell_their_room(fixture: &MoveFixture<'_>) {
    let rooms = fixture.machine.headroom().expect("the machine tells");
    assert!(rooms.get(&fixture.destination).is_none_or(|room| room.free_pages > 0), "{rooms:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeMachine, FakeProcess, PAGE_BYTES};

    /// Goal: the fake machine passes the bodies that it is used to replace.
    #[test]
    fn the_fake_machine_conforms() {
        let machine = FakeMachine::new(false);
        let pid = Pid::new(7).unwrap();
        machine.spawn(pid, FakeProcess::with_pages(&[Page::on(NodeId(0)); 1024]));
        let range = Range::new(16 * PAGE_BYTES, 1040 * PAGE_BYTES);
        let fixture = MoveFixture {
            machine: &machine,
            pid,
            range,
            source: NodeId(0),
            destination: NodeId(1),
        };
        for (name, body) in ALL {
            println!("{name}");
            body(&fixture);
        }
    }
}
