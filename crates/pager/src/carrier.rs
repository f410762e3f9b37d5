//! Carries out batches: the work of one lane, or of the fault handler, on the pages of a chunk that
//! it has claimed.
//!
//! Nothing here allocates or frees between taking pages out of sight and bringing them back (or
//! releasing their chunk with the pages out). A thread that touches such a page may hold a lock of
//! the program's allocator, for example in an allocator hook or in a signal handler that
//! interrupted it. The thread behind page faults never allocates at all, see [`crate::porter`].

use std::sync::Arc;
use std::time::Instant;

use nodeward_migrate::{Batch, Refusal, Refused, Shape, Step};
use nodeward_model::{NodeId, Range, SkipReason};
use nodeward_policy::pacing::StallBudget;
use nodeward_policy::ways::Way;

use crate::by_kernel;
use crate::hands::{Hands, Seat, Trip, whole, within_stretches};
use crate::landing;
use crate::page_bits::{PAGES_MAX, PageBits};
use crate::porter::Errands;
use crate::refusals;
use crate::shadow::Shadow;
use crate::shop::Shop;
use crate::stock::{Destination, Kept, Stock};
use crate::{CHUNK_BYTES, PageSize, Report};

/// Attempts per batch for a page that is refused with a transient error.
const ATTEMPTS: u32 = 3;

/// The state of one thread that carries pages.
pub struct Carrier {
    pub shop: Arc<Shop>,
    pub stock: Stock,
    batch: Batch,
    refused: Vec<Refused>,
    seats: Vec<Seat>,
    /// Pages of the chunk that were refused because another process or the kernel holds them.
    busy: PageBits,
    /// A spare report with room for every reason, so that none is allocated while pages are out.
    pub scratch: Report,
    /// The porter that fetches and takes slots on behalf of the thread behind page faults.
    pub porter: Option<Errands>,
}

/// Pages that have been taken out of sight.
pub struct Out {
    /// The slot that they are in, each at its own index.
    pub shadow: Shadow,
    /// Page size of the pool of slots that `shadow` belongs to.
    pub slots: PageSize,
    /// The pages, by their index in the chunk.
    pub pages: PageBits,
}

impl Carrier {
    /// State for lane number `lane`. Lanes with different numbers use different sections.
    pub fn new(shop: Arc<Shop>, lane: usize) -> Self {
        let shape = Shape { folios: 0, folio_pages: 1, page_bytes: 1, copiers: 1, attempts: 1 };
        let most = Batch::PAGES_MAX as usize;
        let stock = Stock::new(Arc::clone(&shop), lane);
        Self {
            shop,
            stock,
            batch: Batch::new(shape),
            refused: Vec::with_capacity(most),
            seats: Vec::with_capacity(most),
            busy: PageBits::default(),
            scratch: Report::with_room(),
            porter: None,
        }
    }

    /// Moves pages of a chunk that are in sight, batch by batch.
    pub fn migrate(
        &mut self,
        trip: &Trip<'_>,
        pages: PageBits,
        stall: &mut Option<StallBudget>,
        report: &mut Report,
    ) {
        if trip.size == PageSize::Huge && !self.is_one_huge_page(trip) {
            let trip = Trip { size: PageSize::Base, ..*trip };
            return self.migrate(&trip, pages, stall, report);
        }
        let folio_pages = self.shop.folio_pages(trip.size);
        let folio_bytes = (folio_pages * self.shop.page_bytes) as u64;
        let mut room = [0; PAGES_MAX];
        let mut rest = folios(trip.size, &pages, &mut room);
        let mut stayed = PageBits::default();
        while !rest.is_empty() {
            if let Some(why) = reason_to_stop(trip, stall.as_ref()) {
                report.account.skip(why, (rest.len() * folio_pages) as u64);
                break;
            }
            let most = (limit(trip, stall.as_ref()) / folio_pages).clamp(1, rest.len());
            let most = most.min(within_stretches(rest, self.shop.passage.stretches_max()));
            let way = self.stock.way(trip, most);
            if way == Way::Kernel {
                let (now, later) = rest.split_at(most);
                rest = later;
                self.let_kernel(trip, now, &mut stayed, report);
                trip.control.examined(now.len() as u64 * folio_bytes);
                continue;
            }
            let (began, moved) = (Instant::now(), report.account.moved);
            let (destination, most) = match self.stock.destination(trip, way, most, report) {
                Ok(found) => found,
                Err(why) => {
                    report.account.skip(why, (rest.len() * folio_pages) as u64);
                    break;
                }
            };
            let (now, later) = rest.split_at(most);
            rest = later;
            let hold_ns = self.carry(trip, now, &destination, report);
            trip.control.examined(now.len() as u64 * folio_bytes);
            if trip.size == PageSize::Base {
                let moved = report.account.moved - moved;
                self.stock.costs.learn(destination.way(), moved, nanoseconds(began));
            }
            if let Some(stall) = stall {
                learn(stall, trip.size, (now.len() * folio_pages) as u64, hold_ns);
            }
        }
        if !stayed.is_empty() {
            self.migrate(&Trip { by_kernel: false, ..*trip }, stayed, stall, report);
        }
    }

