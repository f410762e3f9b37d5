//! The orders that bring memory to where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodeward_machine::{Machine, Result};
use nodeward_model::{MappingKind, NodeId, Nodemask, Range, SegmentId};
use nodeward_policy::folio_plan::MoveOrder;
use nodeward_records::placement::{
    EscapedName, PlacedProcess, SavedMapping, SavedPlacement, SavedRun, bytes_of, overlapping,
};
use serde::{Deserialize, Serialize};

use super::matching::{MappingKey, Unmatched, pair};
use super::survey::described;
use crate::MoveControl;
use crate::memory_walk::{FoundFolio, MemoryView, MemoryVisitor, ShownMapping, walk_memory};
use crate::page_orders::PageOrders;

/// The moves that restore a placement.
#[derive(Clone, Debug, Default)]
pub struct RestoreOrders {
    /// The orders for each view.
    pub orders: Vec<Arc<[MoveOrder]>>,
    /// What of the placement is here.
    pub found: FoundPlacement,
}

/// What of a saved placement is here, in base pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPlacement {
    /// Pages in memory whose node was saved, by node as they are.
    pub before: BTreeMap<NodeId, u64>,
    /// Those of them that are to move away, by node.
    pub leaving: BTreeMap<NodeId, u64>,
    /// The same by destination.
    pub arriving: BTreeMap<NodeId, u64>,
    /// Pages that were on nodes that are not here, or have no memory; they stay where they are.
    pub missing_nodes: BTreeMap<NodeId, u64>,
    /// Pages that were saved and are not in memory: not touched yet, freed, or in swap.
    pub not_in_memory: u64,
    /// Pages in memory of which nothing was saved.
    pub not_saved: u64,
    /// Mappings that were saved, with pages, and are not here.
    pub unmatched: Vec<UnmatchedMapping>,
}

/// A mapping that was saved and is not here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmatchedMapping {
    /// The index of its process.
    pub process: usize,
    /// The kind of its memory.
    pub kind: MappingKind,
    /// Its path.
    pub name: EscapedName,
    /// Its pages that were in memory.
    pub pages: u64,
    /// The reason.
    pub why: Unmatched,
}

/// Looks where the memory of views is, and decides what goes where. The first views are the
/// processes of the saved placement, in its order; the others show memory of segments. Only memory
/// of nodes in `nodes` is restored. Ends early if it is stopped.
///
/// # Errors
/// If a process cannot be read.
pub fn restore_orders(
    machine: &dyn Machine,
    views: &[MemoryView<'_>],
    saved: &SavedPlacement,
    nodes: &Nodemask,
    control: &MoveControl,
) -> Result<RestoreOrders> {
    let page_bytes = machine.page_bytes();
    let mut targets = Targets::default();
    for (index, (view, process)) in views.iter().zip(&saved.processes).enumerate() {
        match targets.match_mappings(index, *view, process) {
            Err(error) if error.is_gone() => {}
            matched => matched?,
        }
    }
    let mut survey = RestoreSurvey {
        saved,
        nodes,
        page_bytes,
        targets: &targets,
        current: (0, None),
        orders: PageOrders::new(views.len(), page_bytes),
        covered: 0,
        found: FoundPlacement::default(),
    };
    walk_memory(machine, views, control, &mut survey)?;
    let (mut found, orders) = (survey.found, survey.orders.finish());
    found.not_in_memory = bytes_of(targets.runs(saved)).saturating_sub(survey.covered) / page_bytes;
    found.unmatched = targets.unmatched(saved, page_bytes);
    Ok(RestoreOrders { orders, found })
}

/// The saved memory of present mappings and segments.
#[derive(Default)]
struct Targets<'a> {
    /// By view and first address.
    mappings: BTreeMap<(usize, u64), SavedTarget<'a>>,
    /// The index of the saved segment of each present one.
    segments: BTreeMap<SegmentId, usize>,
    /// Saved mappings without a present one, each with its process.
    unmatched: Vec<(usize, &'a SavedMapping, Unmatched)>,
}

/// The saved memory of something.
#[derive(Clone, Copy)]
struct SavedTarget<'a> {
    runs: &'a [SavedRun],
    /// The position at offset 0. It is below the mapping if a stack was larger.
    zero: u64,
}

