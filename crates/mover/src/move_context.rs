//! The work on one unit: look, decide, move, account.

use std::sync::Arc;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{Page, PageSet, Range, SkipReason};
use nodeward_policy::folio_plan::{FolioMove, FolioPlan, MoveOrder, MoveRules};

use crate::folio_mover::{FolioMoveOutcome, FolioMover, RETRY_PAUSES_NS, pages_of};
use crate::outcomes::UnitOutcome;
use crate::pacer::MovePacer;
use crate::pinned_mappings::{NextFolios, PinnedMappings};
use crate::shared_ledger::SharedLedger;
use crate::sparse::UnitPiece;
use crate::stop_limit::{ACCOUNT_NS, StopLimit};
use crate::survey::Unit;
use crate::{MoveControl, MoveRequest};

/// The context of all work on a move.
pub struct MoveContext<'a> {
    pub machine: &'a dyn Machine,
    pub processes: &'a [Arc<dyn Process>],
    pub request: &'a MoveRequest,
    pub control: &'a MoveControl,
    pub pacer: &'a MovePacer,
    pub ledger: Option<&'a SharedLedger>,
    /// The time at which looks end after a stop.
    pub stop_limit: &'a StopLimit<'a>,
    /// The mappings that are known to be pinned, if pinned ones are to be left untried.
    pub pinned: Option<&'a PinnedMappings>,
}

