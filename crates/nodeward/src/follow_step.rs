//! Brings a range of a region to the nodes of a home: at once, or when threads touch it.

use std::ops::Range;

use nodeward_model::{NodeId, Nodemask, SkipReason};

use crate::{Migration, MigrationReport, RangeTarget, Region, Result};

/// The pieces in which memory alternates between several nodes.
const PIECE_BYTES: usize = 2 << 20;

/// The time at which the pages of a range move after the home of its group changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MoveTime {
    /// The pages move at once, by the follower's thread.
    #[default]
    AtOnce,
    /// Each page moves when a thread next touches it, to the node of that thread
    /// ([`Region::migrate_lazily`]).
    OnTouch,
}

/// The result of bringing a range to a home, in base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Pages that moved to the home.
    pub moved: u64,
    /// Pages that are out of sight until a thread touches them.
    pub lazy: u64,
    /// Pages that stayed where they were; pages that are not in memory do not count.
    pub stayed: u64,
}

impl From<&MigrationReport> for Brought {
    fn from(report: &MigrationReport) -> Self {
        let account = &report.account;
        let absent = account.skipped_for(SkipReason::NotPresent);
        let stayed = account.skipped_total().saturating_sub(absent);
        Self { moved: account.moved, lazy: report.lazy_pages, stayed }
    }
}

impl MoveTime {
    /// Checks that a range can be brought at that time.
    ///
    /// # Errors
    /// For an invalid range; `NeedsUserfaultfd` or `BadOption` where pages cannot move on touch.
    pub(crate) fn check(self, region: &Region, range: &Range<usize>) -> Result<()> {
        region.residency(range.start..range.start)?;
        region.residency(range.end..range.end)?;
        match self {
            Self::AtOnce => Ok(()),
            Self::OnTouch => region.migrate_lazily(0..0, &Migration::default()).map(drop),
        }
    }

    /// Brings a range to the nodes of a home. Pages that are there stay.
    ///
    /// # Errors
    /// Those of the migration; then nothing moved.
    pub(crate) fn bring(
        self,
        region: &Region,
        range: &Range<usize>,
        home: &Nodemask,
        how: &Migration<'_>,
    ) -> Result<Brought> {
        let nodes: Vec<NodeId> = home.iter().collect();
        let report = match (self, &nodes[..]) {
            (_, []) => return Ok(Brought::default()),
            (Self::OnTouch, _) if is_home(region, range, home)? => return Ok(Brought::default()),
            (Self::OnTouch, _) => region.migrate_lazily(range.clone(), how)?,
            (Self::AtOnce, &[node]) => region.migrate(range.clone(), node, how)?,
            (Self::AtOnce, nodes) => region.migrate_list(&alternating(range, nodes), how)?.total,
        };
        Ok(Brought::from(&report))
    }
}

/// Returns whether all pages of a range that are in memory are on the nodes of `home`.
fn is_home(region: &Region, range: &Range<usize>, home: &Nodemask) -> Result<bool> {
    Ok(region.residency(range.clone())?.keys().all(|&node| home.contains(node)))
}

/// Returns the pieces of a range, each with one of several nodes in turn.
fn alternating(range: &Range<usize>, nodes: &[NodeId]) -> Vec<RangeTarget> {
    let first = range.start / PIECE_BYTES;
    let piece = |(number, to): (usize, &NodeId)| {
        let start = number * PIECE_BYTES;
        RangeTarget { range: start.max(range.start)..(start + PIECE_BYTES).min(range.end), to: *to }
    };
    let pieces = (first..range.end.div_ceil(PIECE_BYTES)).zip(nodes.iter().cycle());
    pieces.map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: pieces of 2 MiB alternate over the nodes and cover the range exactly, which begins and
    /// ends within one.
    #[test]
    fn pieces_alternate() {
        const MIB: usize = 1 << 20;
        let nodes = [NodeId(0), NodeId(3)];
        let pieces = alternating(&(MIB..7 * MIB), &nodes);
        let told: Vec<_> = pieces
            .iter()
            .map(|one| (one.range.start / MIB, one.range.end / MIB, one.to.0))
            .collect();
        assert_eq!(told, [(1, 2, 0), (2, 4, 3), (4, 6, 0), (6, 7, 3)]);
    }
}
