//! The allocation thread: it fetches and takes slots for the thread behind page faults.
//!
//! Checking for room and keeping slots need the program's allocator, and locks that other threads
//! hold while they use it. The faulting thread may hold just those: it may be in an allocator hook,
//! or in a signal handler that interrupted malloc(3). So the thread behind faults lets the
//! allocation thread do that work and waits for it, with a timeout. After the timeout a page that
//! was left out is put back where it was, which needs none of this.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nodeward_model::{NodeId, SkipReason};

use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::context::PagerContext;
use crate::error::Result;
use crate::migration::{BatchTarget, ChunkMove, LaneSlots, NodeSlot, fits_move, prefer_node};
use crate::pager_thread::spawn_pager_thread;
use crate::pool::ShadowSlot;
use crate::sync::{Condvar, Mutex, MutexGuard, lock};

/// Timeout of a fault's wait for the allocation thread. It is longer than the allocation thread
/// takes on a machine that makes progress, and short beside the time that a thread can wait for a
/// swapped-out page.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// Validity of a finding that a node has room: other programs allocate as well.
const HEADROOM_VALID_FOR: Duration = Duration::from_millis(20);
/// Maximum number of slots that wait to be taken. More would accumulate only if the allocation
/// thread waited for the program's allocator all the time.
const RETURNED_SLOTS_MAX: usize = 1024;

/// The handle of the thread.
pub struct AllocationThread {
    channel: Arc<AllocationChannel>,
    thread: Option<JoinHandle<()>>,
}

/// The fault handler's side: requests to the allocation thread.
pub struct AllocationClient {
    channel: Arc<AllocationChannel>,
    context: Arc<PagerContext>,
    /// Room for fresh base pages on a node: the node, the pages left, and the time of the finding.
    headroom: Option<(NodeId, usize, Instant)>,
}

/// The shared state of both sides. No thread allocates or frees with its lock.
struct AllocationChannel {
    state: Mutex<ChannelState>,
    changed: Condvar,
}

struct ChannelState {
    request: Option<AllocationRequest>,
    /// Number of requests so far. A result for an earlier request is not wanted any more.
    request_number: u64,
    reply: Option<AllocationReply>,
    /// The allocation thread still works on a request that timed out.
    is_overdue: bool,
    returned_slots: Vec<NodeSlot>,
    is_stopping: bool,
}

/// A request.
#[derive(Clone, Copy)]
enum AllocationRequest {
    /// A destination for `pages` base pages: pages that are kept, or room for fresh ones.
    Destination { size: PageSize, to: NodeId, pages: usize },
    /// A huge page of zeros.
    HugePage(Option<NodeId>),
}

/// The result: pages, or room for this many fresh ones.
enum AllocationReply {
    Pages(ShadowSlot),
    Headroom(usize),
    Unavailable(SkipReason),
}

impl AllocationThread {
    /// Starts the thread. `lane` is a number that no lane has.
    pub fn start(context: &Arc<PagerContext>, lane: usize) -> Result<Self> {
        let given = Vec::with_capacity(RETURNED_SLOTS_MAX);
        let state = ChannelState {
            request: None,
            request_number: 0,
            reply: None,
            is_overdue: false,
            returned_slots: given,
            is_stopping: false,
        };
        let counter =
            Arc::new(AllocationChannel { state: Mutex::new(state), changed: Condvar::new() });
        let stock = LaneSlots::new(Arc::clone(context), lane);
        let (counter_of_thread, context) = (Arc::clone(&counter), Arc::clone(context));
        let thread = spawn_pager_thread("nodeward-alloc".to_owned(), move || {
            serve(&counter_of_thread, &context, &stock);
        })?;
        Ok(Self { channel: counter, thread: Some(thread) })
    }

    /// Returns the fault handler's side.
    pub fn client(&self, context: &Arc<PagerContext>) -> AllocationClient {
        AllocationClient {
            channel: Arc::clone(&self.channel),
            context: Arc::clone(context),
            headroom: None,
        }
    }
}

impl Drop for AllocationThread {
    /// Ends the thread, once it has taken all slots. No request is pending by then.
    fn drop(&mut self) {
        lock(&self.channel.state).is_stopping = true;
        self.channel.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("an allocation thread that panics aborts the process");
        }
    }
}

impl AllocationClient {
    /// Finds destination pages for at most `most` folios. Returns them, and the number of folios
    /// that they are enough for.
    pub fn destination(
        &mut self,
        stock: &mut LaneSlots,
        chunk_move: &ChunkMove<'_>,
        most: usize,
    ) -> std::result::Result<(BatchTarget, usize), SkipReason> {
        let folio_pages = self.context.folio_pages(chunk_move.size);
        if !stock.destination.as_ref().is_some_and(|ready| fits_move(ready, chunk_move)) {
            let unfit = stock.destination.take();
            unfit
                .into_iter()
                .for_each(|(size, node, slot)| self.return_slot((size, Some(node), slot)));
            let pages = most * folio_pages;
            if self.take_headroom(chunk_move, pages) {
                return prefer_node(&self.context, chunk_move.to)
                    .map(|()| (BatchTarget::Fresh, most));
            }
            let wish =
                AllocationRequest::Destination { size: chunk_move.size, to: chunk_move.to, pages };
            match self.channel.request(wish) {
                AllocationReply::Pages(found) => {
                    stock.destination = Some((chunk_move.size, chunk_move.to, found));
                }
                AllocationReply::Headroom(found) => {
                    self.headroom = Some((chunk_move.to, found - pages, Instant::now()));
                    return prefer_node(&self.context, chunk_move.to)
                        .map(|()| (BatchTarget::Fresh, most));
                }
                AllocationReply::Unavailable(why) => return Err(why),
            }
        }
        let pages = stock.destination.as_ref().map_or(0, |(_, _, ready)| ready.pages);
        let folios = pages / folio_pages;
        let most = most.min(folios);
        Ok((BatchTarget::InSlot(folios - most), most))
    }

