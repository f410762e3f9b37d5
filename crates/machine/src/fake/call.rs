//! One call of `move_pages` or `migrate_pages` on the fake machine.

use nodeward_model::{NodeId, Page, PageLocation};

use super::process::{FakeProcess, PAGE_BYTES};
use crate::{CallEnd, EntryRefusal, EntryStatus, MovePagesCall, SEPARATOR};

/// One call in progress, processed as the kernel's do_pages_move does.
pub(super) struct FakeMovePages<'a> {
    process: &'a mut FakeProcess,
    batch: &'a MovePagesCall,
    status: Vec<EntryStatus>,
    /// Heads of the folios that are held, in order.
    run: Vec<u64>,
}

impl FakeMovePages<'_> {
    /// Carries out the call. Returns its end and the status of the entries up to there.
    pub(super) fn execute(
        process: &mut FakeProcess,
        batch: &MovePagesCall,
    ) -> (CallEnd, Vec<EntryStatus>) {
        let mut call = FakeMovePages { process, batch, status: Vec::new(), run: Vec::new() };
        let end = call.execute_entries();
        (end, call.status)
    }

    fn execute_entries(&mut self) -> CallEnd {
        for entry in 0..self.batch.len() {
            let (address, node) = (self.batch.addresses()[entry], self.batch.nodes()[entry]);
            if self.process.forbidden_nodes.contains(&node) {
                self.finish_run(entry);
                return CallEnd::NotAllowed;
            }
            let same_node = entry == 0 || self.batch.nodes()[entry - 1] == node;
            let end = if same_node { None } else { self.finish_run(entry) };
            let end = end.or_else(|| match self.check_entry(address, node) {
                None => {
                    self.run.push(self.process.folio(address).start);
                    None
                }
                Some(status) => {
                    let end = self.finish_run(entry);
                    self.status.extend(end.is_none().then_some(status));
                    end
                }
            });
            if let Some(end) = end {
                return end;
            }
        }
        self.finish_run(self.batch.len()).unwrap_or(CallEnd::Complete)
    }

    /// Returns the status of an entry that cannot be taken; `None` if the folio can be taken.
    fn check_entry(&self, address: u64, to: NodeId) -> Option<EntryStatus> {
        let page = self.process.page(address);
        let refused = |refusal| Some(EntryStatus::Refused(refusal));
        match page.location {
            _ if address == SEPARATOR => refused(EntryRefusal::Fault),
            PageLocation::Absent | PageLocation::Swapped | PageLocation::InFlight => {
                refused(EntryRefusal::Absent)
            }
            PageLocation::Unmovable => refused(EntryRefusal::Fault),
            PageLocation::On(node) if node == to => Some(EntryStatus::On(node)),
            PageLocation::On(_) if page.shared && !self.batch.move_shared => {
                refused(EntryRefusal::Shared)
            }
            PageLocation::On(_) if self.run.contains(&self.process.folio(address).start) => {
                refused(EntryRefusal::Busy)
            }
            PageLocation::On(_) => None,
        }
    }

    /// Moves the folios of the run; `Some` if that ends the call. `upto` is the first entry after
    /// the run.
    fn finish_run(&mut self, upto: usize) -> Option<CallEnd> {
        let run = std::mem::take(&mut self.run);
        let first = upto.checked_sub(1).filter(|_| !run.is_empty())?;
        let to = self.batch.nodes()[first];
        let folios: Vec<_> = run.iter().map(|&n| self.process.folio(n * PAGE_BYTES)).collect();
        let held = folios.iter().map(|folio| folio.end - folio.start).sum();
        self.process.run_pages_max = self.process.run_pages_max.max(held);
        let (mut stuck, mut full) = (false, false);
        for folio in folios {
            match self.process.move_folio(folio, to) {
                Ok(()) => {}
                Err(EntryRefusal::NoMemory) => full = true,
                Err(_) => stuck = true,
            }
        }
        match (full, stuck) {
            (true, _) => Some(CallEnd::NoMemory),
            (false, true) => Some(CallEnd::Aborted),
            (false, false) => {
                self.status.extend(run.iter().map(|_| EntryStatus::On(to)));
                None
            }
        }
    }
}

impl FakeProcess {
    /// Moves every folio that is on a node, as migrate_pages(2) does with privilege.
    pub(super) fn move_all(&mut self, from: NodeId, to: NodeId) -> CallEnd {
        if self.forbidden_nodes.contains(&to) {
            return CallEnd::NotAllowed;
        }
        let is_there = |page: &Page| page.node() == Some(from) && page.folio_pages > 0;
        let heads: Vec<u64> = self
            .pages
            .iter()
            .filter(|(_, page)| is_there(page))
            .map(|(&number, _)| number)
            .collect();
        let mut end = CallEnd::Complete;
        for head in heads {
            match self.move_folio(self.folio(head * PAGE_BYTES), to) {
                Ok(()) => {}
                Err(EntryRefusal::NoMemory) => return CallEnd::NoMemory,
                Err(_) => end = CallEnd::Aborted,
            }
        }
        end
    }

    fn move_folio(&mut self, folio: std::ops::Range<u64>, to: NodeId) -> Result<(), EntryRefusal> {
        if self.pinned.range(folio.clone()).next().is_some() {
            return Err(EntryRefusal::Busy);
        }
        let pages = folio.end - folio.start;
        let from = self.page(folio.start * PAGE_BYTES).node();
        if let Some(free) = self.free_pages.get_mut(&to) {
            *free = free.checked_sub(pages).ok_or(EntryRefusal::NoMemory)?;
            let least = self.free_pages_min.entry(to).or_insert(*free);
            *least = (*least).min(*free);
        }
        if let Some(free) = from.and_then(|from| self.free_pages.get_mut(&from)) {
            *free += pages;
        }
        for number in folio {
            if let Some(page) = self.pages.get_mut(&number) {
                page.location = PageLocation::On(to);
            }
        }
        Ok(())
    }
}
