//! Moves pages whose addresses nobody knows: by one walk inside the kernel, counted before and
//! after. See [`crate::sparse`].

use nodeward_machine::{CallEnd, PagesByMapping, Process, Result};
use nodeward_model::{NodeId, SkipReason};
use nodeward_policy::folio_plan::MoveOrder;

use crate::folio_mover::RETRY_PAUSES_NS;
use crate::move_context::MoveContext;
use crate::outcomes::{NodeCounts, PageFlows, UnitOutcome, add_counts};
use crate::report::ProcessPlan;
use crate::sparse::counted_in;

/// A walk over one process.
pub struct KernelWalk<'a> {
    pub work: &'a MoveContext<'a>,
    /// Index of the process among those of the move.
    pub process: usize,
    /// The mappings whose pages it accounts for, as they were counted.
    pub mappings: &'a PagesByMapping,
    pub order: &'a MoveOrder,
}

impl KernelWalk<'_> {
    /// Moves the pages, and accounts for those of the mappings.
    pub fn carry_out(&self) -> UnitOutcome {
        if self.work.control.is_stopped() {
            let before = total(self.mappings);
            return self.outcome(&before, &before, SkipReason::Interrupted);
        }
        let before = self.count().unwrap_or_else(|_| total(self.mappings));
        if let Some(ledger) = self.work.ledger {
            ledger.note_unlisted_moves(self.work.machine);
        }
        match self.walk(&before) {
            Ok((after, reason)) => {
                let outcome = self.outcome(&before, &after, reason);
                let bytes = outcome.account.moved * self.work.machine.page_bytes();
                self.work.control.add_moved(bytes);
                UnitOutcome { walked_pages: outcome.account.moved, ..outcome }
            }
            Err(error) if error.is_gone() => self.outcome(&before, &before, SkipReason::Gone),
            Err(error) => {
                tracing::debug!(%error, "the kernel did not move the pages of a process");
                self.outcome(&before, &before, SkipReason::Refused)
            }
        }
    }

    /// Moves, and tries again while pages stay that may be held for a moment. Returns where pages
    /// are then, and why those on a source have stayed.
    fn walk(&self, before: &NodeCounts) -> Result<(NodeCounts, SkipReason)> {
        let mut after = before.clone();
        let mut reason = self.held();
        for pause_ns in [0].into_iter().chain(RETRY_PAUSES_NS) {
            if self.on_sources(&after) == 0 || self.work.control.is_stopped() {
                break;
            }
            self.work.machine.sleep_ns(pause_ns);
            reason = self.call()?;
            after = self.count()?;
            if reason != self.held() {
                break;
            }
        }
        Ok((after, reason))
    }

    /// Makes one call for each pair of nodes. Returns why pages stay, if they do.
    fn call(&self) -> Result<SkipReason> {
        let mut reason = self.held();
        for (from, to) in self.order.pairs.iter() {
            match self.process().migrate_pages(from, to)? {
                CallEnd::Complete | CallEnd::Aborted => {}
                CallEnd::NoMemory => reason = SkipReason::NoMemory,
                CallEnd::NotAllowed => reason = SkipReason::NotAllowed,
                CallEnd::Gone => return Ok(SkipReason::Gone),
            }
        }
        Ok(reason)
    }

    /// Returns the reason for a page that stayed although the kernel neither refused nor moved it.
    fn held(&self) -> SkipReason {
        match self.work.machine.capabilities().move_shared {
            true => SkipReason::Pinned,
            false => SkipReason::Shared,
        }
    }

    fn outcome(&self, before: &NodeCounts, after: &NodeCounts, why: SkipReason) -> UnitOutcome {
        let at = |counts: &NodeCounts, node| counts.get(&node).copied().unwrap_or(0);
        let mut outcome = UnitOutcome { before: before.clone(), ..UnitOutcome::default() };
        let account = &mut outcome.account;
        let stayed = |node| at(after, node).min(at(before, node));
        let sources = || self.order.pairs.iter().map(|(from, _)| from);
        for node in self.order.pairs.destinations().iter() {
            account.already_there += stayed(node);
            let arrived = at(after, node).saturating_sub(at(before, node));
            outcome.on_destination.insert(node, stayed(node) + arrived);
            account.moved += arrived;
        }
        let left: u64 = sources().map(|node| at(before, node) - stayed(node)).sum();
        account.moved = account.moved.min(left);
        outcome.flows = self.flows(account.moved, |node| at(before, node) - stayed(node));
        account.skip(SkipReason::NotPresent, left - account.moved);
        account.skip(why, sources().map(stayed).sum());
        outcome
    }

    /// Divides pages that arrived among the pairs of nodes, by how many left each source. Where
    /// more left than arrived, the rest was freed; from which source is not known.
    fn flows(&self, moved: u64, left: impl Fn(NodeId) -> u64) -> PageFlows {
        let mut rest = moved;
        let mut flows = PageFlows::new();
        for (from, to) in self.order.pairs.iter() {
            let pages = left(from).min(rest);
            rest -= pages;
            flows.extend((pages > 0).then_some(((from, to), pages)));
        }
        flows
    }

    fn on_sources(&self, counts: &NodeCounts) -> u64 {
        self.order.pairs.iter().filter_map(|(from, _)| counts.get(&from)).sum()
    }

    /// Counts the pages of the mappings as they are now.
    fn count(&self) -> Result<NodeCounts> {
        let counted = self.process().pages_by_mapping()?.unwrap_or_default();
        let mut pages = NodeCounts::new();
        for now in self.mappings.keys().filter_map(|&mapping| counted_in(&counted, mapping)) {
            add_counts(&mut pages, &now);
        }
        Ok(pages)
    }

    fn process(&self) -> &dyn Process {
        &*self.work.processes[self.process]
    }
}

/// Adds the pages of mappings that are left to a walk to the plan of a process.
pub fn add_to_plan(plan: &mut ProcessPlan, mappings: &PagesByMapping, order: &MoveOrder) {
    let counts = total(mappings);
    for (&node, &pages) in &counts {
        match order.pairs.destination(node) {
            Some(to) => *plan.moves.entry((node, to)).or_default() += pages,
            None if order.pairs.destinations().contains(node) => {
                plan.account.already_there += pages;
            }
            None => {}
        }
    }
    add_counts(&mut plan.residency, &counts);
}

/// Sums up the pages of mappings.
pub fn total(mappings: &PagesByMapping) -> NodeCounts {
    let mut pages = NodeCounts::new();
    mappings.values().for_each(|counts| add_counts(&mut pages, counts));
    pages
}
