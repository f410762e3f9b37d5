//! Segments that several processes of the fake machine map. A process has those pages in its table
//! that it touched; a page that one process moves moves for all.

use std::sync::{Arc, Mutex};

use nodeward_model::{
    Mapping, MappingKind, MappingOrigin, NodeId, Page, PageLocation, Range, SegmentId, SegmentPart,
};

use super::lock::lock;
use super::process::{FakeProcess, FakeProcesses, PAGE_BYTES};

/// A page of a segment, by its number there, and its node.
type SegmentPage = (SegmentId, u64, NodeId);

impl FakeProcess {
    /// Maps a segment from page number `first` on. Pages that are absent were not touched by this
    /// process.
    pub fn map_segment(&mut self, id: SegmentId, path: &str, first: u64, pages: &[Page]) {
        let range = Range::new(first * PAGE_BYTES, (first + pages.len() as u64) * PAGE_BYTES);
        self.mappings.push(Mapping {
            range,
            kind: MappingKind::Shared,
            shared: true,
            huge_page_bytes: None,
            path: path.into(),
            segment: Some(SegmentPart { id, offset: 0, writable: true }),
            origin: MappingOrigin::default(),
        });
        self.mappings.sort_by_key(|mapping| mapping.range.start);
        let touched = (first..).zip(pages).filter(|(_, page)| **page != Page::ABSENT);
        self.pages.extend(touched.map(|(number, &page)| (number, Page { shared: true, ..page })));
    }

    /// Returns the pages of segments in the folios at these addresses, with their nodes.
    pub(super) fn segment_pages(&self, addresses: &[u64]) -> Vec<SegmentPage> {
        let numbers = addresses.iter().flat_map(|&address| self.folio(address));
        let page = |number: u64| {
            let address = number * PAGE_BYTES;
            let holds =
                |mapping: &&Mapping| (mapping.range.start..mapping.range.end).contains(&address);
            let mapping = self.mappings.iter().find(holds)?;
            let SegmentPart { id, offset, .. } = mapping.segment?;
            let behind = offset + address - mapping.range.start;
            Some((id, behind / PAGE_BYTES, self.page(address).node()?))
        };
        numbers.filter_map(page).collect()
    }

    /// Finds its page number for a page of a segment.
    fn number_of(&self, segment: SegmentId, page: u64) -> Option<u64> {
        let number = |mapping: &Mapping| {
            let part = mapping.segment.filter(|part| part.id == segment)?;
            let behind = (page * PAGE_BYTES).checked_sub(part.offset)?;
            (behind < mapping.range.bytes()).then(|| (mapping.range.start + behind) / PAGE_BYTES)
        };
        self.mappings.iter().find_map(number)
    }
}

/// Lets all processes but one see where pages of segments are now.
pub(super) fn follow(
    processes: &FakeProcesses,
    mover: &Arc<Mutex<FakeProcess>>,
    pages: &[SegmentPage],
) {
    if pages.is_empty() {
        return;
    }
    let others: Vec<_> = lock(processes).values().cloned().collect();
    for other in others.iter().filter(|other| !Arc::ptr_eq(other, mover)) {
        let mut other = lock(other);
        for &(segment, page, node) in pages {
            let number = other.number_of(segment, page);
            if let Some(page) = number.and_then(|number| other.pages.get_mut(&number)) {
                page.location = PageLocation::On(node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::Pid;

    use super::*;
    use crate::fake::FakeMachine;
    use crate::{Machine, MovePagesCall};

    /// Goal: of three pages that two processes map at different addresses one process touched the
    /// first two and the other the last two; what the first moves, the second page, moves for both.
    #[test]
    fn what_one_moves_moves_for_all() {
        let id = SegmentId { inode: 7, ..SegmentId::default() };
        let machine = FakeMachine::new(true);
        let on = Page::on(NodeId(0));
        let tables = [[on, on, Page::ABSENT], [Page::ABSENT, on, on]];
        for ((pid, first), pages) in [(1, 100), (2, 500)].into_iter().zip(&tables) {
            let mut process = FakeProcess::default();
            process.map_segment(id, "/dev/shm/a", first, pages);
            machine.spawn(Pid::new(pid).unwrap(), process);
        }
        let mut batch = MovePagesCall::new(true);
        (100..103).for_each(|number| batch.push(number * PAGE_BYTES, NodeId(1)));
        machine.open_process(Pid::new(1).unwrap()).unwrap().move_pages(&batch).unwrap();
        let nodes = |pid, first: u64| {
            let process = machine.process(Pid::new(pid).unwrap()).unwrap();
            [0, 1, 2].map(|page| process.page((first + page) * PAGE_BYTES).node())
        };
        assert_eq!(nodes(1, 100), [Some(NodeId(1)), Some(NodeId(1)), None]);
        assert_eq!(nodes(2, 500), [None, Some(NodeId(1)), Some(NodeId(0))]);
    }
}