    /// Moves a batch of base pages with move_pages(2) and adds those that stay to `stayed`. The
    /// time that a single page was out of sight is not known, so the time of the whole call is
    /// reported.
    fn let_kernel(
        &mut self,
        trip: &Trip<'_>,
        pages: &[usize],
        stayed: &mut PageBits,
        report: &mut Report,
    ) {
        let began = Instant::now();
        let start = trip.home.start() + trip.start as u64;
        let chunk = Range::new(start, start + CHUNK_BYTES as u64);
        let (myself, page_bytes) = (&*self.shop.myself, self.shop.page_bytes as u64);
        let left = by_kernel::migrate(myself, chunk, page_bytes, pages, trip.to);
        let took_ns = nanoseconds(began);
        left.iter().for_each(|page| stayed.insert(page));
        let moved = (pages.len() - left.len()) as u64;
        match left.len() > pages.len() / 2 {
            true => self.stock.costs.refused(Way::Kernel),
            false => self.stock.costs.learn(Way::Kernel, moved, took_ns),
        }
        report.account.moved += moved;
        report.one_way_pages += moved;
        report.by_kernel_pages += moved;
        report.batches += 1;
        report.spent.kernel_ns += took_ns;
        report.longest_hold_ns = report.longest_hold_ns.max(took_ns);
    }

    /// Returns whether the chunk still is one huge page: the kernel may have split it.
    fn is_one_huge_page(&self, trip: &Trip<'_>) -> bool {
        self.shop.is_huge_page(trip.home.start() + trip.start as u64)
    }

    /// Returns an empty report with room for every reason. The caller puts it back into `scratch`.
    pub fn take_scratch(&mut self) -> Report {
        self.scratch.clear();
        std::mem::take(&mut self.scratch)
    }

    /// Returns the pages that were refused as busy since the last call.
    pub fn take_busy(&mut self) -> PageBits {
        std::mem::take(&mut self.busy)
    }

    /// Carries one batch of folios (indices in the chunk). Returns the time that they were out of
    /// sight, in nanoseconds.
    fn carry(
        &mut self,
        trip: &Trip<'_>,
        folios: &[usize],
        destination: &Destination,
        report: &mut Report,
    ) -> u64 {
        let folio_pages = self.shop.folio_pages(trip.size);
        let began = Instant::now();
        let first_out = self.stock.empty_slot(trip, folios.len());
        report.spent.supply_ns += nanoseconds(began);
        let Some(first_out) = first_out else {
            report.account.skip(SkipReason::NoMemory, (folios.len() * folio_pages) as u64);
            return 0;
        };
        let seat = |(index, &home)| Seat { home, out: first_out + index };
        self.seats.clear();
        self.seats.extend(folios.iter().enumerate().map(seat));
        self.batch.reset(self.shape(trip.size));
        let (size, node, mut emptied) = self.stock.emptied.take().expect("just made ready");
        let (hold_ns, moved) = self.drive(trip, destination, &mut emptied, report);
        let clean = moved == folios.len();
        let before = emptied.pages;
        emptied.pages += folios.len() * folio_pages;
        if !clean || !self.shop.passage.can_bring() {
            emptied.keep(before, self.shop.page_bytes);
        }
        let began = Instant::now();
        self.stock.leave(size, node, emptied);
        self.stock.settle(destination, clean, folio_pages);
        report.spent.supply_ns += nanoseconds(began);
        self.correct(trip, destination, report);
        hold_ns
    }

