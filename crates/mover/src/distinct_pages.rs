//! Counts the pages of several processes by node, each page once even if several processes map it.

use std::collections::BTreeMap;

use nodeward_machine::{Process, Result};
use nodeward_model::{NodeId, PageLocation, PageSet, Range};

use crate::Selection;

/// Bytes read at a time.
const PIECE_BYTES: u64 = 8 << 20;

/// Base pages by node. Pages are identified by their frames, which only CAP_SYS_ADMIN can read.
#[derive(Debug)]
pub struct DistinctPages {
    frames: PageSet,
    page_bytes: u64,
    nodes: BTreeMap<NodeId, u64>,
}

impl DistinctPages {
    /// Creates empty counts.
    pub fn new(page_bytes: u64) -> Self {
        Self { frames: PageSet::new(page_bytes), page_bytes, nodes: BTreeMap::new() }
    }

    /// Adds the selected memory of a process. A process that is gone adds nothing.
    ///
    /// # Errors
    /// If frames cannot be read.
    pub fn add(&mut self, process: &dyn Process, selection: &Selection) -> Result<()> {
        let mappings = match process.mappings() {
            Err(error) if error.is_gone() => return Ok(()),
            mappings => mappings?,
        };
        let parts = mappings.iter().flat_map(|mapping| selection.parts(mapping, self.page_bytes));
        for part in parts.collect::<Vec<_>>() {
            match process.populated(part).and_then(|ranges| self.add_ranges(process, &ranges)) {
                Err(error) if error.is_gone() => return Ok(()),
                added => added?,
            }
        }
        Ok(())
    }

    fn add_ranges(&mut self, process: &dyn Process, ranges: &[Range]) -> Result<()> {
        let (mut frames, mut places) = (Vec::new(), Vec::new());
        for piece in ranges.iter().flat_map(|range| range.aligned_pieces(PIECE_BYTES)) {
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
        Ok(())
    }

    /// Returns the base pages by node.
    pub fn into_nodes(self) -> BTreeMap<NodeId, u64> {
        self.nodes
    }
}
