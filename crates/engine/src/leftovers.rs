//! A last attempt at refused folios, when nothing else of the move is under way.
//!
//! The holder of such a folio may have released it by then: a worker of the same move that moved it
//! for another process, or the kernel, which isolates pages for moments. A page that is then found
//! at its destination has moved. So the account reports the state at the end, not the result of one
//! call.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use nodeward_model::{Account, SkipReason};
use nodeward_policy::plan::FolioMove;

use crate::drive::{Driven, is_no_room};
use crate::survey::Unit;
use crate::tally::{Tallies, Tally};
use crate::work::Work;

/// Maximum number of folios kept, about 2 MiB. More are reported as staying at once: so many are
/// not held only for a moment.
const FOLIOS_MAX: usize = 1 << 16;

/// Folios by process and by whether they are hugetlb ones, with the reason why they stayed so far.
type Kept = BTreeMap<(usize, bool), Vec<(FolioMove, SkipReason)>>;

/// Refused folios of all units.
pub struct Leftovers<'a> {
    work: &'a Work<'a>,
    kept: Mutex<Kept>,
}

impl<'a> Leftovers<'a> {
    /// An empty set.
    pub fn new(work: &'a Work<'a>) -> Self {
        Self { work, kept: Mutex::default() }
    }

    /// Keeps those folios for which another attempt may help, and accounts for the others.
    pub fn keep(&self, unit: &Unit, left: Vec<(FolioMove, SkipReason)>, account: &mut Account) {
        let (mut later, now): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|&(_, reason)| self.may_help(unit, reason));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = FOLIOS_MAX.saturating_sub(kept.values().map(Vec::len).sum());
        let beyond = later.split_off(later.len().min(room));
        enter(&now, account);
        enter(&beyond, account);
        if !later.is_empty() {
            kept.entry((unit.process, unit.hugetlb)).or_default().extend(later);
        }
    }

    /// A full node stays full, but a shared page may have been moved for another process.
    fn may_help(&self, unit: &Unit, reason: SkipReason) -> bool {
        unit.hugetlb || self.work.is_in_company() || !is_no_room(reason)
    }

    /// Tries them once more, alone, and records the outcome.
    pub fn try_again(self, tallies: &mut Tallies) {
        let kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        for ((process, hugetlb), left) in kept {
            let driven = match self.work.live.is_stopped() {
                true => Driven { left, ..Driven::default() },
                false => {
                    let folios: Vec<FolioMove> = left.iter().map(|(folio, _)| *folio).collect();
                    self.work.drive(process, hugetlb, &folios)
                }
            };
            let mut tally = Tally::default();
            tally.enter(&driven);
            enter(&driven.left, &mut tally.account);
            tallies.add(process, &tally, driven.error);
        }
    }
}

fn enter(left: &[(FolioMove, SkipReason)], account: &mut Account) {
    left.iter().for_each(|(folio, reason)| account.skip(*reason, u64::from(folio.pages)));
}
