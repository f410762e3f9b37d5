//! Where the pages of mappings and segments are, and the orders that even them out over nodes.
//!
//! A segment that several processes map is looked at through all of them, and evened as one. Each
//! of its pages belongs to the first view that shows it, so that it moves and counts once.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{
    FrameSet, Mapping, NodeId, NodePairs, Nodemask, Page, PageSet, Range, SegmentId,
};
use nodeward_policy::folio_plan::MoveOrder;
use nodeward_policy::spread::{BlockMove, BlockPages, Weights, plan_spread, total};

use crate::outcomes::add_counts;
use crate::populated::populated;
use crate::{MoveControl, Selection};

/// Bytes read at a time.
const PIECE_BYTES: u64 = 8 << 20;

/// The memory of one process that is looked at.
#[derive(Clone, Copy)]
pub struct SpreadView<'a> {
    /// The process.
    pub process: &'a Arc<dyn Process>,
    /// The selected memory.
    pub selection: &'a Selection,
}

/// What was found in all views.
#[derive(Debug)]
pub struct SpreadSurvey {
    page_bytes: u64,
    block_bytes: u64,
    stretches: BTreeMap<StretchKey, Stretch>,
    /// Of each view its own pages by node.
    located: Vec<BTreeMap<NodeId, PageSet>>,
    /// Frames of pages outside segments that several processes map, as after a fork; `None` if one
    /// view is all, or if frame numbers are hidden. Such pages then count in each view.
    frames: Option<FrameSet>,
}

/// The moves that even memory out.
#[derive(Clone, Debug, Default)]
pub struct SpreadOrders {
    /// The orders for each view.
    pub orders: Vec<Arc<[MoveOrder]>>,
    /// Base pages by node as they are.
    pub before: BTreeMap<NodeId, u64>,
    /// Base pages by node that are to move away.
    pub leaving: BTreeMap<NodeId, u64>,
    /// The same by destination.
    pub arriving: BTreeMap<NodeId, u64>,
    /// Number of mappings and segments with pages in memory.
    pub stretches: usize,
    /// Those of them of which pages move.
    pub uneven: usize,
}

