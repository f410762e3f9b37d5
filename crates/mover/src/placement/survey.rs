//! Finds the nodes of the memory of processes, as a file keeps them.

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Result};
use nodeward_model::{Mapping, SegmentId};
use nodeward_records::placement::{EscapedName, SavedMapping, SavedRun, sort_and_join};

use crate::MoveControl;
use crate::memory_walk::{FoundFolio, MemoryView, MemoryVisitor, ShownMapping, walk_memory};

/// The memory of processes by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedMemory {
    /// The mappings of each process.
    pub mappings: Vec<Vec<SavedMapping>>,
    /// The memory of each segment, by index.
    pub segments: Vec<Vec<SavedRun>>,
}

/// Looks where the memory of all views is. Returns the mappings of the first `listed` views, and
/// the memory of segments, which all views show. Ends early if it is stopped, and stops `control`
/// if that are more than `pieces_max` mappings and runs together.
///
/// # Errors
/// If a process cannot be read.
pub fn saved_memory(
    machine: &dyn Machine,
    views: &[MemoryView<'_>],
    listed: usize,
    pieces_max: usize,
    control: &MoveControl,
) -> Result<SavedMemory> {
    let memory = SavedMemory { mappings: vec![Vec::new(); listed], ..SavedMemory::default() };
    let mut survey = PlacementSurvey {
        memory,
        indices: BTreeMap::new(),
        current: Current::Nowhere,
        left: pieces_max,
        control,
    };
    walk_memory(machine, views, control, &mut survey)?;
    let SavedMemory { mappings, segments } = survey.memory;
    Ok(SavedMemory { mappings, segments: segments.into_iter().map(sort_and_join).collect() })
}

/// Describes a mapping, without its memory.
pub(super) fn described(mapping: &Mapping) -> SavedMapping {
    SavedMapping {
        kind: mapping.kind,
        name: EscapedName::from(&mapping.path),
        offset: mapping.segment.map_or(mapping.origin.offset, |part| part.offset),
        bytes: mapping.range.bytes(),
        permissions: EscapedName::new(mapping.origin.permissions.to_string().as_str()),
        segment: None,
        runs: Vec::new(),
    }
}

struct PlacementSurvey<'a> {
    /// The memory that was found so far.
    memory: SavedMemory,
    /// The index of each segment.
    indices: BTreeMap<SegmentId, usize>,
    current: Current,
    /// Mappings and runs that may still be added.
    left: usize,
    control: &'a MoveControl,
}

/// The place in the result to which found memory is added.
#[derive(Clone, Copy)]
enum Current {
    Nowhere,
    /// To the last mapping of a view, at an address.
    Mapping {
        view: usize,
        start: u64,
    },
    /// To a segment.
    Segment(usize),
}

impl PlacementSurvey<'_> {
    /// Counts a piece, and stops the look at the first that is too many.
    fn count_piece(&mut self) {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.control.stop(),
        }
    }

    /// Returns the index of a segment, which gets one at its first mapping.
    fn index(&mut self, segment: SegmentId) -> usize {
        let next = self.memory.segments.len();
        let index = *self.indices.entry(segment).or_insert(next);
        if index == next {
            self.memory.segments.push(Vec::new());
        }
        index
    }
}

impl MemoryVisitor for PlacementSurvey<'_> {
    fn begin(&mut self, shown: &ShownMapping<'_>) {
        let segment = shown.segment().map(|segment| self.index(segment));
        let start = shown.mapping.range.start;
        self.current = match segment {
            Some(index) => Current::Segment(index),
            None => Current::Mapping { view: shown.view, start },
        };
        if let Some(listed) = self.memory.mappings.get_mut(shown.view) {
            listed.push(SavedMapping { segment, ..described(shown.mapping) });
            self.count_piece();
        }
    }

    fn visit(&mut self, folio: FoundFolio) {
        let positions = folio.positions();
        let run = |start| SavedRun {
            at: positions.start - start,
            bytes: positions.bytes(),
            node: folio.node,
        };
        let is_new = match self.current {
            Current::Segment(index) => add(&mut self.memory.segments[index], run(0)),
            Current::Mapping { view, start } => {
                let listed = self.memory.mappings.get_mut(view);
                let mapping = listed.and_then(|listed| listed.last_mut());
                mapping.is_some_and(|mapping| add(&mut mapping.runs, run(start)))
            }
            Current::Nowhere => false,
        };
        if is_new {
            self.count_piece();
        }
    }
}

/// Adds a run behind others; one that continues the last makes that longer. Returns whether there
/// is one more.
fn add(runs: &mut Vec<SavedRun>, run: SavedRun) -> bool {
    match runs.last_mut() {
        Some(last) if last.range().end == run.at && last.node == run.node => {
            last.bytes += run.bytes;
            false
        }
        _ => {
            runs.push(run);
            true
        }
    }
}
