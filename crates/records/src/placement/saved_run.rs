//! Runs of pages on one node.

use nodeward_model::mask::Id as _;
use nodeward_model::{NodeId, Range};
use serde::{Deserialize, Serialize};

/// Contiguous memory on one node, by offset. In a file it is `[offset, bytes, node]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, NodeId)", into = "(u64, u64, NodeId)")]
pub struct SavedRun {
    /// Its offset in bytes.
    pub at: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The node.
    pub node: NodeId,
}

impl SavedRun {
    /// Returns its offsets.
    pub fn range(self) -> Range {
        Range::new(self.at, self.at.saturating_add(self.bytes))
    }
}

impl From<(u64, u64, NodeId)> for SavedRun {
    fn from((at, bytes, node): (u64, u64, NodeId)) -> Self {
        Self { at, bytes, node }
    }
}

impl From<SavedRun> for (u64, u64, NodeId) {
    fn from(run: SavedRun) -> Self {
        (run.at, run.bytes, run.node)
    }
}

/// Sorts runs that do not overlap, and joins neighbours on one node.
pub fn sort_and_join(mut runs: Vec<SavedRun>) -> Vec<SavedRun> {
    runs.sort_unstable_by_key(|run| run.at);
    runs.dedup_by(|next, run| {
        let is_neighbour = run.node == next.node && run.range().end == next.at;
        run.bytes += if is_neighbour { next.bytes } else { 0 };
        is_neighbour
    });
    runs
}

/// Returns the bytes of runs.
pub fn bytes_of<'a>(runs: impl IntoIterator<Item = &'a SavedRun>) -> u64 {
    runs.into_iter().fold(0, |bytes, run| bytes.saturating_add(run.bytes))
}

/// Iterates over the parts of sorted runs in a range.
pub fn overlapping(runs: &[SavedRun], range: Range) -> impl Iterator<Item = SavedRun> + '_ {
    let first = runs.partition_point(|run| run.range().end <= range.start);
    let behind = runs[first..].iter().take_while(move |run| run.at < range.end);
    behind.filter_map(move |run| {
        let both = run.range().intersection(range)?;
        Some(SavedRun { at: both.start, bytes: both.bytes(), ..*run })
    })
}

/// Checks that runs ascend, do not overlap, and are on nodes that can be.
pub(super) fn check(runs: &[SavedRun]) -> Result<(), String> {
    let mut end = 0;
    for run in runs {
        let next = run.at.checked_add(run.bytes).filter(|_| run.at >= end && run.bytes > 0);
        end = next.ok_or_else(|| {
            format!(
                "the run [{}, {}, {}] is not behind the one before",
                run.at, run.bytes, run.node
            )
        })?;
        check_node(run.node)?;
    }
    Ok(())
}

/// Checks that a machine can have a node.
pub(super) fn check_node(node: NodeId) -> Result<(), String> {
    match node.0 < NodeId::LIMIT {
        true => Ok(()),
        false => Err(format!("no machine has a node {node}")),
    }
}
