//! What became of folios that were to move.

use nodeward_model::{Account, SkipReason};

use crate::statistics::CpuTimeKind;

/// Maximum number of attempts per folio in the kernel (`NR_MAX_MIGRATE_PAGES_RETRY`).
pub const ATTEMPTS: u32 = 10;

/// The final place of a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolioOutcome {
    /// It is on its destination.
    Moved,
    /// It was on its destination before.
    AlreadyThere,
    /// It is where it was.
    Skipped(SkipReason),
}

/// The result of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationResult {
    /// The outcome of each folio, in order.
    pub outcomes: Vec<FolioOutcome>,
    /// The same in base pages.
    pub account: Account,
    /// The time of each step, in the order of [`CpuTimeKind::ALL`], including waits for helpers and
    /// for a CPU.
    pub step_ns: [u64; CpuTimeKind::ALL.len()],
}

impl MigrationResult {
    /// Adds the result of further folios, without their single outcomes.
    pub fn add(&mut self, other: &Self) {
        self.account.add(&other.account);
        self.step_ns.iter_mut().zip(other.step_ns).for_each(|(sum, ns)| *sum += ns);
    }
}