impl MoveContext<'_> {
    fn moves_shared(&self) -> bool {
        self.request.selection.move_shared && self.machine.capabilities().move_shared
    }

    /// Returns whether other workers may be moving the same pages, for another process that maps
    /// them.
    pub fn has_concurrent_moves(&self) -> bool {
        self.processes.len() > 1 && self.moves_shared()
    }

    /// Examines a unit and moves the pages that are to move. Refused folios are left to the caller.
    pub fn move_unit(&self, unit: &Unit) -> (UnitOutcome, FolioMoveOutcome) {
        let mut tally = UnitOutcome::default();
        let outcome = match self.look(unit) {
            Ok(plan) => {
                tally = UnitOutcome::of(&plan);
                self.move_tried_folios(unit, &plan.moves)
            }
            Err(error) if error.is_gone() => FolioMoveOutcome::default(),
            Err(error) => FolioMoveOutcome { error: Some(error), ..FolioMoveOutcome::default() },
        };
        tally.add_moves(&outcome);
        if outcome.error.is_some() {
            self.control.stop();
        }
        (tally, outcome)
    }

    /// Examines a unit and decides about its pages.
    ///
    /// # Errors
    /// If the process is gone or cannot be read.
    pub fn look(&self, unit: &Unit) -> Result<FolioPlan> {
        let mut plan = FolioPlan::default();
        if self.stop_limit.is_over(ACCOUNT_NS) {
            plan.unexamined_bytes = unit.bytes;
            return Ok(plan);
        }
        for order in &*unit.orders {
            let flown = self.plan_order(unit, order, None, &mut plan)?;
            self.wait_for_in_flight(unit, order, flown, &mut plan)?;
        }
        plan.sort();
        self.pacer.note_too_large(plan.largest_skipped_folio_pages);
        Ok(plan)
    }

    /// Waits for pages that are in flight, and considers them where they landed.
    fn wait_for_in_flight(
        &self,
        unit: &Unit,
        order: &MoveOrder,
        mut flown: PageSet,
        plan: &mut FolioPlan,
    ) -> Result<()> {
        for pause_ns in RETRY_PAUSES_NS {
            if flown.is_empty() {
                return Ok(());
            }
            self.machine.sleep_ns(pause_ns);
            flown = self.plan_order(unit, order, Some(&flown), plan)?;
        }
        // The thread that moves them has still not finished.
        plan.account.skip(SkipReason::Pinned, flown.len());
        plan.unlocated_pages += flown.len();
        Ok(())
    }

    /// Examines a unit and decides about its pages, or only about those in `only`. Returns the
    /// pages that are in flight.
    fn plan_order(
        &self,
        unit: &Unit,
        order: &MoveOrder,
        only: Option<&PageSet>,
        plan: &mut FolioPlan,
    ) -> Result<PageSet> {
        let rules = MoveRules {
            order,
            restrict_to: only,
            move_shared: self.moves_shared(),
            folio_pages_max: self.pacer.folio_pages_max(),
            stays: unit.stays,
        };
        let concerns = |range: Range| only.is_none_or(|only| only.count_in(range) > 0);
        let concerned = |(_, range): &&UnitPiece| concerns(*range);
        let pieces: Vec<UnitPiece> = unit.pieces.iter().filter(concerned).cloned().collect();
        self.plan_pieces(unit, &pieces, &rules, plan)?;
        let mut flown = PageSet::new(self.machine.page_bytes());
        plan.in_flight.drain(..).for_each(|folio| flown.insert_range(folio));
        Ok(flown)
    }

    fn plan_pieces(
        &self,
        unit: &Unit,
        pieces: &[UnitPiece],
        rules: &MoveRules<'_>,
        plan: &mut FolioPlan,
    ) -> Result<()> {
        let page_bytes = self.machine.page_bytes();
        let mut pages: Vec<Page> = Vec::new();
        self.processes[unit.process].pages_of(pieces, &mut pages)?;
        let mut rest = &pages[..];
        for (_, range) in pieces {
            let (here, after) = rest.split_at((range.bytes() / page_bytes) as usize);
            plan.add_pages(here, range.start, page_bytes, rules);
            rest = after;
        }
        Ok(())
    }

    /// Moves folios of a unit, but for those that are known to be pinned.
    fn move_tried_folios(&self, unit: &Unit, folios: &[FolioMove]) -> FolioMoveOutcome {
        let Some(pinned) = self.pinned else {
            return self.move_folios(unit.process, unit.hugetlb, folios);
        };
        let mut all = FolioMoveOutcome::default();
        for part in folios.chunk_by(|a, b| unit.mapping_of(a) == unit.mapping_of(b)) {
            let key = (unit.process, unit.mapping_of(&part[0]));
            let mut rest = part;
            while !rest.is_empty() && all.error.is_none() {
                let next = pinned.next(key, rest);
                let (NextFolios::Try(count) | NextFolios::Leave(count)) = next;
                let (some, after) = rest.split_at(count);
                rest = after;
                if next == NextFolios::Leave(count) {
                    all.skip(some, SkipReason::PinnedUntried);
                    continue;
                }
                let outcome = self.move_folios(unit.process, unit.hugetlb, some);
                pinned.learn(key, &outcome);
                all.join(outcome);
            }
            all.skip(rest, SkipReason::Refused);
        }
        all
    }

    /// Moves folios of a process, hugetlb ones or others. Writes them to the ledger before, and the
    /// outcome afterwards.
    pub fn move_folios(
        &self,
        process: usize,
        hugetlb: bool,
        moves: &[FolioMove],
    ) -> FolioMoveOutcome {
        let journal = self.ledger.filter(|_| !moves.is_empty());
        let intended = journal.and_then(|j| j.intend(self.machine, process, moves));
        let driver = FolioMover {
            machine: self.machine,
            process: &*self.processes[process],
            control: self.control,
            pacer: self.pacer,
            move_shared: self.moves_shared(),
            hugetlb,
            has_concurrent_moves: self.has_concurrent_moves(),
        };
        let outcome = driver.move_folios(moves);
        if let (Some(journal), Some(ticket)) = (journal, intended) {
            // Folios may have been split, so their number tells nothing.
            let all = pages_of(&outcome.moved) == pages_of(moves);
            journal.settle(self.machine, ticket, (!all).then_some(&outcome.moved[..]));
        }
        outcome
    }
}
