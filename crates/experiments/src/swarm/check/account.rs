//! Checks that the account of a move agrees with its pages: the mover counts one, and the other is
//! counted page by page before and after.

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use nodeward_mover::ProcessReport;
use nodeward_sim::PageView;

use super::{Checker, CheckerResult, ensure};

/// The pages of a process before and after a move in which nothing else faulted in, freed or moved
/// any.
#[derive(Clone, Debug)]
pub struct PagesAroundMove {
    /// By address, before.
    pub before: Vec<PageView>,
    /// By address, after.
    pub after: Vec<PageView>,
    /// The destination node.
    pub to: NodeId,
}

/// The result of a move, as the pages show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PageOutcomes {
    moved: u64,
    already_there: u64,
    stayed: u64,
}

impl PagesAroundMove {
    /// Compares the pages before and after.
    ///
    /// # Errors
    /// The first page that is gone, is new, is out of sight, or is where no move sent it.
    fn count_outcomes(&self) -> Result<PageOutcomes, (Checker, String)> {
        let (before, after) = (self.before.len(), self.after.len());
        let other =
            || format!("of {before} pages {after} are left, and nobody freed or brought any");
        ensure(before == after, Checker::Account, other)?;
        let mut seen = PageOutcomes::default();
        for (was, is) in self.before.iter().zip(&self.after) {
            let same = was.address == is.address && !is.is_in_flight;
            let strange = || format!("{was:x?} became {is:x?}");
            ensure(same, Checker::Account, strange)?;
            match (was.node == self.to, is.node == self.to) {
                (true, true) => seen.already_there += 1,
                (false, true) => seen.moved += 1,
                _ => {
                    ensure(was.node == is.node, Checker::Account, strange)?;
                    seen.stayed += 1;
                }
            }
        }
        Ok(seen)
    }
}

/// Checks that the account of a process agrees with its pages, one by one.
///
/// # Errors
/// The reported and the observed counts.
pub fn check_process_account(pages: &PagesAroundMove, report: &ProcessReport) -> CheckerResult {
    let seen = pages.count_outcomes()?;
    let account = &report.account;
    let told = PageOutcomes {
        moved: account.moved,
        already_there: account.already_there,
        stayed: account.skipped_total(),
    };
    let pid = report.pid;
    let differs =
        || format!("of process {pid} {told:?} is told ({account:?}), and {seen:?} is seen");
    ensure(told == seen, Checker::Account, differs)?;
    let counted = pages_by_node(&pages.after);
    let after = || format!("process {pid} is on {counted:?}, and {:?} was seen", report.after);
    ensure(counted == report.after, Checker::Account, after)?;
    let residue = report.residue;
    let left = || format!("of process {pid} {residue:?} on the nodes that it left");
    ensure(residue.expected == residue.seen, Checker::Account, left)
}

/// Checks that the machine's count of moved pages agrees with the accounts, if nothing else moved
/// pages.
///
/// # Errors
/// Both numbers.
pub fn check_machine_account(migrated: u64, told: u64) -> CheckerResult {
    let what = || format!("{migrated} pages went to another node, and {told} are told as moved");
    ensure(migrated == told, Checker::Account, what)
}

/// Counts pages by node.
pub fn pages_by_node(pages: &[PageView]) -> BTreeMap<NodeId, u64> {
    let mut counts = BTreeMap::new();
    pages.iter().for_each(|page| *counts.entry(page.node).or_default() += 1);
    counts
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Liveness;
    use nodeward_model::{Account, Pid, SkipReason};
    use nodeward_mover::Residue;

    use super::*;

    fn pages(nodes: &[u32]) -> Vec<PageView> {
        let page = |(node, index): (&u32, u64)| PageView {
            address: index * 4096,
            node: NodeId(*node),
            is_in_flight: false,
            folio_pages: 1,
        };
        nodes.iter().zip(0..).map(page).collect()
    }

    /// Returns a move of four pages: one was there, two moved, one is pinned.
    fn moved() -> (PagesAroundMove, ProcessReport) {
        let pages = PagesAroundMove {
            before: pages(&[1, 0, 0, 0]),
            after: pages(&[1, 1, 1, 0]),
            to: NodeId(1),
        };
        let skipped = [(SkipReason::Pinned, 1)].into();
        let report = ProcessReport {
            pid: Pid::new(7).unwrap(),
            account: Account { moved: 2, already_there: 1, skipped },
            before: pages_by_node(&pages.before),
            before_in_flight: 0,
            after: pages_by_node(&pages.after),
            unexamined_bytes: 0,
            verified: true,
            residue: Residue { expected: 1, seen: 1 },
            life: Liveness::Running,
        };
        (pages, report)
    }

    /// Goal: a correct account passes.
    #[test]
    fn a_true_account_passes() {
        let (pages, report) = moved();
        assert_eq!(check_process_account(&pages, &report), Ok(()));
        assert_eq!(check_machine_account(2, report.account.moved), Ok(()));
    }

    /// Goal: each number of an account that is off by one is detected.
    #[test]
    fn an_account_that_is_off_is_found() {
        let lies: [fn(&mut ProcessReport); 5] = [
            |report| report.account.moved += 1,
            |report| report.account.already_there -= 1,
            |report| report.account.skip(SkipReason::Gone, 1),
            |report| report.residue.seen += 1,
            |report| *report.after.get_mut(&NodeId(0)).unwrap() += 1,
        ];
        for (number, lie) in lies.iter().enumerate() {
            let (pages, mut report) = moved();
            lie(&mut report);
            assert!(check_process_account(&pages, &report).is_err(), "lie {number}");
        }
        assert!(check_machine_account(3, 2).is_err());
    }

    /// Goal: a page that is lost, out of sight, or on an unexpected node is detected, whatever the
    /// account says.
    #[test]
    fn a_page_that_is_nowhere_is_found() {
        let harms: [fn(&mut Vec<PageView>); 3] = [
            |pages| pages.truncate(3),
            |pages| pages[2].is_in_flight = true,
            |pages| pages[3].node = NodeId(2),
        ];
        for (number, harm) in harms.iter().enumerate() {
            let (mut pages, report) = moved();
            harm(&mut pages.after);
            assert!(check_process_account(&pages, &report).is_err(), "harm {number}");
        }
    }
}
