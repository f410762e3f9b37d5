//! A last attempt at refused folios, when nothing else of the move is under way.
//!
//! The holder of such a folio may have released it by then: a worker of the same move that moved it
//! for another process, or the kernel, which isolates pages for moments. A page that is then found
//! at its destination has moved. So the account reports the state at the end, not the result of one
//! call.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use nodeward_model::{Account, SkipReason};
use nodeward_policy::folio_plan::FolioMove;

use crate::folio_mover::{FolioMoveOutcome, is_out_of_memory};
use crate::move_context::MoveContext;
use crate::outcomes::{ProcessOutcomes, UnitOutcome};
use crate::survey::Unit;

/// Maximum number of folios kept, about 2 MiB. More are reported as staying at once: that many are
/// not held only for a moment.
const FOLIOS_MAX: usize = 1 << 16;

/// Folios by process and by whether they are hugetlb ones, with the reason why they stayed so far.
type DeferredFolios = BTreeMap<(usize, bool), Vec<(FolioMove, SkipReason)>>;

/// Refused folios of all units.
pub struct DeferredRetries<'a> {
    context: &'a MoveContext<'a>,
    deferred: Mutex<DeferredFolios>,
}

impl<'a> DeferredRetries<'a> {
    /// An empty set.
    pub fn new(work: &'a MoveContext<'a>) -> Self {
        Self { context: work, deferred: Mutex::default() }
    }

    /// Keeps those folios for which another attempt may help, and accounts for the others.
    pub fn defer(&self, unit: &Unit, left: Vec<(FolioMove, SkipReason)>, account: &mut Account) {
        let (mut later, now): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|&(_, reason)| self.may_succeed(unit, reason));
        let mut kept = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        let room = FOLIOS_MAX.saturating_sub(kept.values().map(Vec::len).sum());
        let beyond = later.split_off(later.len().min(room));
        skip_all(&now, account);
        skip_all(&beyond, account);
        if !later.is_empty() {
            kept.entry((unit.process, unit.hugetlb)).or_default().extend(later);
        }
    }

    /// A full node stays full, but a shared page may have been moved for another process.
    fn may_succeed(&self, unit: &Unit, reason: SkipReason) -> bool {
        unit.hugetlb || self.context.has_concurrent_moves() || !is_out_of_memory(reason)
    }

    /// Tries them once more, alone, and records the outcome.
    pub fn retry_all(self, tallies: &mut ProcessOutcomes) {
        let kept = self.deferred.into_inner().unwrap_or_else(PoisonError::into_inner);
        for ((process, hugetlb), left) in kept {
            let outcome = match self.context.control.is_stopped() {
                true => FolioMoveOutcome { refused: left, ..FolioMoveOutcome::default() },
                false => {
                    let folios: Vec<FolioMove> = left.iter().map(|(folio, _)| *folio).collect();
                    self.context.move_folios(process, hugetlb, &folios)
                }
            };
            let mut tally = UnitOutcome::default();
            tally.add_moves(&outcome);
            skip_all(&outcome.refused, &mut tally.account);
            tallies.add(process, &tally, outcome.error);
        }
    }
}

fn skip_all(left: &[(FolioMove, SkipReason)], account: &mut Account) {
    left.iter().for_each(|(folio, reason)| account.skip(*reason, u64::from(folio.pages)));
}