impl SpreadSurvey {
    /// Looks where the pages of all views are, in blocks of `block_bytes`, or of a mapping's huge
    /// page if that is larger. Ends early if it is stopped. A process that is gone has no pages.
    ///
    /// # Errors
    /// If a process cannot be read.
    pub fn new(
        machine: &dyn Machine,
        views: &[SpreadView<'_>],
        block_bytes: u64,
        control: &MoveControl,
    ) -> Result<Self> {
        let page_bytes = machine.page_bytes();
        let located = vec![BTreeMap::new(); views.len()];
        let frames_end = machine.frames_end().filter(|_| views.len() > 1);
        let mut survey = Self {
            page_bytes,
            block_bytes,
            stretches: BTreeMap::new(),
            located,
            frames: frames_end.map(FrameSet::new),
        };
        for (index, view) in views.iter().enumerate() {
            match survey.add_view(index, *view, control) {
                Err(error) if error.is_gone() => {}
                added => added?,
            }
        }
        Ok(survey)
    }

    fn add_view(
        &mut self,
        index: usize,
        view: SpreadView<'_>,
        control: &MoveControl,
    ) -> Result<()> {
        for mapping in view.process.mappings()? {
            for part in view.selection.parts(&mapping, self.page_bytes) {
                if control.is_stopped() {
                    return Ok(());
                }
                self.add_part(index, view.process, &mapping.part(part), control)?;
            }
        }
        Ok(())
    }

    /// Adds the pages of a mapping, or of a part of one.
    fn add_part(
        &mut self,
        index: usize,
        process: &Arc<dyn Process>,
        mapping: &Mapping,
        control: &MoveControl,
    ) -> Result<()> {
        let start = mapping.range.start;
        let (key, at) = match mapping.segment {
            Some(part) => (StretchKey::Segment(part.id), part.offset),
            None => (StretchKey::Mapping(index, start), start),
        };
        let new = || Stretch::new(mapping, self.block_bytes, self.page_bytes);
        let stretch = self.stretches.entry(key).or_insert_with(new);
        let window = ShownRange { view: index, range: mapping.range, at };
        stretch.windows.push(window);
        let mut pages = Vec::new();
        let is_over = || control.is_stopped();
        for part in populated(&**process, &[mapping.range], &is_over)? {
            for piece in part.aligned_pieces(PIECE_BYTES) {
                if control.is_stopped() {
                    return Ok(());
                }
                pages.clear();
                process.pages(mapping, piece, &mut pages)?;
                if let (Some(seen), None) = (&mut self.frames, mapping.segment) {
                    leave_out_seen(seen, &**process, piece, &mut pages)?;
                }
                stretch.add_pages(&pages, piece.start, window, &mut self.located[index]);
            }
        }
        Ok(())
    }

    /// Decides which pages go where. `room` is the number of pages that each node can take; a node
    /// that is missing has no limit. Huge pages come from pools of their own, and need none of it.
    pub fn orders(&self, weights: &Weights, room: &BTreeMap<NodeId, u64>) -> SpreadOrders {
        let mut draft = OrderDraft {
            survey: self,
            room: room.clone(),
            sources: Nodemask::default(),
            sets: vec![BTreeMap::new(); self.located.len()],
        };
        let mut found = SpreadOrders::default();
        for stretch in self.stretches.values() {
            let blocks: Vec<BlockPages> = stretch.blocks.values().cloned().collect();
            add_counts(&mut found.before, &total(&blocks));
            let moves = draft.add(stretch, &blocks, weights);
            found.stretches += usize::from(!blocks.is_empty());
            found.uneven += usize::from(!moves.is_empty());
            for each in &moves {
                *found.leaving.entry(each.from).or_default() += each.pages;
                *found.arriving.entry(each.to).or_default() += each.pages;
            }
        }
        found.orders = draft.finish();
        found
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

/// Orders that are being written.
struct OrderDraft<'a> {
    survey: &'a SpreadSurvey,
    /// What each node can still take, in pages.
    room: BTreeMap<NodeId, u64>,
    /// Nodes that pages leave.
    sources: Nodemask,
    /// Of each view the pages by destination.
    sets: Vec<BTreeMap<NodeId, PageSet>>,
}

impl OrderDraft<'_> {
    fn add(
        &mut self,
        stretch: &Stretch,
        blocks: &[BlockPages],
        weights: &Weights,
    ) -> Vec<BlockMove> {
        let unlimited = BTreeMap::new();
        let room = if stretch.is_huge { &unlimited } else { &self.room };
        let block_pages = stretch.block_bytes / self.survey.page_bytes;
        let moves = plan_spread(blocks, block_pages, weights, room);
        let numbers: Vec<u64> = stretch.blocks.keys().copied().collect();
        let mut ranges: BTreeMap<(NodeId, NodeId), Vec<Range>> = BTreeMap::new();
        for each in &moves {
            let range = stretch.block_range(numbers[each.block]);
            ranges.entry((each.from, each.to)).or_default().push(range);
            if !stretch.is_huge {
                self.room.entry(each.to).and_modify(|it| *it = it.saturating_sub(each.pages));
            }
        }
        for ((from, to), ranges) in ranges {
            self.sources.insert(from);
            self.name_pages(stretch, (from, to), &ranges);
        }
        moves
    }

    /// Names the pages of blocks in each view to which they belong.
    fn name_pages(&mut self, stretch: &Stretch, (from, to): (NodeId, NodeId), blocks: &[Range]) {
        for window in &stretch.windows {
            let Some(located) = self.survey.located[window.view].get(&from) else { continue };
            let shown: Vec<Range> =
                blocks.iter().filter_map(|block| window.addresses(*block)).collect();
            let set = self.sets[window.view]
                .entry(to)
                .or_insert_with(|| PageSet::new(self.survey.page_bytes));
            located.within(&shown).iter().for_each(|page| _ = set.insert(page));
        }
    }

    fn finish(self) -> Vec<Arc<[MoveOrder]>> {
        let order = |(to, pages)| MoveOrder {
            pairs: NodePairs::all_to(&self.sources, to),
            pages: Some(pages),
        };
        self.sets.into_iter().map(|sets| sets.into_iter().map(order).collect()).collect()
    }
}

/// What is evened by itself. Ordered by view and address, segments first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StretchKey {
    /// A segment.
    Segment(SegmentId),
    /// A mapping that is no part of a segment: the index of its view, and its first address.
    Mapping(usize, u64),
}