    /// Takes pages out of sight and leaves them there. Pages that cannot be taken out are skipped
    /// in `report`, except busy ones, which [`Self::take_busy`] returns.
    pub fn leave_out(
        &mut self,
        trip: &Trip<'_>,
        pages: PageBits,
        report: &mut Report,
    ) -> Option<Out> {
        let huge = trip.size == PageSize::Huge && self.is_one_huge_page(trip);
        let size = if huge { PageSize::Huge } else { PageSize::Base };
        let Ok(mut shadow) = self.shop.shadows(size).empty(self.stock.lane) else {
            report.account.skip(SkipReason::NoMemory, pages.len() as u64);
            return None;
        };
        let began = Instant::now();
        self.seat(pages.iter());
        let all = [whole(&self.seats)];
        self.hands(trip).unmap(&all, &mut shadow);
        let mut out = pages;
        for refused in self.refused.drain(..) {
            let (Refusal::Transient(why) | Refusal::Final(why)) = refused.why;
            let page = self.seats[refused.folio as usize].home;
            match refused.why == refusals::BUSY {
                true => self.busy.insert(page),
                false => report.account.skip(why, 1),
            }
            out.remove(page);
        }
        report.lazy_pages += out.len() as u64;
        report.spent.unmap_ns += nanoseconds(began);
        Some(Out { shadow, slots: size, pages: out })
    }

    /// Puts back pages that were left out, and wakes the threads that wait for them.
    pub fn put_back(&mut self, trip: &Trip<'_>, shadow: &mut Shadow, pages: &PageBits) {
        self.seat(pages.iter());
        let all = [whole(&self.seats)];
        self.hands(trip).put_back(&all, shadow);
        self.refused.clear(); // pages refused here have no home any more
    }

    /// Moves pages that were left out on to their destination. Pages that cannot be moved are put
    /// back, or no longer have a home. After an error some pages are still out, and the caller has
    /// to put all of them back. Allocates nothing.
    pub fn pull(
        &mut self,
        trip: &Trip<'_>,
        shadow: &mut Shadow,
        pages: &PageBits,
        report: &mut Report,
    ) -> Result<(), SkipReason> {
        let folio_pages = self.shop.folio_pages(trip.size);
        let mut room = [0; PAGES_MAX];
        let mut rest = folios(trip.size, pages, &mut room);
        while !rest.is_empty() {
            let porter = self.porter.as_mut().expect("only the thread behind faults pulls");
            let (destination, most) = porter.destination(&mut self.stock, trip, rest.len())?;
            let (now, later) = rest.split_at(most);
            self.seat(now.iter().copied());
            self.batch.reset_to_unmapped(self.shape(trip.size));
            let (_, moved) = self.drive(trip, &destination, shadow, report);
            self.stock.settle(&destination, moved == most, folio_pages);
            rest = later;
        }
        Ok(())
    }

    /// Returns a huge page of zeros that is fresh from the kernel.
    pub fn fresh_huge_page(&self, node: Option<NodeId>) -> Result<Shadow, SkipReason> {
        match &self.porter {
            Some(porter) => porter.huge_page(node),
            None => self.stock.fresh_huge_page(node),
        }
    }

    /// Gives back a slot.
    pub fn give(&self, slot: Kept) {
        match &self.porter {
            Some(porter) => porter.give(slot),
            None => self.shop.shadows(slot.0).give(slot.2, slot.1),
        }
    }

    /// Assigns seats to folios whose index in the slot equals their index in the chunk.
    fn seat(&mut self, folios: impl Iterator<Item = usize>) {
        self.seats.clear();
        self.seats.extend(folios.map(|index| Seat { home: index, out: index }));
    }

