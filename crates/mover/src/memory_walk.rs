//! A walk over the pages of processes, mapping by mapping, that finds each page once.
//!
//! A segment that several processes map is looked at through all of them. Each of its pages belongs
//! to the first view that shows it, so that it counts, and moves, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{FrameSet, Mapping, NodeId, Page, PageSet, Range, SegmentId};

use crate::survey::{SurveyMethod, SurveyScope, populated_pieces};
use crate::{MoveControl, MoveOrder, Selection};

/// Bytes read at a time.
const PIECE_BYTES: u64 = 8 << 20;

/// The memory of one process that is looked at.
#[derive(Clone, Copy)]
pub struct MemoryView<'a> {
    /// The process.
    pub process: &'a Arc<dyn Process>,
    /// The selected memory.
    pub selection: &'a Selection,
}

/// A mapping, or a part of one, that a view shows. Its memory has positions: offsets in the segment
/// of which it is a part, or else addresses.
#[derive(Debug)]
pub struct ShownMapping<'a> {
    /// The index of the view.
    pub view: usize,
    /// The mapping.
    pub mapping: &'a Mapping,
    /// The position of its first address.
    pub at: u64,
}

impl ShownMapping<'_> {
    fn new(view: usize, mapping: &Mapping) -> ShownMapping<'_> {
        let at = mapping.segment.map_or(mapping.range.start, |part| part.offset);
        ShownMapping { view, mapping, at }
    }

    /// Returns its segment, if it is a part of one.
    pub fn segment(&self) -> Option<SegmentId> {
        self.mapping.segment.map(|part| part.id)
    }
}

/// A folio, as far as a mapping shows it.
#[derive(Clone, Copy, Debug)]
pub struct FoundFolio {
    /// Its addresses.
    pub addresses: Range,
    /// The position of the first.
    pub position: u64,
    /// Its node.
    pub node: NodeId,
}

impl FoundFolio {
    /// Returns its positions.
    pub fn positions(&self) -> Range {
        Range::new(self.position, self.position.saturating_add(self.addresses.bytes()))
    }
}

/// The receiver of the memory that a walk finds.
pub trait MemoryVisitor {
    /// Begins a mapping. Its folios follow, in ascending order.
    fn begin(&mut self, shown: &ShownMapping<'_>);

    /// Takes a folio of the mapping, unless an earlier mapping showed it.
    fn visit(&mut self, folio: FoundFolio);
}

/// Looks where the pages of all views are. Ends early if it is stopped. A process that is gone has
/// no pages.
///
/// # Errors
/// If a process cannot be read.
pub fn walk_memory(
    machine: &dyn Machine,
    views: &[MemoryView<'_>],
    control: &MoveControl,
    visitor: &mut dyn MemoryVisitor,
) -> Result<()> {
    let frames_end = machine.frames_end().filter(|_| views.len() > 1);
    let mut walk = ViewWalk {
        page_bytes: machine.page_bytes(),
        method: SurveyMethod::of(machine),
        control,
        visitor,
        found: BTreeMap::new(),
        frames: frames_end.map(FrameSet::new),
    };
    for (index, view) in views.iter().enumerate() {
        match walk.walk_view(index, *view) {
            Err(error) if error.is_gone() => {}
            walked => walked?,
        }
    }
    Ok(())
}

/// A walk under way.
struct ViewWalk<'a> {
    page_bytes: u64,
    method: SurveyMethod,
    control: &'a MoveControl,
    visitor: &'a mut dyn MemoryVisitor,
    /// The positions of pages of segments that were found.
    found: BTreeMap<SegmentId, PageSet>,
    /// Frames of pages outside segments that several processes map, as after a fork; `None` if one
    /// view is all, or if frame numbers are hidden. Such pages then count in each view.
    frames: Option<FrameSet>,
}

impl ViewWalk<'_> {
    fn walk_view(&mut self, index: usize, view: MemoryView<'_>) -> Result<()> {
        let populated = self.populated(view)?;
        for mapping in view.process.mappings()? {
            for part in view.selection.parts(&mapping, self.page_bytes) {
                if self.control.is_stopped() {
                    return Ok(());
                }
                let mapping = mapping.part(part);
                let shown = ShownMapping::new(index, &mapping);
                self.visitor.begin(&shown);
                let first = populated.partition_point(|range| range.end <= part.start);
                let within = populated[first..].iter().take_while(|range| range.start < part.end);
                let ranges = within.filter_map(|range| range.intersection(part));
                self.walk_mapping(&**view.process, &shown, ranges)?;
            }
        }
        Ok(())
    }

    /// Returns the ranges that may hold pages, in ascending order.
    fn populated(&self, view: MemoryView<'_>) -> Result<Vec<Range>> {
        let control = self.control;
        let scope = SurveyScope {
            process: &**view.process,
            index: 0,
            selection: view.selection,
            orders: &[MoveOrder::default()].into(),
            page_bytes: self.page_bytes,
            workers: 1,
            method: self.method,
            is_over: &|| control.is_stopped(),
        };
        Ok(populated_pieces(&scope)?.into_iter().map(|(_, range)| range).collect())
    }

    fn walk_mapping(
        &mut self,
        process: &dyn Process,
        shown: &ShownMapping<'_>,
        ranges: impl Iterator<Item = Range>,
    ) -> Result<()> {
        let mapping = shown.mapping;
        let mut pages = Vec::new();
        for piece in ranges.flat_map(|range| range.aligned_pieces(PIECE_BYTES)) {
            if self.control.is_stopped() {
                return Ok(());
            }
            pages.clear();
            process.pages(mapping, piece, &mut pages)?;
            if let (Some(seen), None) = (&mut self.frames, mapping.segment) {
                leave_out_seen(seen, process, piece, &mut pages)?;
            }
            self.visit_pages(&pages, piece.start, shown);
        }
        Ok(())
    }

    /// Visits the folios of consecutive pages from an address on, but for those that were found
    /// before.
    fn visit_pages(&mut self, pages: &[Page], start: u64, shown: &ShownMapping<'_>) {
        let page_bytes = self.page_bytes;
        let new = || PageSet::new(page_bytes);
        let mut found = shown.segment().map(|id| self.found.entry(id).or_insert_with(new));
        let range = shown.mapping.range;
        for (address, page) in (start..).step_by(page_bytes as usize).zip(pages) {
            let (Some(node), 1..) = (page.node(), page.folio_pages) else { continue };
            let end = address + u64::from(page.folio_pages) * page_bytes;
            let addresses = Range::new(address, end.min(range.end));
            let position = shown.at + (address - range.start);
            let folio = FoundFolio { addresses, position, node };
            if let Some(found) = &mut found {
                if found.contains(position) {
                    continue;
                }
                found.insert_range(folio.positions());
            }
            self.visitor.visit(folio);
        }
    }
}

/// Marks those of consecutive pages as absent that several processes map and that were seen before.
fn leave_out_seen(
    seen: &mut FrameSet,
    process: &dyn Process,
    range: Range,
    pages: &mut [Page],
) -> Result<()> {
    if !pages.iter().any(|page| page.shared) {
        return Ok(());
    }
    let mut frames = Vec::new();
    process.frames(range, &mut frames)?;
    for (page, frame) in pages.iter_mut().zip(frames).filter(|(page, _)| page.shared) {
        if frame.is_some_and(|frame| seen.insert(frame) == Some(false)) {
            *page = Page::ABSENT;
        }
    }
    Ok(())
}