/// Pages of a mapping or a segment. They have positions: offsets in the segment, or else addresses.
#[derive(Debug)]
struct Stretch {
    page_bytes: u64,
    block_bytes: u64,
    is_huge: bool,
    /// The positions of pages that were found.
    found: PageSet,
    /// Pages by the number of their block, which is that of their folio's first page.
    blocks: BTreeMap<u64, BlockPages>,
    /// Folios in more than one block: the positions of their beginnings and ends.
    crossing: BTreeMap<u64, u64>,
    windows: Vec<ShownRange>,
}

/// A part of a stretch that a view shows.
#[derive(Clone, Copy, Debug)]
struct ShownRange {
    view: usize,
    /// Its addresses.
    range: Range,
    /// The position of the first.
    at: u64,
}

impl ShownRange {
    fn position(&self, address: u64) -> u64 {
        self.at + (address - self.range.start)
    }

    /// Returns the addresses of positions, as far as they are shown.
    fn addresses(&self, positions: Range) -> Option<Range> {
        let shown = Range::new(self.at, self.at.saturating_add(self.range.bytes()));
        let both = shown.intersection(positions)?;
        let start = self.range.start + (both.start - self.at);
        Some(Range::new(start, start + both.bytes()))
    }
}

impl Stretch {
    fn new(mapping: &Mapping, block_bytes: u64, page_bytes: u64) -> Self {
        let block_bytes = match mapping.huge_page_bytes {
            Some(huge) => block_bytes.max(huge).next_multiple_of(huge),
            None => block_bytes,
        };
        Self {
            page_bytes,
            block_bytes,
            is_huge: mapping.huge_page_bytes.is_some(),
            found: PageSet::new(page_bytes),
            blocks: BTreeMap::new(),
            crossing: BTreeMap::new(),
            windows: Vec::new(),
        }
    }

    /// Adds consecutive pages that a view shows from an address on, but for those that were found
    /// before. The others are added to `located`.
    fn add_pages(
        &mut self,
        pages: &[Page],
        start: u64,
        window: ShownRange,
        located: &mut BTreeMap<NodeId, PageSet>,
    ) {
        let page_bytes = self.page_bytes;
        for (address, page) in (start..).step_by(page_bytes as usize).zip(pages) {
            let (Some(node), 1..) = (page.node(), page.folio_pages) else { continue };
            let end = address + u64::from(page.folio_pages) * page_bytes;
            let shown = Range::new(address, end.min(window.range.end));
            let first = window.position(address);
            let folio = Range::new(first, first + shown.bytes());
            if self.found.contains(first) {
                continue;
            }
            self.found.insert_range(folio);
            let mine = located.entry(node).or_insert_with(|| PageSet::new(page_bytes));
            mine.insert_range(shown);
            self.count(folio, node);
        }
    }

    fn count(&mut self, folio: Range, node: NodeId) {
        let number = folio.start / self.block_bytes;
        let pages = folio.bytes() / self.page_bytes;
        *self.blocks.entry(number).or_default().entry(node).or_default() += pages;
        if (folio.end - 1) / self.block_bytes > number {
            self.crossing.insert(folio.start, folio.end);
        }
    }

    /// Returns the positions of the folios that begin in a block.
    fn block_range(&self, number: u64) -> Range {
        let start = number * self.block_bytes;
        Range::new(self.edge(start), self.edge(start.saturating_add(self.block_bytes)))
    }

    /// Returns a position, or the end of the folio that begins before it and ends after it.
    fn edge(&self, position: u64) -> u64 {
        let before = self.crossing.range(..position).next_back();
        before.map_or(position, |(_, &end)| end.max(position))
    }
}

#[cfg(test)]
mod tests;
