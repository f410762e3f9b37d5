//! Test bodies that every machine must pass: the fake one ([`Paper`](crate::paper::Paper)), this
//! kernel and the simulator.
//!
//! A [`Stage`] is a process with pages on one node, and another node to move them to. A body panics
//! with the expected result. Bodies that need pages, nodes or processes in a special state are in
//! [`scenes`]; bodies that read processes are in [`watching`].

pub mod scenes;
pub mod watching;

use std::collections::BTreeSet;

use nodeward_model::{Mapping, NodeId, Page, Pid, Place, Range};

use crate::{CallEnd, EntryStatus, Error, Life, Machine, MoveBatch, Process, Refusal, SEPARATOR};

/// The input of a test body.
pub struct Stage<'a> {
    /// The machine.
    pub machine: &'a dyn Machine,
    /// A running process.
    pub pid: Pid,
    /// At least 1024 base pages of the process, private, present and on `home`.
    pub range: Range,
    /// The node that holds the pages.
    pub home: NodeId,
    /// Another node with room for them.
    pub away: NodeId,
}

/// A test body.
pub type Body = fn(&Stage<'_>);

/// All bodies, by name. Each leaves the pages on `home`.
pub const ALL: [(&str, Body); 9] = [
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

impl Stage<'_> {
    fn held(&self) -> std::sync::Arc<dyn Process> {
        let process = self.machine.hold(self.pid).expect("the process can be held");
        assert_eq!(process.life(), Life::Running);
        process
    }

    fn addresses(&self) -> Vec<u64> {
        (0..PAGES).map(|i| self.range.start + i * self.machine.page_bytes()).collect()
    }

    fn mapping(&self, process: &dyn Process) -> Mapping {
        let mappings = process.mappings().expect("mappings can be read");
        let holds = |m: &Mapping| m.range.and(self.range) == Some(self.range);
        mappings.into_iter().find(holds).expect("one mapping holds the range")
    }

    fn look(&self, process: &dyn Process) -> Vec<Page> {
        let end = self.range.start + PAGES * self.machine.page_bytes();
        let mut pages = Vec::new();
        let mapping = self.mapping(process);
        process
            .pages(&mapping, Range::new(self.range.start, end), &mut pages)
            .expect("pages can be looked at");
        pages
    }

    fn send(&self, process: &dyn Process, to: NodeId) {
        let mut batch = MoveBatch::new(false);
        self.addresses().iter().for_each(|&address| batch.push(address, to));
        let outcome = process.move_pages(&batch).expect("the call is made");
        assert_eq!(outcome.end, CallEnd::Complete);
    }

    fn assert_all_on(&self, process: &dyn Process, node: NodeId) {
        let places = process.locate(&self.addresses()).expect("pages can be located");
        assert!(places.iter().all(|&place| place == Place::On(node)), "{places:?} on {node}");
    }
}

/// The page table and the residency query give the same nodes.
fn looking_and_locating_agree(stage: &Stage<'_>) {
    let process = stage.held();
    stage.assert_all_on(&*process, stage.home);
    let pages = stage.look(&*process);
    assert_eq!(pages.len() as u64, PAGES);
    assert!(pages.iter().all(|page| page.node() == Some(stage.home)), "{pages:?}");
    let total: u64 = pages.iter().map(|page| u64::from(page.folio_pages)).sum();
    assert_eq!(total, PAGES, "folios cover the range exactly");
}

/// Pages moved to another node and back arrive both times, according to every way of reading them.
fn pages_are_where_they_were_sent(stage: &Stage<'_>) {
    let process = stage.held();
    for node in [stage.away, stage.home] {
        stage.send(&*process, node);
        stage.assert_all_on(&*process, node);
        assert!(stage.look(&*process).iter().all(|page| page.node() == Some(node)));
    }
}

/// A request for the present placement changes nothing and reports the present node.
fn pages_already_there_stay(stage: &Stage<'_>) {
    let process = stage.held();
    let mut batch = MoveBatch::new(false);
    stage.addresses().iter().for_each(|&address| batch.push(address, stage.home));
    let outcome = process.move_pages(&batch).expect("the call is made");
    assert_eq!(outcome.end, CallEnd::Complete);
    assert!(outcome.status.iter().all(|&status| status == EntryStatus::On(stage.home)));
}

/// Separators do not stop the entries after them from moving.
fn a_separator_costs_nothing(stage: &Stage<'_>) {
    let process = stage.held();
    let mut batch = MoveBatch::new(false);
    for run in stage.addresses().chunks(8) {
        run.iter().for_each(|&address| batch.push(address, stage.away));
        batch.separate();
    }
    let outcome = process.move_pages(&batch).expect("the call is made");
    assert_eq!(outcome.end, CallEnd::Complete);
    for (address, status) in batch.addresses().iter().zip(&outcome.status) {
        match *address {
            SEPARATOR => assert!(matches!(status, EntryStatus::Refused(_)), "{status:?}"),
            _ => assert_eq!(*status, EntryStatus::On(stage.away)),
        }
    }
    stage.assert_all_on(&*process, stage.away);
    stage.send(&*process, stage.home);
}

/// An unmapped address is refused, and the pages on both sides of it move.
fn a_hole_is_told_and_does_no_harm(stage: &Stage<'_>) {
    let process = stage.held();
    let [first, second, ..] = stage.addresses()[..] else { unreachable!("64 pages") };
    let mut batch = MoveBatch::new(false);
    batch.push(first, stage.away);
    batch.push(stage.machine.page_bytes(), stage.away); // the second page: never mapped
    batch.push(second, stage.away);
    let outcome = process.move_pages(&batch).expect("the call is made");
    assert_eq!(outcome.end, CallEnd::Complete);
    let hole = outcome.status[1];
    let told = [Refusal::Absent, Refusal::Fault].map(EntryStatus::Refused);
    assert!(told.contains(&hole), "{hole:?}");
    let places = process.locate(&[first, second]).expect("pages can be located");
    assert_eq!(places, [Place::On(stage.away); 2]);
    stage.send(&*process, stage.home);
}

/// Holding a process that does not exist fails with `Gone`.
fn a_process_that_is_not_there_is_gone(stage: &Stage<'_>) {
    let nobody = Pid::new(Pid::LIMIT).expect("the limit is a valid number");
    assert!(matches!(stage.machine.hold(nobody), Err(Error::Gone(pid)) if pid == nobody));
}

/// Every handle of a process has the same identity, however often it is taken.
fn a_process_is_itself(stage: &Stage<'_>) {
    let identity = || stage.held().identity().expect("a running process has an identity");
    assert_eq!(identity().pid, stage.pid);
    assert!(identity().is_same(&identity()));
}

/// Each page has a frame of its own below the end, or the machine reports that frame numbers are
/// hidden.
fn frames_are_told_or_denied(stage: &Stage<'_>) {
    let process = stage.held();
    let end = stage.range.start + PAGES * stage.machine.page_bytes();
    let mut frames = Vec::new();
    let told = process.frames(Range::new(stage.range.start, end), &mut frames);
    if !stage.machine.capabilities().frame_numbers {
        assert!(matches!(told, Err(Error::Denied { .. })), "{told:?}");
        assert_eq!(stage.machine.frames_end(), None);
        return;
    }
    told.expect("frames can be read");
    let last = stage.machine.frames_end().expect("frames have an end");
    let present: BTreeSet<u64> = frames.iter().flatten().copied().collect();
    assert_eq!(present.len() as u64, PAGES, "{frames:?}");
    assert!(present.iter().all(|&frame| frame < last), "{present:?} below {last}");
}

/// A node that a process can be moved to has free pages, or no limit.
fn nodes_tell_their_room(stage: &Stage<'_>) {
    let rooms = stage.machine.rooms().expect("the machine tells");
    assert!(rooms.get(&stage.away).is_none_or(|room| room.free_pages > 0), "{rooms:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::{PAGE_BYTES, Paper, Sheet};

    /// Goal: the fake machine passes the bodies that it is used to replace.
    #[test]
    fn paper_conforms() {
        let machine = Paper::new(false);
        let pid = Pid::new(7).unwrap();
        machine.start(pid, Sheet::of(&[Page::on(NodeId(0)); 1024]));
        let range = Range::new(16 * PAGE_BYTES, 1040 * PAGE_BYTES);
        let stage = Stage { machine: &machine, pid, range, home: NodeId(0), away: NodeId(1) };
        for (name, body) in ALL {
            println!("{name}");
            body(&stage);
        }
    }
}
