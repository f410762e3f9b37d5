//! Finds the pages of mappings and segments by node, and writes the orders that even them out over
//! nodes. A segment that several processes map is evened as one.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Machine, Result};
use nodeward_model::{Mapping, NodeId, PageSet, Range, SegmentId};
use nodeward_policy::folio_plan::MoveOrder;
use nodeward_policy::spread::{BlockMove, BlockPages, Weights, plan_spread, total};

use crate::MoveControl;
use crate::memory_walk::{FoundFolio, MemoryView, MemoryVisitor, ShownMapping, walk_memory};
use crate::outcomes::add_counts;
use crate::page_orders::PageOrders;

/// Larger blocks are refused, in bytes: four times the largest huge page of any architecture.
pub const BLOCK_BYTES_MAX: u64 = 64 << 30;

/// The pages that were found in all views. A view is the memory of one process as its mappings show
/// it.
#[derive(Debug)]
pub struct SpreadSurvey {
    page_bytes: u64,
    block_bytes: u64,
    stretches: BTreeMap<StretchKey, Stretch>,
    /// The pages found in each view, by node.
    located: Vec<BTreeMap<NodeId, PageSet>>,
    /// The stretch that the walk is in, and its view.
    current: Option<(StretchKey, usize)>,
}

/// The moves that even memory out.
#[derive(Clone, Debug, Default)]
pub struct SpreadOrders {
    /// The orders for each view.
    pub orders: Vec<Arc<[MoveOrder]>>,
    /// Base pages by node before the moves.
    pub before: BTreeMap<NodeId, u64>,
    /// Base pages by node that are to move away from that node.
    pub leaving: BTreeMap<NodeId, u64>,
    /// Base pages by node that are to move to that node.
    pub arriving: BTreeMap<NodeId, u64>,
    /// Number of mappings and segments with pages in memory.
    pub stretches: usize,
    /// Number of mappings and segments of which pages move.
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
        views: &[MemoryView<'_>],
        block_bytes: u64,
        control: &MoveControl,
    ) -> Result<Self> {
        let mut survey = Self {
            page_bytes: machine.page_bytes(),
            block_bytes,
            stretches: BTreeMap::new(),
            located: vec![BTreeMap::new(); views.len()],
            current: None,
        };
        walk_memory(machine, views, control, &mut survey)?;
        Ok(survey)
    }

    /// Decides which pages go where, as far as the nodes have room now.
    pub fn orders_for_room(&self, machine: &dyn Machine, weights: &Weights) -> SpreadOrders {
        // Without knowledge of the room, the kernel refuses what finds none.
        let room = machine.headroom().unwrap_or_default();
        let room = room.into_iter().map(|(node, room)| (node, room.free_pages)).collect();
        self.orders(weights, &room)
    }

    /// Decides which pages go where. `room` is the number of pages that each node can take; a node
    /// that is missing has no limit. Huge pages come from pools of their own, and need none of it.
    pub fn orders(&self, weights: &Weights, room: &BTreeMap<NodeId, u64>) -> SpreadOrders {
        let mut draft = OrderDraft {
            survey: self,
            room: room.clone(),
            orders: PageOrders::new(self.located.len(), self.page_bytes),
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
        found.orders = draft.orders.finish();
        found
    }
}

impl MemoryVisitor for SpreadSurvey {
    fn begin(&mut self, shown: &ShownMapping<'_>) {
        let range = shown.mapping.range;
        let key = match shown.segment() {
            Some(segment) => StretchKey::Segment(segment),
            None => StretchKey::Mapping(shown.view, range.start),
        };
        let new = || Stretch::new(shown.mapping, self.block_bytes, self.page_bytes);
        let stretch = self.stretches.entry(key).or_insert_with(new);
        stretch.windows.push(ShownRange { view: shown.view, range, at: shown.at });
        self.current = Some((key, shown.view));
    }

    fn visit(&mut self, folio: FoundFolio) {
        let Some((key, view)) = self.current else { return };
        let pages = self.located[view].entry(folio.node);
        pages.or_insert_with(|| PageSet::new(self.page_bytes)).insert_range(folio.addresses);
        if let Some(stretch) = self.stretches.get_mut(&key) {
            stretch.count(folio.positions(), folio.node);
        }
    }
}

/// Orders that are being written.
struct OrderDraft<'a> {
    survey: &'a SpreadSurvey,
    /// Free room of each node, in pages.
    room: BTreeMap<NodeId, u64>,
    orders: PageOrders,
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
        for (nodes, ranges) in ranges {
            self.name_pages(stretch, nodes, &ranges);
        }
        moves
    }

    /// Enters the pages of blocks into the orders of each view that has them.
    fn name_pages(&mut self, stretch: &Stretch, nodes: (NodeId, NodeId), blocks: &[Range]) {
        for window in &stretch.windows {
            let Some(located) = self.survey.located[window.view].get(&nodes.0) else { continue };
            let shown: Vec<Range> =
                blocks.iter().filter_map(|block| window.addresses(*block)).collect();
            let named = self.orders.pages(window.view, nodes);
            located.within(&shown).iter().for_each(|page| _ = named.insert(page));
        }
    }
}

/// A stretch of memory that is evened by itself: a segment or a mapping. Ordered by view and
/// address, segments first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StretchKey {
    /// A segment, through all views that map it.
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
    /// The addresses in the view.
    range: Range,
    /// The position of the first address.
    at: u64,
}

impl ShownRange {
    /// Returns the addresses of positions, as far as the view shows them.
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
            blocks: BTreeMap::new(),
            crossing: BTreeMap::new(),
            windows: Vec::new(),
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