    /// Takes fresh base pages from the room found before; returns whether it is enough and recent.
    fn take_headroom(&mut self, chunk_move: &ChunkMove<'_>, pages: usize) -> bool {
        let Some((node, left, seen)) = &mut self.headroom else { return false };
        let has_room = chunk_move.size == PageSize::Base
            && (*node, seen.elapsed() < HEADROOM_VALID_FOR) == (chunk_move.to, true)
            && *left >= pages;
        *left -= if has_room { pages } else { 0 };
        has_room
    }

    /// Fetches a huge page of zeros that is fresh from the kernel.
    pub fn huge_page(&self, node: Option<NodeId>) -> std::result::Result<ShadowSlot, SkipReason> {
        match self.channel.request(AllocationRequest::HugePage(node)) {
            AllocationReply::Pages(found) => Ok(found),
            AllocationReply::Headroom(_) => Err(SkipReason::NoHugePage),
            AllocationReply::Unavailable(why) => Err(why),
        }
    }

    /// Hands over a slot for the allocation thread to keep or free.
    pub fn return_slot(&self, (size, node, mut slot): NodeSlot) {
        let mut state = lock(&self.channel.state);
        if state.returned_slots.len() < RETURNED_SLOTS_MAX {
            state.returned_slots.push((size, node, slot));
            drop(state);
            return self.channel.changed.notify_all();
        }
        drop(state);
        // Its address space is lost.
        slot.clear();
        std::mem::forget(slot);
    }
}

impl AllocationChannel {
    /// Makes a request and waits for its result, at most for `REPLY_TIMEOUT`. Fails at once while
    /// the allocation thread is late with an earlier request.
    fn request(&self, wish: AllocationRequest) -> AllocationReply {
        let mut state = lock(&self.state);
        if state.is_overdue {
            return AllocationReply::Unavailable(SkipReason::NoMemory);
        }
        state.request_number += 1;
        state.request = Some(wish);
        self.changed.notify_all();
        let nothing = |state: &mut ChannelState| state.reply.is_none();
        let waited = self.changed.wait_timeout_while(state, REPLY_TIMEOUT, nothing);
        let mut state = waited.expect("no thread panicked with this lock").0;
        state.request_number += 1;
        state.request = None;
        state.is_overdue = state.reply.is_none();
        state.reply.take().unwrap_or(AllocationReply::Unavailable(SkipReason::NoMemory))
    }

    /// Waits for work. Returns with the lock held.
    fn wait(&self) -> MutexGuard<'_, ChannelState> {
        let idle = |state: &mut ChannelState| {
            state.is_overdue = false;
            state.request.is_none() && state.returned_slots.is_empty() && !state.is_stopping
        };
        let waited = self.changed.wait_while(lock(&self.state), idle);
        waited.expect("no thread panicked with this lock")
    }
}

fn serve(counter: &AllocationChannel, context: &PagerContext, stock: &LaneSlots) {
    let mut given = Vec::with_capacity(RETURNED_SLOTS_MAX);
    loop {
        let mut state = counter.wait();
        std::mem::swap(&mut state.returned_slots, &mut given);
        let (wish, number) = (state.request.take(), state.request_number);
        let ended = state.is_stopping && wish.is_none() && given.is_empty();
        drop(state);
        if ended {
            return;
        }
        // These come first, because one of them may satisfy the request.
        given
            .drain(..)
            .for_each(|(size, node, slot)| context.shadow_slots(size).return_slot(slot, node));
        let Some(wish) = wish else { continue };
        let found = fulfil(context, stock, wish);
        let mut state = lock(&counter.state);
        let too_late = state.request_number != number;
        let left = if too_late { Some(found) } else { state.reply.replace(found) };
        drop(state);
        counter.changed.notify_all();
        match (left, wish) {
            (
                Some(AllocationReply::Pages(slot)),
                AllocationRequest::Destination { size, to, .. },
            ) => {
                context.shadow_slots(size).return_slot(slot, Some(to));
            }
            (Some(AllocationReply::Pages(slot)), AllocationRequest::HugePage(_)) => {
                context.shadow_slots(PageSize::Huge).return_slot(slot, None);
            }
            _ => {}
        }
    }
}

fn fulfil(context: &PagerContext, stock: &LaneSlots, wish: AllocationRequest) -> AllocationReply {
    match wish {
        AllocationRequest::Destination { size, to, pages } => {
            match (stock.take_recycled(size, to), size) {
                (Some(kept), _) => AllocationReply::Pages(kept),
                (None, PageSize::Huge) => huge_page(stock, Some(to)),
                (None, PageSize::Base) => find_headroom(context, to, pages),
            }
        }
        AllocationRequest::HugePage(node) => huge_page(stock, node),
    }
}

fn huge_page(stock: &LaneSlots, node: Option<NodeId>) -> AllocationReply {
    stock.fresh_huge_page(node).map_or_else(AllocationReply::Unavailable, AllocationReply::Pages)
}

/// Checks room for `pages` fresh base pages, and first for a whole chunk, for later requests.
fn find_headroom(context: &PagerContext, to: NodeId, pages: usize) -> AllocationReply {
    let ample = pages.max(CHUNK_BYTES / context.page_bytes);
    let mut wishes = [ample, pages].into_iter();
    let found = wishes.find(|&pages| context.reserve_headroom(to, pages).is_ok());
    found.map_or(AllocationReply::Unavailable(SkipReason::NoMemory), AllocationReply::Headroom)
}
