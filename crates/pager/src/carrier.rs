//! Carries batches out: what one lane, or the fault handler, does with the pages of a chunk that it
//! has claimed.
//!
//! Between taking pages out of sight and bringing them back nothing here allocates, because the
//! program's allocator may live in a region.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use nodeward_linux::policy;
use nodeward_migrate::{Batch, Refusal, Refused, Shape, Step};
use nodeward_model::{NodeId, SkipReason};
use nodeward_policy::pacing::StallBudget;

use crate::hands::{Hands, Seat, Trip, whole, within_stretches};
use crate::landing;
use crate::page_bits::PageBits;
use crate::shadow::Shadow;
use crate::shop::Shop;
use crate::sys::Advice;
use crate::{CHUNK_BYTES, PageSize, Report, Supply};

/// How often a page that was refused for the time being is tried in one batch.
const ATTEMPTS: u32 = 3;

/// The tools of one thread that carries pages.
pub struct Carrier {
    pub shop: Arc<Shop>,
    lane: usize,
    batch: Batch,
    refused: Vec<Refused>,
    seats: Vec<Seat>,
    /// A slot that fills with emptied pages, and the node they are on.
    emptied: Option<(PageSize, Option<NodeId>, Shadow)>,
    /// A slot with destination pages, and the node they are on.
    ready: Option<(PageSize, NodeId, Shadow)>,
    /// Pages of the chunk that were refused because somebody holds or shares them.
    busy: PageBits,
    /// Where this thread's new pages come from.
    preferred: Option<NodeId>,
}

/// Pages that were taken out of sight.
pub struct Out {
    /// Where they are: each at its own index.
    pub shadow: Shadow,
    /// Which slots that one belongs to.
    pub slots: PageSize,
    /// Which they are.
    pub pages: PageBits,
}

/// Where the copies of a batch are made.
enum Destination {
    /// In the pages of [`Carrier::ready`], from this folio of it on.
    Ready(usize),
    /// Fresh pages that the kernel allocates and fills while it maps them.
    Fresh,
}

