//! Counts the pages of several processes by node, each page once even if several processes map it.

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{NodeId, PageLocation, PageSet, Range};

use crate::survey::{SurveyMethod, SurveyScope, survey};
use crate::{MoveControl, MoveOrder, Selection};

/// Bytes read at a time.
const PIECE_BYTES: u64 = 8 << 20;

/// Base pages by node. Pages are identified by their frames, which only CAP_SYS_ADMIN can read.
#[derive(Debug)]
pub struct DistinctPages {
    frames: PageSet,
    page_bytes: u64,
    method: SurveyMethod,
    nodes: BTreeMap<NodeId, u64>,
}

impl DistinctPages {
    /// Creates empty counts.
    pub fn new(machine: &dyn Machine) -> Self {
        let mut method = SurveyMethod::of(machine);
        method.walked_pages_max = method.walked_pages_max.and(Some(u64::MAX));
        let page_bytes = machine.page_bytes();
        Self { frames: PageSet::new(page_bytes), page_bytes, method, nodes: BTreeMap::new() }
    }

    /// Adds the selected memory of a process. A process that is gone adds nothing. Returns false if
    /// that was stopped, or if pages are in mappings that are too empty to be looked at: the counts
    /// are then of no use.
    ///
    /// # Errors
    /// If frames cannot be read.
    pub fn add(
        &mut self,
        process: &dyn Process,
        selection: &Selection,
        control: &MoveControl,
    ) -> Result<bool> {
        if control.is_stopped() {
            return Ok(false);
        }
        let scope = SurveyScope {
            process,
            index: 0,
            selection,
            orders: &[MoveOrder::default()].into(),
            page_bytes: self.page_bytes,
            workers: 1,
            method: self.method,
            is_over: &|| control.is_stopped(),
        };
        let added = survey(&scope).and_then(|(units, walked)| {
            let ranges = units.iter().flat_map(|unit| &unit.pieces).map(|(_, range)| *range);
            Ok(walked.is_empty() && self.add_ranges(process, ranges, control)?)
        });
        match added {
            Err(error) if error.is_gone() => Ok(true),
            added => added,
        }
    }

    fn add_ranges(
        &mut self,
        process: &dyn Process,
        ranges: impl Iterator<Item = Range>,
        control: &MoveControl,
    ) -> Result<bool> {
        let (mut frames, mut places) = (Vec::new(), Vec::new());
        for piece in ranges.flat_map(|range| range.aligned_pieces(PIECE_BYTES)) {
            if control.is_stopped() {
                return Ok(false);
            }
            frames.clear();
            places.clear();
            process.frames(piece, &mut frames)?;
            process.locations(piece, &mut places)?;
            for (frame, place) in frames.iter().zip(&places) {
                if let (Some(frame), PageLocation::On(node)) = (frame, place)
                    && self.frames.insert(frame * self.page_bytes)
                {
                    *self.nodes.entry(*node).or_default() += 1;
                }
            }
        }
        Ok(true)
    }

    /// Returns the base pages by node.
    pub fn into_nodes(self) -> BTreeMap<NodeId, u64> {
        self.nodes
    }
}
