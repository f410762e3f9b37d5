//! The work on one unit: look, decide, move, account.

use std::sync::Arc;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{Page, PageSet, Range, SkipReason};
use nodeward_policy::plan::{FolioMove, Order, Plan, Rules};

use crate::drive::{Driven, Driver, RETRY_PAUSES_NS};
use crate::journal::Journal;
use crate::pace::Pace;
use crate::survey::{Piece, Unit};
use crate::tally::Tally;
use crate::{Live, MoveRequest};

/// The context of all work on a move.
pub struct Work<'a> {
    pub machine: &'a dyn Machine,
    pub processes: &'a [Arc<dyn Process>],
    pub request: &'a MoveRequest,
    pub live: &'a Live,
    pub pace: &'a Pace,
    pub journal: Option<&'a Journal>,
}

impl Work<'_> {
    fn moves_everyones(&self) -> bool {
        self.request.selection.everyones && self.machine.capabilities().move_everyones
    }

    /// Returns whether other workers may be moving the same pages, for another process that maps
    /// them.
    pub fn is_in_company(&self) -> bool {
        self.processes.len() > 1 && self.moves_everyones()
    }

    /// Examines a unit and moves the pages that are to move. Refused folios are left to the caller.
    pub fn unit(&self, unit: &Unit) -> (Tally, Driven) {
        let mut tally = Tally::default();
        let driven = match self.look(unit) {
            Ok(plan) => {
                tally = Tally::of(&plan);
                self.drive(unit.process, unit.hugetlb, &plan.moves)
            }
            Err(error) if error.is_gone() => Driven::default(),
            Err(error) => Driven { error: Some(error), ..Driven::default() },
        };
        tally.enter(&driven);
        if driven.error.is_some() {
            self.live.stop();
        }
        (tally, driven)
    }

    /// Examines a unit and decides about its pages.
    ///
    /// # Errors
    /// If the process is gone or cannot be read.
    pub fn look(&self, unit: &Unit) -> Result<Plan> {
        let mut plan = Plan::default();
        for order in &*unit.orders {
            let flown = self.consider(unit, order, None, &mut plan)?;
            self.wait_for(unit, order, flown, &mut plan)?;
        }
        plan.sort();
        self.pace.note_too_large(plan.too_large_pages);
        Ok(plan)
    }

    /// Waits for pages that are in flight, and considers them where they landed.
    fn wait_for(
        &self,
        unit: &Unit,
        order: &Order,
        mut flown: PageSet,
        plan: &mut Plan,
    ) -> Result<()> {
        for pause_ns in RETRY_PAUSES_NS {
            if flown.is_empty() {
                return Ok(());
            }
            self.machine.sleep_ns(pause_ns);
            flown = self.consider(unit, order, Some(&flown), plan)?;
        }
        // The thread that moves them has still not finished.
        plan.account.skip(SkipReason::Pinned, flown.len());
        plan.unplaced += flown.len();
        Ok(())
    }

    /// Examines a unit and decides about its pages, or only about those in `only`. Returns the
    /// pages that are in flight.
    fn consider(
        &self,
        unit: &Unit,
        order: &Order,
        only: Option<&PageSet>,
        plan: &mut Plan,
    ) -> Result<PageSet> {
        let rules = Rules {
            order,
            only,
            everyones: self.moves_everyones(),
            folio_pages_max: self.pace.folio_pages_max(),
        };
        let concerns = |range: Range| only.is_none_or(|only| only.count_in(range) > 0);
        for piece in unit.pieces.iter().filter(|(_, range)| concerns(*range)) {
            self.consider_piece(unit, piece, &rules, plan)?;
        }
        let mut flown = PageSet::new(self.machine.page_bytes());
        plan.in_flight.drain(..).for_each(|folio| flown.insert_range(folio));
        Ok(flown)
    }

    fn consider_piece(
        &self,
        unit: &Unit,
        (mapping, range): &Piece,
        rules: &Rules<'_>,
        plan: &mut Plan,
    ) -> Result<()> {
        let mut pages: Vec<Page> = Vec::new();
        self.processes[unit.process].pages(mapping, *range, &mut pages)?;
        plan.consider(&pages, range.start, self.machine.page_bytes(), rules);
        Ok(())
    }

    /// Moves folios of a process, hugetlb ones or others. Writes them to the ledger before, and the
    /// outcome afterwards.
    pub fn drive(&self, process: usize, hugetlb: bool, moves: &[FolioMove]) -> Driven {
        let journal = self.journal.filter(|_| !moves.is_empty());
        let intended = journal.and_then(|j| j.intend(self.machine, process, moves));
        let driver = Driver {
            machine: self.machine,
            process: &*self.processes[process],
            live: self.live,
            pace: self.pace,
            everyones: self.moves_everyones(),
            hugetlb,
            in_company: self.is_in_company(),
        };
        let driven = driver.drive(moves);
        if let (Some(journal), Some(ticket)) = (journal, intended) {
            let all = driven.moved.len() == moves.len();
            journal.settle(self.machine, ticket, (!all).then_some(&driven.moved[..]));
        }
        driven
    }
}