impl Carrier {
    /// Tools for a lane. Lanes with different numbers work in different sections.
    pub fn new(shop: Arc<Shop>, lane: usize) -> Self {
        let shape = Shape { folios: 0, folio_pages: 1, page_bytes: 1, copiers: 1, attempts: 1 };
        let most = Batch::PAGES_MAX as usize;
        Self {
            shop,
            lane,
            batch: Batch::new(shape),
            refused: Vec::with_capacity(most),
            seats: Vec::with_capacity(most),
            emptied: None,
            ready: None,
            busy: PageBits::default(),
            preferred: None,
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
        let folio_pages = self.folio_pages(trip.size);
        let folios: Vec<usize> = match trip.size {
            PageSize::Base => pages.iter().collect(),
            PageSize::Huge => vec![0],
        };
        let mut rest = &folios[..];
        while !rest.is_empty() {
            if let Some(why) = reason_to_stop(trip, stall.as_ref()) {
                return report.account.skip(why, (rest.len() * folio_pages) as u64);
            }
            let most = (limit(trip, stall.as_ref()) / folio_pages).clamp(1, rest.len());
            let most = most.min(within_stretches(rest, self.shop.passage.stretches_max()));
            let (destination, most) = match self.destination(trip, most, report) {
                Ok(found) => found,
                Err(why) => return report.account.skip(why, (rest.len() * folio_pages) as u64),
            };
            let (now, later) = rest.split_at(most);
            rest = later;
            let hold_ns = self.carry(trip, now, &destination, report);
            if let Some(stall) = stall {
                learn(stall, trip.size, (now.len() * folio_pages) as u64, hold_ns);
            }
        }
    }

    /// Whether the chunk is one huge page still: the kernel may have split it.
    fn is_one_huge_page(&self, trip: &Trip<'_>) -> bool {
        self.shop.is_huge_page(trip.home.start() + trip.start as u64)
    }

    /// The pages that were refused as busy since the last question.
    pub fn take_busy(&mut self) -> PageBits {
        std::mem::take(&mut self.busy)
    }

    /// Gives all slots back, at the end of a job.
    pub fn finish(&mut self) {
        if let Some((size, node, shadow)) = self.emptied.take() {
            self.shop.shadows(size).give(shadow, node);
        }
        if let Some((size, node, shadow)) = self.ready.take() {
            self.shop.shadows(size).give(shadow, Some(node));
        }
    }

    fn folio_pages(&self, size: PageSize) -> usize {
        match size {
            PageSize::Base => 1,
            PageSize::Huge => self.shop.chunk_pages(),
        }
    }

    /// Finds destination pages for at most so many folios, and for how many they are enough.
    fn destination(
        &mut self,
        trip: &Trip<'_>,
        most: usize,
        report: &mut Report,
    ) -> Result<(Destination, usize), SkipReason> {
        let began = Instant::now();
        let found = self.find_destination(trip, most);
        report.spent.supply_ns += nanoseconds(began);
        found
    }

    fn find_destination(
        &mut self,
        trip: &Trip<'_>,
        most: usize,
    ) -> Result<(Destination, usize), SkipReason> {
        let folio_pages = self.folio_pages(trip.size);
        if self.stock_up(trip)? {
            let (_, _, ready) = self.ready.as_ref().expect("just stocked up");
            let folios = ready.pages / folio_pages;
            let most = most.min(folios);
            return Ok((Destination::Ready(folios - most), most));
        }
        self.shop.room_for(trip.to, most * folio_pages)?;
        self.prefer(trip.to)?;
        Ok((Destination::Fresh, most))
    }

    /// Sees to it that `ready` has pages of the right kind; `false` if fresh base pages are to be
    /// used instead.
    fn stock_up(&mut self, trip: &Trip<'_>) -> Result<bool, SkipReason> {
        let fits = |ready: &(PageSize, NodeId, Shadow)| {
            (ready.0, ready.1) == (trip.size, trip.to) && ready.2.pages > 0
        };
        if trip.supply != Supply::OneWay && self.ready.as_ref().is_some_and(fits) {
            return Ok(true);
        }
        if let Some((size, node, shadow)) = self.ready.take() {
            self.shop.shadows(size).give(shadow, Some(node));
        }
        let shadows = self.shop.shadows(trip.size);
        let kept = match trip.supply {
            Supply::OneWay => None,
            Supply::Any | Supply::Recycled => shadows.kept(self.lane, trip.to),
        };
        let found = match (kept, trip.supply, trip.size) {
            (Some(kept), _, _) => kept,
            (None, Supply::Recycled, _) => return Err(SkipReason::NoMemory),
            (None, _, PageSize::Base) => return Ok(false),
            (None, _, PageSize::Huge) => self.fresh_huge_page(Some(trip.to))?,
        };
        self.ready = Some((trip.size, trip.to, found));
        Ok(true)
    }

    /// A huge page of zeros that is fresh from the kernel.
    pub fn fresh_huge_page(&mut self, node: Option<NodeId>) -> Result<Shadow, SkipReason> {
        if let Some(node) = node {
            self.shop.room_for(node, self.shop.chunk_pages())?;
            self.prefer(node)?;
        }
        let shadows = self.shop.shadows(PageSize::Huge);
        let mut shadow = shadows.unwatched().map_err(|_| SkipReason::NoMemory)?;
        let whole = 0..CHUNK_BYTES;
        let populated = shadow.slot.advise(whole, Advice::Populate).is_ok();
        let address = shadow.slot.address(0);
        let astray = node.is_some_and(|node| {
            !self.shop.has_one_node() && landing::is_elsewhere(&self.shop, address, node)
        });
        if populated && !astray && self.shop.is_huge_page(address) {
            shadow.pages = self.shop.chunk_pages();
            return Ok(shadow);
        }
        shadow.clear();
        shadows.give(shadow, None);
        Err(if populated && !astray { SkipReason::NoHugePage } else { SkipReason::NoMemory })
    }

    /// Lets this thread's new pages come from a node.
    pub fn prefer(&mut self, node: NodeId) -> Result<(), SkipReason> {
        if self.shop.has_one_node() || self.preferred == Some(node) {
            return Ok(());
        }
        policy::prefer_memory(node).map_err(|_| SkipReason::NotAllowed)?;
        self.preferred = Some(node);
        Ok(())
    }

    /// Sees to it that `emptied` can take so many folios from the trip's node, and returns at which
    /// of its folios they begin.
    fn empty_slot(&mut self, trip: &Trip<'_>, folios: usize) -> Option<usize> {
        let folio_pages = self.folio_pages(trip.size);
        let needed = folios * folio_pages;
        let chunk_pages = self.shop.chunk_pages();
        let fits = |emptied: &(PageSize, Option<NodeId>, Shadow)| {
            (emptied.0, emptied.1) == (trip.size, trip.from)
                && emptied.2.pages + needed <= chunk_pages
                && !emptied.2.slot.is_lost()
        };
        if !self.emptied.as_ref().is_some_and(fits) {
            if let Some((size, node, shadow)) = self.emptied.take() {
                self.shop.shadows(size).give(shadow, node);
            }
            let empty = self.shop.shadows(trip.size).empty(self.lane).ok()?;
            self.emptied = Some((trip.size, trip.from, empty));
        }
        self.emptied.as_ref().map(|(_, _, shadow)| shadow.pages / folio_pages)
    }

    /// Carries one batch of folios, given by their index in the chunk; returns how long they were
    /// out of sight, in nanoseconds.
    fn carry(
        &mut self,
        trip: &Trip<'_>,
        folios: &[usize],
        destination: &Destination,
        report: &mut Report,
    ) -> u64 {
        let folio_pages = self.folio_pages(trip.size);
        let began = Instant::now();
        let first_out = self.empty_slot(trip, folios.len());
        report.spent.supply_ns += nanoseconds(began);
        let Some(first_out) = first_out else {
            report.account.skip(SkipReason::NoMemory, (folios.len() * folio_pages) as u64);
            return 0;
        };
        let seat = |(index, &home)| Seat { home, out: first_out + index };
        self.seats.clear();
        self.seats.extend(folios.iter().enumerate().map(seat));
        self.batch.reset(self.shape(trip.size));
        let (size, node, mut emptied) = self.emptied.take().expect("just made ready");
        let (hold_ns, moved) = self.drive(trip, destination, &mut emptied, report);
        let clean = moved == folios.len();
        let before = emptied.pages;
        emptied.pages += folios.len() * folio_pages;
        if !clean || !self.shop.passage.can_bring() {
            emptied.keep(before, self.shop.page_bytes);
        }
        self.emptied = Some((size, node, emptied));
        self.settle(destination, clean, folio_pages);
        self.correct(trip, destination, report);
        hold_ns
    }

    /// Takes pages out of sight and leaves them there. What cannot be taken out is accounted for.
    pub fn leave_out(
        &mut self,
        trip: &Trip<'_>,
        pages: PageBits,
        report: &mut Report,
    ) -> Option<Out> {
        let huge = trip.size == PageSize::Huge && self.is_one_huge_page(trip);
        let size = if huge { PageSize::Huge } else { PageSize::Base };
        let Ok(mut shadow) = self.shop.shadows(size).empty(self.lane) else {
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
            report.account.skip(why, 1);
            out.remove(self.seats[refused.folio as usize].home);
        }
        report.lazy_pages += out.len() as u64;
        report.spent.unmap_ns += nanoseconds(began);
        Some(Out { shadow, slots: size, pages: out })
    }

    /// Puts pages back that were left out, and wakes who waits for them.
    pub fn put_back(&mut self, trip: &Trip<'_>, shadow: &mut Shadow, pages: &PageBits) {
        self.seat(pages.iter());
        let all = [whole(&self.seats)];
        let mut again = true;
        while again {
            self.hands(trip).put_back(&all, shadow);
            // Those that are home, or have none any more, are refused for good.
            again = self.refused.iter().any(|page| matches!(page.why, Refusal::Transient(_)));
            self.refused.clear();
        }
    }

    /// Moves pages that were left out on to their destination. Returns those that were moved; the
    /// others are back where they were, or have no place any more.
    pub fn pull(
        &mut self,
        trip: &Trip<'_>,
        shadow: &mut Shadow,
        pages: &PageBits,
        report: &mut Report,
    ) -> Result<(), SkipReason> {
        let folio_pages = self.folio_pages(trip.size);
        let mut folios = match trip.size {
            PageSize::Base => pages.iter().collect::<Vec<_>>(),
            PageSize::Huge => vec![0],
        };
        while !folios.is_empty() {
            let (destination, most) = self.destination(trip, folios.len(), report)?;
            let later = folios.split_off(most);
            self.seat(folios.into_iter());
            self.batch.reset_to_unmapped(self.shape(trip.size));
            let (_, moved) = self.drive(trip, &destination, shadow, report);
            self.settle(&destination, moved == most, folio_pages);
            self.correct(trip, &destination, report);
            folios = later;
        }
        Ok(())
    }

    /// Seats folios that have the same index in their slot as in their chunk.
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
            folio_pages: self.folio_pages(size) as u32,
            page_bytes: self.shop.page_bytes as u64,
            copiers: 1,
            attempts: ATTEMPTS,
        }
    }

    /// Does what the batch says, to its end. Returns the longest time that pages were out of
    /// sight, and how many folios were moved.
    fn drive(
        &mut self,
        trip: &Trip<'_>,
        destination: &Destination,
        emptied: &mut Shadow,
        report: &mut Report,
    ) -> (u64, usize) {
        let Self { shop, batch, refused, seats, ready, busy, .. } = self;
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

    /// Books what a batch took from the slot with destination pages. If it has a gap now, all from
    /// there on is freed: its pages would have to be counted one by one.
    fn settle(&mut self, destination: &Destination, clean: bool, folio_pages: usize) {
        if let (Destination::Ready(first), Some((_, _, ready))) = (destination, &mut self.ready) {
            match clean {
                true => ready.pages = first * folio_pages,
                false => ready.keep(first * folio_pages, self.shop.page_bytes),
            }
        }
    }

    /// Looks where the fresh pages of the last batch are.
    fn correct(&self, trip: &Trip<'_>, destination: &Destination, report: &mut Report) {
        if let Destination::Fresh = destination {
            let moved = self.seats.iter().zip(0..).filter(|(_, index)| self.batch.is_moved(*index));
            landing::correct(&self.shop, trip, moved.map(|(seat, _)| seat.home), report);
        }
    }
}

/// Why no further batch may begin.
fn reason_to_stop(trip: &Trip<'_>, stall: Option<&StallBudget>) -> Option<SkipReason> {
    let huge = trip.size == PageSize::Huge;
    if trip.stop.load(Ordering::Relaxed) {
        Some(SkipReason::Interrupted)
    } else if huge && stall.is_some_and(|stall| stall.folio_pages_max() < Batch::PAGES_MAX) {
        Some(SkipReason::StallBudget)
    } else {
        None
    }
}

/// Most base pages of the next batch.
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

/// Time since then.
pub fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
