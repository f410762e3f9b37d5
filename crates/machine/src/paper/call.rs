//! One call of `move_pages` on the fake machine.

use nodeward_model::{NodeId, Place};

use super::{PAGE_BYTES, Sheet};
use crate::{CallEnd, EntryStatus, MoveBatch, Refusal, SEPARATOR};

/// One call in progress, processed as the kernel's do_pages_move does.
pub(super) struct Call<'a> {
    sheet: &'a mut Sheet,
    batch: &'a MoveBatch,
    status: Vec<EntryStatus>,
    /// Heads of the folios that are held, in order.
    run: Vec<u64>,
}

impl Call<'_> {
    /// Carries out the call. Returns its end and the status of the entries up to there.
    pub(super) fn carry_out(sheet: &mut Sheet, batch: &MoveBatch) -> (CallEnd, Vec<EntryStatus>) {
        let mut call = Call { sheet, batch, status: Vec::new(), run: Vec::new() };
        let end = call.go_through();
        (end, call.status)
    }

    fn go_through(&mut self) -> CallEnd {
        for entry in 0..self.batch.len() {
            let (address, node) = (self.batch.addresses()[entry], self.batch.nodes()[entry]);
            if self.sheet.forbidden.contains(&node) {
                self.finish_run(entry);
                return CallEnd::NotAllowed;
            }
            let same_node = entry == 0 || self.batch.nodes()[entry - 1] == node;
            let end = if same_node { None } else { self.finish_run(entry) };
            let end = end.or_else(|| match self.verdict(address, node) {
                None => {
                    self.run.push(self.sheet.folio(address).start);
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
    fn verdict(&self, address: u64, to: NodeId) -> Option<EntryStatus> {
        let page = self.sheet.page(address);
        let refused = |refusal| Some(EntryStatus::Refused(refusal));
        match page.place {
            _ if address == SEPARATOR => refused(Refusal::Fault),
            Place::Absent | Place::Swapped | Place::InFlight => refused(Refusal::Absent),
            Place::Fixed => refused(Refusal::Fault),
            Place::On(node) if node == to => Some(EntryStatus::On(node)),
            Place::On(_) if page.shared && !self.batch.everyones => refused(Refusal::Shared),
            Place::On(_) if self.run.contains(&self.sheet.folio(address).start) => {
                refused(Refusal::Busy)
            }
            Place::On(_) => None,
        }
    }

    /// Moves the folios of the run; `Some` if that ends the call. `upto` is the first entry after
    /// the run.
    fn finish_run(&mut self, upto: usize) -> Option<CallEnd> {
        let run = std::mem::take(&mut self.run);
        let first = upto.checked_sub(1).filter(|_| !run.is_empty())?;
        let to = self.batch.nodes()[first];
        let folios: Vec<_> = run.iter().map(|&n| self.sheet.folio(n * PAGE_BYTES)).collect();
        let held = folios.iter().map(|folio| folio.end - folio.start).sum();
        self.sheet.run_pages_max = self.sheet.run_pages_max.max(held);
        let (mut stuck, mut full) = (false, false);
        for folio in folios {
            match self.sheet.move_folio(folio, to) {
                Ok(()) => {}
                Err(Refusal::NoMemory) => full = true,
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

impl Sheet {
    fn move_folio(&mut self, folio: std::ops::Range<u64>, to: NodeId) -> Result<(), Refusal> {
        if self.pinned.range(folio.clone()).next().is_some() {
            return Err(Refusal::Busy);
        }
        let pages = folio.end - folio.start;
        let from = self.page(folio.start * PAGE_BYTES).node();
        if let Some(free) = self.free.get_mut(&to) {
            *free = free.checked_sub(pages).ok_or(Refusal::NoMemory)?;
            let least = self.free_pages_min.entry(to).or_insert(*free);
            *least = (*least).min(*free);
        }
        if let Some(free) = from.and_then(|from| self.free.get_mut(&from)) {
            *free += pages;
        }
        for number in folio {
            if let Some(page) = self.pages.get_mut(&number) {
                page.place = Place::On(to);
            }
        }
        Ok(())
    }
}