impl<'a> Targets<'a> {
    fn match_mappings(
        &mut self,
        index: usize,
        view: MemoryView<'_>,
        process: &'a PlacedProcess,
    ) -> Result<()> {
        let is_wanted = |kind| view.selection.kinds.contains(&kind);
        let mut present = view.process.mappings()?;
        present.retain(|mapping| is_wanted(mapping.kind));
        let saved = process.mappings.iter().filter(|mapping| is_wanted(mapping.kind));
        let saved: Vec<&SavedMapping> = saved.collect();
        let then: Vec<_> = saved.iter().map(|mapping| MappingKey::of(mapping)).collect();
        let now: Vec<_> = present.iter().map(|it| MappingKey::of(&described(it))).collect();
        for (old, paired) in saved.into_iter().zip(pair(&then, &now)) {
            let new = match paired {
                Ok(new) => &present[new],
                Err(why) => {
                    self.unmatched.push((index, old, why));
                    continue;
                }
            };
            if let (Some(part), Some(segment)) = (new.segment, old.segment) {
                self.segments.entry(part.id).or_insert(segment);
                continue;
            }
            let grown = match old.kind {
                MappingKind::Stack => new.range.bytes().wrapping_sub(old.bytes),
                _ => 0,
            };
            let target = SavedTarget { runs: &old.runs, zero: new.range.start.wrapping_add(grown) };
            self.mappings.insert((index, new.range.start), target);
        }
        Ok(())
    }

    /// Returns the saved runs that have a counterpart, those of each segment once.
    fn runs(&self, saved: &'a SavedPlacement) -> impl Iterator<Item = &'a SavedRun> {
        let here: BTreeSet<usize> = self.segments.values().copied().collect();
        let of_segments = here.into_iter().map(|index| &saved.segments[index][..]);
        self.mappings.values().map(|target| target.runs).chain(of_segments).flatten()
    }

    /// Returns what has none, if it had pages; a segment once.
    fn unmatched(&self, saved: &SavedPlacement, page_bytes: u64) -> Vec<UnmatchedMapping> {
        let mut told: BTreeSet<usize> = self.segments.values().copied().collect();
        let mut unmatched = Vec::new();
        for &(process, mapping, why) in &self.unmatched {
            let runs = match mapping.segment {
                Some(segment) if !told.insert(segment) => continue,
                Some(segment) => &saved.segments[segment],
                None => &mapping.runs,
            };
            let pages = bytes_of(runs) / page_bytes;
            let (kind, name) = (mapping.kind, mapping.name.clone());
            unmatched.push(UnmatchedMapping { process, kind, name, pages, why });
        }
        unmatched.retain(|mapping| mapping.pages > 0);
        unmatched
    }
}

/// A walk over memory that writes orders.
struct RestoreSurvey<'a> {
    saved: &'a SavedPlacement,
    nodes: &'a Nodemask,
    page_bytes: u64,
    targets: &'a Targets<'a>,
    /// The view that is looked at, and what was saved of its mapping.
    current: (usize, Option<SavedTarget<'a>>),
    orders: PageOrders,
    /// Bytes of saved memory that were found.
    covered: u64,
    found: FoundPlacement,
}

impl MemoryVisitor for RestoreSurvey<'_> {
    fn begin(&mut self, shown: &ShownMapping<'_>) {
        let of_segment = shown.segment().and_then(|id| self.targets.segments.get(&id));
        let of_segment =
            of_segment.map(|&index| SavedTarget { runs: &self.saved.segments[index], zero: 0 });
        let own = || self.targets.mappings.get(&(shown.view, shown.mapping.range.start)).copied();
        self.current = (shown.view, of_segment.or_else(own));
    }

    fn visit(&mut self, folio: FoundFolio) {
        let pages = folio.addresses.bytes() / self.page_bytes;
        let (view, Some(target)) = self.current else {
            self.found.not_saved += pages;
            return;
        };
        let (wanted, covered) = target.node(folio.positions());
        self.covered += covered;
        match wanted {
            None => self.found.not_saved += pages,
            Some(to) if !self.nodes.contains(to) => {
                *self.found.missing_nodes.entry(to).or_default() += pages;
            }
            Some(to) => self.order(view, folio, to, pages),
        }
    }
}

impl RestoreSurvey<'_> {
    fn order(&mut self, view: usize, folio: FoundFolio, to: NodeId, pages: u64) {
        let from = folio.node;
        *self.found.before.entry(from).or_default() += pages;
        if from != to {
            *self.found.leaving.entry(from).or_default() += pages;
            *self.found.arriving.entry(to).or_default() += pages;
            self.orders.pages(view, (from, to)).insert_range(folio.addresses);
        }
    }
}

impl SavedTarget<'_> {
    /// Returns the node on which most of the memory at these positions was, and how many bytes of
    /// it were in memory. A folio is not split.
    fn node(&self, positions: Range) -> (Option<NodeId>, u64) {
        let start = positions.start.wrapping_sub(self.zero);
        let offsets = Range::new(start, start.saturating_add(positions.bytes()));
        let mut bytes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for run in overlapping(self.runs, offsets) {
            *bytes.entry(run.node).or_default() += run.bytes;
        }
        let most = bytes.iter().max_by_key(|&(&node, &bytes)| (bytes, std::cmp::Reverse(node)));
        (most.map(|(&node, _)| node), bytes.values().sum())
    }
}
