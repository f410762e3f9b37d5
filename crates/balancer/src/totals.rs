//! What all rounds did since the balancer began.

use std::collections::BTreeMap;

use nodeward_model::AffinityOutcome;
use nodeward_mover::MoveSums;

/// What a memory move of the balancer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveSubject {
    /// Memory of a process that is away from home.
    Process,
    /// The same of what a process has in a group.
    Group,
    /// Single pages and ranges, by who uses them.
    Pages,
    /// A segment that several processes map.
    Segment,
}

impl MoveSubject {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Process, Self::Group, Self::Pages, Self::Segment];

    /// Returns its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Group => "group",
            Self::Pages => "pages",
            Self::Segment => "segment",
        }
    }
}

/// Sums over all rounds. Names are those of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rounds, without fast ones.
    pub rounds: u64,
    /// Fast rounds.
    pub fast_rounds: u64,
    /// Time that rounds took, in nanoseconds.
    pub took_ns: u64,
    /// Samples of the residency of processes.
    pub samples: u64,
    /// Threads that were to be brought home, by what came of it.
    pub nudges: BTreeMap<&'static str, u64>,
    /// Memory moves.
    pub moves: BTreeMap<MoveSubject, MoveSums>,
    /// Memory moves that ended with fewer pages than planned, by the reason for it.
    pub short: BTreeMap<&'static str, u64>,
    /// Decisions that differ from those of the round before, by verdict.
    pub changes: BTreeMap<&'static str, u64>,
    /// Notices, by kind.
    pub notices: BTreeMap<&'static str, u64>,
    /// Base pages that others migrated, as far as the machine counts that.
    pub others_pages: u64,
}

impl Totals {
    /// Adds what a part of a memory move did.
    pub(super) fn add_moved(&mut self, subject: MoveSubject, moved: &MoveSums) {
        self.moves.entry(subject).or_default().join(moved);
    }

    /// Counts a memory move that ended, and why it moved less than planned, if it did.
    pub(super) fn end_move(&mut self, subject: MoveSubject, short: Option<&'static str>) {
        self.moves.entry(subject).or_default().ended += 1;
        if let Some(short) = short {
            *self.short.entry(short).or_default() += 1;
        }
    }

    /// Counts a thread that was to be brought home.
    pub(super) fn count_nudge(&mut self, outcome: AffinityOutcome) {
        *self.nudges.entry(outcome.name()).or_default() += 1;
    }
}
