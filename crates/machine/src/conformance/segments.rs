//! Test bodies about a segment that two processes map.

use nodeward_model::{Mapping, NodeId, PageLocation, Pid, SegmentId, SegmentPart};

use crate::{CallEnd, EntryRefusal, EntryStatus, Machine, MovePagesCall, MovePagesOutcome};

/// Two running processes that map one segment, at least its first page, and that page is present
/// for both. They map no other segment together.
pub struct SegmentFixture<'a> {
    /// The machine.
    pub machine: &'a dyn Machine,
    /// The processes.
    pub pids: [Pid; 2],
    /// The node that holds the page.
    pub source: NodeId,
    /// Another node with room for it; `None` on a machine that has no other.
    pub destination: Option<NodeId>,
}

/// A test body.
pub type SegmentTest = fn(&SegmentFixture<'_>);

/// All bodies, by name. Each leaves the page where it was.
pub const ALL: [(&str, SegmentTest); 2] = [
    ("both_processes_show_one_segment", both_processes_show_one_segment),
    ("a_page_moves_for_all_who_map_it", a_page_moves_for_all_who_map_it),
];

impl SegmentFixture<'_> {
    fn shown_by(&self, pid: Pid) -> Vec<(SegmentPart, Mapping)> {
        let process = self.machine.open_process(pid).expect("the process can be held");
        let mappings = process.mappings().expect("mappings can be read");
        mappings.into_iter().filter_map(|mapping| Some((mapping.segment?, mapping))).collect()
    }

    /// Returns the segment that both map.
    fn segment(&self) -> SegmentId {
        let [ours, theirs] = self.pids.map(|pid| self.shown_by(pid));
        let is_theirs = |id| theirs.iter().any(|(part, _)| part.id == id && part.writable);
        let both = ours.iter().map(|(part, _)| part.id).filter(|&id| is_theirs(id));
        let both: std::collections::BTreeSet<SegmentId> = both.collect();
        assert_eq!(both.len(), 1, "{ours:?} {theirs:?}");
        both.first().copied().expect("one segment")
    }

    /// Returns where each process maps the first page of the segment.
    fn first_addresses(&self) -> [u64; 2] {
        let segment = self.segment();
        self.pids.map(|pid| {
            let shown = self.shown_by(pid);
            let is_first =
                |(part, _): &&(SegmentPart, Mapping)| part.id == segment && part.offset == 0;
            let (_, mapping) = shown.iter().find(is_first).expect("both map its first page");
            assert!(mapping.shared);
            mapping.range.start
        })
    }

    fn move_page(&self, mapper: usize, to: NodeId, move_shared: bool) -> MovePagesOutcome {
        let process = self.machine.open_process(self.pids[mapper]).expect("it can be held");
        let mut batch = MovePagesCall::new(move_shared);
        batch.push(self.first_addresses()[mapper], to);
        process.move_pages(&batch).expect("the call is made")
    }

    fn assert_on(&self, node: NodeId) {
        for (pid, address) in self.pids.into_iter().zip(self.first_addresses()) {
            let process = self.machine.open_process(pid).expect("the process can be held");
            let places = process.locate(&[address]).expect("the page can be located");
            assert_eq!(places, [PageLocation::On(node)], "as process {pid} sees it");
        }
    }
}

/// Two mappings of one file in two processes show the same segment, from the same offset on.
fn both_processes_show_one_segment(stage: &SegmentFixture<'_>) {
    stage.first_addresses();
    stage.assert_on(stage.source);
}

/// A page that one process moves is elsewhere for the other, too, if pages that others map may be
/// moved; and if that is not asked for, it stays.
fn a_page_moves_for_all_who_map_it(stage: &SegmentFixture<'_>) {
    let Some(destination) = stage.destination else {
        println!("skipped: there is no other node");
        return;
    };
    let outcome = stage.move_page(0, destination, false);
    assert_eq!(outcome.status, [EntryStatus::Refused(EntryRefusal::Shared)]);
    stage.assert_on(stage.source);
    if !stage.machine.capabilities().move_shared {
        println!("skipped: this machine does not let us move what others map");
        return;
    }
    for (mapper, to) in [(0, destination), (1, stage.source)] {
        let outcome = stage.move_page(mapper, to, true);
        assert_eq!(
            (outcome.end, &outcome.status[..]),
            (CallEnd::Complete, &[EntryStatus::On(to)][..])
        );
        stage.assert_on(to);
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::Page;

    use super::*;
    use crate::fake::{FakeMachine, FakeProcess};

    /// Goal: the fake machine passes the bodies.
    #[test]
    fn the_fake_machine_conforms() {
        let machine = FakeMachine::new(true);
        let pids = [7, 8].map(|pid| Pid::new(pid).unwrap());
        for (pid, first) in pids.into_iter().zip([100, 500]) {
            let mut process = FakeProcess::default();
            let id = SegmentId { inode: 3, ..SegmentId::default() };
            process.map_segment(id, "/memfd:a (deleted)", first, &[Page::on(NodeId(0)); 4]);
            machine.spawn(pid, process);
        }
        let [source, destination] = [0, 1].map(NodeId);
        let destination = Some(destination);
        for (name, body) in ALL {
            println!("{name}");
            body(&SegmentFixture { machine: &machine, pids, source, destination });
        }
    }
}
