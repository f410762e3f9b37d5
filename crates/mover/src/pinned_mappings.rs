//! Finds mappings whose pages are pinned, so that a move need not try each page of them.
//!
//! Buffers of devices are pinned whole, and mostly fill their mappings. So a few pages of a
//! mapping are tried first. If none of them moves and the kernel refuses some as pinned, the others
//! are left untried. Where the kernel counts what devices have pinned of the process (VmPin), one
//! refusal is enough, but then no more pages are left untried than it counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nodeward_machine::Process;
use nodeward_model::SkipReason;
use nodeward_policy::folio_plan::FolioMove;

use crate::folio_mover::{FolioMoveOutcome, pages_of};

/// Base pages of a mapping that are tried first.
const FIRST_PAGES: u64 = 64;

/// A mapping: the index of its process and its first address.
pub type MappingId = (usize, u64);

/// The mappings of a move that were found pinned or not.
#[derive(Debug)]
pub struct PinnedMappings {
    /// The pages of each process that the kernel counts as pinned and that were not found yet;
    /// `None` if the kernel counts none.
    counted: Mutex<Vec<Option<u64>>>,
    /// The mappings of which folios were tried, and whether each is pinned.
    found: Mutex<BTreeMap<MappingId, bool>>,
}

/// The next step for folios of a mapping.
#[derive(Debug, PartialEq, Eq)]
pub enum NextFolios {
    /// Try this number of folios.
    Try(usize),
    /// Leave this number of folios untried.
    Leave(usize),
}

impl PinnedMappings {
    /// Creates a table that has only what the kernel counts of the processes.
    pub fn new<'a>(processes: impl Iterator<Item = &'a dyn Process>, page_bytes: u64) -> Self {
        // Of a process that is gone nothing will be tried.
        let counted = |process: &dyn Process| process.pinned_bytes().unwrap_or(0) / page_bytes;
        let counted = processes.map(|it| Some(counted(it)).filter(|&pages| pages > 0)).collect();
        Self { counted: Mutex::new(counted), found: Mutex::default() }
    }

    /// Decides about the next folios of a mapping; there must be at least one.
    pub fn next(&self, key: MappingId, folios: &[FolioMove]) -> NextFolios {
        match lock(&self.found).get(&key) {
            None => NextFolios::Try(count_within(folios, FIRST_PAGES).max(1)),
            Some(false) => NextFolios::Try(folios.len()),
            Some(true) => {
                let left = lock(&self.counted)[key.0].unwrap_or(u64::MAX);
                match count_within(folios, left) {
                    0 => NextFolios::Try(folios.len()),
                    count => {
                        self.find(key.0, pages_of(&folios[..count]));
                        NextFolios::Leave(count)
                    }
                }
            }
        }
    }

    /// Learns from an attempt at folios of a mapping.
    pub fn learn(&self, key: MappingId, outcome: &FolioMoveOutcome) {
        let pinned = outcome.refused.iter().filter(|(_, reason)| *reason == SkipReason::Pinned);
        let refused: u64 = pinned.map(|(folio, _)| u64::from(folio.pages)).sum();
        let is_counted = lock(&self.counted)[key.0].is_some();
        if refused > 0 {
            self.find(key.0, refused);
        }
        let is_pinned = refused > 0 && (is_counted || outcome.moved.is_empty());
        if is_pinned || !outcome.moved.is_empty() {
            lock(&self.found).insert(key, is_pinned);
        }
    }

    /// Subtracts pages that were found, or are taken for found, from those that are counted.
    fn find(&self, process: usize, pages: u64) {
        if let Some(left) = &mut lock(&self.counted)[process] {
            *left = left.saturating_sub(pages);
        }
    }
}

/// Returns the number of first folios that have `pages_max` pages at most together.
fn count_within(folios: &[FolioMove], pages_max: u64) -> usize {
    let mut pages = 0;
    let fits = |folio: &&FolioMove| {
        pages += u64::from(folio.pages);
        pages <= pages_max
    };
    folios.iter().take_while(fits).count()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
