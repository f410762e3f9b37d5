//! Folios that were refused, tried once more when nothing else of the move is under way.
//!
//! Whoever held such a folio may have let go of it by then: a worker of ours that moved it for
//! another process, or the kernel, which takes hold of pages for moments. What is found at its
//! destination then has moved. So the account tells what is so at the end, not what one call said.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use nodeward_model::{Account, SkipReason};
use nodeward_policy::plan::FolioMove;

use crate::drive::{Driven, is_no_room};
use crate::survey::Unit;
use crate::tally::{Tallies, Tally};
use crate::work::Work;

/// Folios that are kept, some 2 MiB of them. Of more it is told at once that they stay: so many are
/// held for long.
const FOLIOS_MAX: usize = 1 << 16;

/// Folios of the same process, hugetlb ones or others, and why they stayed so far.
type Kept = BTreeMap<(usize, bool), Vec<(FolioMove, SkipReason)>>;

/// Folios that were refused, of all units.
pub struct Leftovers<'a> {
    work: &'a Work<'a>,
    kept: Mutex<Kept>,
}

impl<'a> Leftovers<'a> {
    /// None yet.
    pub fn new(work: &'a Work<'a>) -> Self {
        Self { work, kept: Mutex::default() }
    }

    /// Keeps those for which it may help to try once more, and enters the others.
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

    /// A full node stays full, but what is shared may have been moved for somebody else.
    fn may_help(&self, unit: &Unit, reason: SkipReason) -> bool {
        unit.hugetlb || self.work.is_in_company() || !is_no_room(reason)
    }

    /// Tries them once more, alone, and enters what became of them.
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
