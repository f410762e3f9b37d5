//! The porter: a thread that fetches and takes slots for the thread behind page faults.
//!
//! Checking for room and keeping slots need the program's allocator, and locks that other threads
//! hold while they use it. The faulting thread may hold just those: it may be in an allocator hook,
//! or in a signal handler that interrupted malloc(3). So the thread behind faults lets the porter
//! do that work and waits for it, with a timeout. After the timeout a page that was left out is put
//! back where it was, which needs none of this.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nodeward_model::{NodeId, SkipReason};

use crate::error::Result;
use crate::hands::Trip;
use crate::lanes::start_thread;
use crate::shadow::Shadow;
use crate::shop::Shop;
use crate::stock::{Destination, Kept, Stock, fits, prefer};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};
use crate::{CHUNK_BYTES, PageSize};

/// Timeout of a fault's wait for the porter. It is longer than the porter takes on a machine that
/// makes progress, and short beside the time that a thread can wait for a swapped-out page.
const PATIENCE: Duration = Duration::from_secs(1);
/// Validity of a finding that a node has room: other programs allocate as well.
const ROOM_LASTS: Duration = Duration::from_millis(20);
/// Maximum number of slots that wait to be taken. More would accumulate only if the porter waited
/// for the program's allocator all the time.
const GIVEN_MAX: usize = 1024;

/// The handle of the thread.
pub struct Porter {
    counter: Arc<Counter>,
    thread: Option<JoinHandle<()>>,
}

/// The fault handler's side: requests to the porter.
pub struct Errands {
    counter: Arc<Counter>,
    shop: Arc<Shop>,
    /// Room for fresh base pages on a node: the node, the pages left, and the time of the finding.
    room: Option<(NodeId, usize, Instant)>,
}

/// The shared state of both sides. No thread allocates or frees with its lock.
struct Counter {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    wish: Option<Wish>,
    /// Number of requests so far. A result for an earlier request is not wanted any more.
    wishes: u64,
    found: Option<Found>,
    /// The porter still works on a request that timed out.
    is_late: bool,
    given: Vec<Kept>,
    ended: bool,
}

/// A request.
#[derive(Clone, Copy)]
enum Wish {
    /// A destination for `pages` base pages: pages that are kept, or room for fresh ones.
    Destination { size: PageSize, to: NodeId, pages: usize },
    /// A huge page of zeros.
    HugePage(Option<NodeId>),
}

/// The result: pages, or room for this many fresh ones.
enum Found {
    Pages(Shadow),
    Room(usize),
    Nothing(SkipReason),
}

impl Porter {
    /// Starts the thread. `lane` is a number that no lane has.
    pub fn start(shop: &Arc<Shop>, lane: usize) -> Result<Self> {
        let given = Vec::with_capacity(GIVEN_MAX);
        let state =
            State { wish: None, wishes: 0, found: None, is_late: false, given, ended: false };
        let counter = Arc::new(Counter { state: Mutex::new(state), changed: Condvar::new() });
        let stock = Stock::new(Arc::clone(shop), lane);
        let (counter_of_thread, shop) = (Arc::clone(&counter), Arc::clone(shop));
        let thread = start_thread("nodeward-porter".to_owned(), move || {
            serve(&counter_of_thread, &shop, &stock);
        })?;
        Ok(Self { counter, thread: Some(thread) })
    }

    /// Returns the fault handler's side.
    pub fn errands(&self, shop: &Arc<Shop>) -> Errands {
        Errands { counter: Arc::clone(&self.counter), shop: Arc::clone(shop), room: None }
    }
}

impl Drop for Porter {
    /// Ends the thread, once it has taken all slots. No request is pending by then.
    fn drop(&mut self) {
        lock(&self.counter.state).ended = true;
        self.counter.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a porter that panics aborts the process");
        }
    }
}

impl Errands {
    /// Finds destination pages for at most `most` folios. Returns them, and the number of folios
    /// that they are enough for.
    pub fn destination(
        &mut self,
        stock: &mut Stock,
        trip: &Trip<'_>,
        most: usize,
    ) -> std::result::Result<(Destination, usize), SkipReason> {
        let folio_pages = self.shop.folio_pages(trip.size);
        if !stock.ready.as_ref().is_some_and(|ready| fits(ready, trip)) {
            let unfit = stock.ready.take();
            unfit.into_iter().for_each(|(size, node, slot)| self.give((size, Some(node), slot)));
            let pages = most * folio_pages;
            if self.has_room(trip, pages) {
                return prefer(&self.shop, trip.to).map(|()| (Destination::Fresh, most));
            }
            let wish = Wish::Destination { size: trip.size, to: trip.to, pages };
            match self.counter.ask(wish) {
                Found::Pages(found) => stock.ready = Some((trip.size, trip.to, found)),
                Found::Room(found) => {
                    self.room = Some((trip.to, found - pages, Instant::now()));
                    return prefer(&self.shop, trip.to).map(|()| (Destination::Fresh, most));
                }
                Found::Nothing(why) => return Err(why),
            }
        }
        let pages = stock.ready.as_ref().map_or(0, |(_, _, ready)| ready.pages);
        let folios = pages / folio_pages;
        let most = most.min(folios);
        Ok((Destination::Ready(folios - most), most))
    }