    fn hands<'a>(&'a mut self, trip: &'a Trip<'a>) -> Hands<'a> {
        let folio_bytes = self.shop.page_bytes;
        Hands {
            shop: &self.shop,
            trip,
            seats: &self.seats,
            refused: &mut self.refused,
            folio_bytes,
        }
    }

    fn shape(&self, size: PageSize) -> Shape {
        Shape {
            folios: self.seats.len() as u32,
            folio_pages: self.shop.folio_pages(size) as u32,
            page_bytes: self.shop.page_bytes as u64,
            copiers: 1,
            attempts: ATTEMPTS,
        }
    }

    /// Carries out the steps of the batch to its end. Returns the longest time that pages were out
    /// of sight (ns), and the number of folios moved.
    fn drive(
        &mut self,
        trip: &Trip<'_>,
        destination: &Destination,
        emptied: &mut Shadow,
        report: &mut Report,
    ) -> (u64, usize) {
        let Self { shop, batch, refused, seats, stock: Stock { ready, .. }, busy, .. } = self;
        let folio_bytes = match trip.size {
            PageSize::Base => shop.page_bytes,
            PageSize::Huge => CHUNK_BYTES,
        };
        let mut hands = Hands { shop, trip, seats, refused, folio_bytes };
        let (mut hold_ns, mut out_since) = (0, Instant::now());
        loop {
            let began = Instant::now();
            let step = batch.next(hands.refused);
            hands.refused.clear();
            match step {
                Step::Unmap(runs) => {
                    out_since = began;
                    hands.unmap(runs, emptied);
                    hands.note_busy(runs, busy);
                    report.spent.unmap_ns += nanoseconds(began);
                }
                Step::Flush => {} // UFFDIO_MOVE does not return before it
                Step::Copy(slices) => {
                    if let (Destination::Ready(first), Some((_, _, ready))) =
                        (destination, &mut *ready)
                    {
                        hands.copy(slices, emptied, ready, *first);
                    }
                    report.spent.copy_ns += nanoseconds(began);
                }
                Step::Map(runs) => {
                    match (destination, &mut *ready) {
                        (Destination::Ready(first), Some((_, _, ready))) => {
                            hands.map(runs, ready, *first);
                        }
                        _ => hands.map_fresh(runs, emptied),
                    }
                    report.spent.map_ns += nanoseconds(began);
                    hold_ns = hold_ns.max(nanoseconds(out_since));
                }
                Step::PutBack(runs) => {
                    hands.put_back(runs, emptied);
                    hold_ns = hold_ns.max(nanoseconds(out_since));
                }
                Step::End(account) => {
                    report.account.add(account);
                    report.batches += 1;
                    report.longest_hold_ns = report.longest_hold_ns.max(hold_ns);
                    let moved = account.moved;
                    match destination {
                        Destination::Ready(_) => report.recycled_pages += moved,
                        Destination::Fresh => report.one_way_pages += moved,
                    }
                    let folio_pages = (folio_bytes / shop.page_bytes) as u64;
                    return (hold_ns, (moved / folio_pages) as usize);
                }
            }
        }
    }

    /// Checks which node the fresh pages of the last batch came from, and corrects the report.
    fn correct(&self, trip: &Trip<'_>, destination: &Destination, report: &mut Report) {
        if let Destination::Fresh = destination {
            let moved = self.seats.iter().zip(0..).filter(|(_, index)| self.batch.is_moved(*index));
            landing::correct(&self.shop, trip, moved.map(|(seat, _)| seat.home), report);
        }
    }
}

/// Returns the folios of some pages of a chunk, by their index in it.
fn folios<'a>(size: PageSize, pages: &PageBits, room: &'a mut [usize; PAGES_MAX]) -> &'a [usize] {
    match size {
        PageSize::Base => {
            room.iter_mut().zip(pages.iter()).for_each(|(folio, page)| *folio = page);
            &room[..pages.len()]
        }
        PageSize::Huge => &room[..1],
    }
}

/// Returns why no further batch may begin, if so.
fn reason_to_stop(trip: &Trip<'_>, stall: Option<&StallBudget>) -> Option<SkipReason> {
    let huge = trip.size == PageSize::Huge;
    if trip.control.is_stopped() {
        Some(SkipReason::Interrupted)
    } else if huge && stall.is_some_and(|stall| stall.folio_pages_max() < Batch::PAGES_MAX) {
        Some(SkipReason::StallBudget)
    } else {
        None
    }
}

/// Returns the most base pages that the next batch may have.
fn limit(trip: &Trip<'_>, stall: Option<&StallBudget>) -> usize {
    let budget = stall.map_or(usize::MAX, |stall| stall.run_pages() as usize);
    trip.batch_pages.min(budget)
}

fn learn(stall: &mut StallBudget, size: PageSize, pages: u64, hold_ns: u64) {
    match size {
        PageSize::Base => stall.learn(pages, hold_ns),
        PageSize::Huge => stall.learn_huge(pages, hold_ns),
    }
}

/// Returns the time elapsed since `since`, in nanoseconds.
pub fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