    /// Takes fresh base pages from the room found before; returns whether it is enough and recent.
    fn has_room(&mut self, trip: &Trip<'_>, pages: usize) -> bool {
        let Some((node, left, seen)) = &mut self.room else { return false };
        let has_room = trip.size == PageSize::Base
            && (*node, seen.elapsed() < ROOM_LASTS) == (trip.to, true)
            && *left >= pages;
        *left -= if has_room { pages } else { 0 };
        has_room
    }

    /// Fetches a huge page of zeros that is fresh from the kernel.
    pub fn huge_page(&self, node: Option<NodeId>) -> std::result::Result<Shadow, SkipReason> {
        match self.counter.ask(Wish::HugePage(node)) {
            Found::Pages(found) => Ok(found),
            Found::Room(_) => Err(SkipReason::NoHugePage),
            Found::Nothing(why) => Err(why),
        }
    }

    /// Hands over a slot for the porter to keep or free.
    pub fn give(&self, (size, node, mut slot): Kept) {
        let mut state = lock(&self.counter.state);
        if state.given.len() < GIVEN_MAX {
            state.given.push((size, node, slot));
            drop(state);
            return self.counter.changed.notify_all();
        }
        drop(state);
        // Its address space is lost.
        slot.clear();
        std::mem::forget(slot);
    }
}

impl Counter {
    /// Makes a request and waits for its result, at most for `PATIENCE`. Fails at once while the
    /// porter is late with an earlier request.
    fn ask(&self, wish: Wish) -> Found {
        let mut state = lock(&self.state);
        if state.is_late {
            return Found::Nothing(SkipReason::NoMemory);
        }
        state.wishes += 1;
        state.wish = Some(wish);
        self.changed.notify_all();
        let nothing = |state: &mut State| state.found.is_none();
        let waited = self.changed.wait_timeout_while(state, PATIENCE, nothing);
        let mut state = waited.expect("no thread panicked with this lock").0;
        state.wishes += 1;
        state.wish = None;
        state.is_late = state.found.is_none();
        state.found.take().unwrap_or(Found::Nothing(SkipReason::NoMemory))
    }

    /// Waits for work. Returns with the lock held.
    fn wait(&self) -> MutexGuard<'_, State> {
        let idle = |state: &mut State| {
            state.is_late = false;
            state.wish.is_none() && state.given.is_empty() && !state.ended
        };
        let waited = self.changed.wait_while(lock(&self.state), idle);
        waited.expect("no thread panicked with this lock")
    }
}

fn serve(counter: &Counter, shop: &Shop, stock: &Stock) {
    let mut given = Vec::with_capacity(GIVEN_MAX);
    loop {
        let mut state = counter.wait();
        std::mem::swap(&mut state.given, &mut given);
        let (wish, number) = (state.wish.take(), state.wishes);
        let ended = state.ended && wish.is_none() && given.is_empty();
        drop(state);
        if ended {
            return;
        }
        // These come first, because one of them may satisfy the request.
        given.drain(..).for_each(|(size, node, slot)| shop.shadows(size).give(slot, node));
        let Some(wish) = wish else { continue };
        let found = find(shop, stock, wish);
        let mut state = lock(&counter.state);
        let too_late = state.wishes != number;
        let left = if too_late { Some(found) } else { state.found.replace(found) };
        drop(state);
        counter.changed.notify_all();
        match (left, wish) {
            (Some(Found::Pages(slot)), Wish::Destination { size, to, .. }) => {
                shop.shadows(size).give(slot, Some(to));
            }
            (Some(Found::Pages(slot)), Wish::HugePage(_)) => {
                shop.shadows(PageSize::Huge).give(slot, None);
            }
            _ => {}
        }
    }
}

fn find(shop: &Shop, stock: &Stock, wish: Wish) -> Found {
    match wish {
        Wish::Destination { size, to, pages } => match (stock.kept(size, to), size) {
            (Some(kept), _) => Found::Pages(kept),
            (None, PageSize::Huge) => huge_page(stock, Some(to)),
            (None, PageSize::Base) => room(shop, to, pages),
        },
        Wish::HugePage(node) => huge_page(stock, node),
    }
}

fn huge_page(stock: &Stock, node: Option<NodeId>) -> Found {
    stock.fresh_huge_page(node).map_or_else(Found::Nothing, Found::Pages)
}

/// Checks room for `pages` fresh base pages, and first for a whole chunk, for later requests.
fn room(shop: &Shop, to: NodeId, pages: usize) -> Found {
    let ample = pages.max(CHUNK_BYTES / shop.page_bytes);
    let mut wishes = [ample, pages].into_iter();
    let found = wishes.find(|&pages| shop.room_for(to, pages).is_ok());
    found.map_or(Found::Nothing(SkipReason::NoMemory), Found::Room)
}
