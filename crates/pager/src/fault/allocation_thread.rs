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
use crate::migration::{BatchTarget, ChunkMove, LaneSlots, prefer_node};
use crate::pager_thread::spawn_pager_thread;
use crate::pool::NodeSlot;
use crate::sync::{Condvar, Mutex, MutexGuard, lock};
use crate::sys::block_signals_in_scope;

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
    headroom: Option<FoundHeadroom>,
}

/// Room for fresh base pages on a node, as the allocation thread found it.
struct FoundHeadroom {
    node: NodeId,
    /// Pages that are not taken yet.
    left_pages: usize,
    found_at: Instant,
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
    /// Somebody needs a look at the room on nodes.
    is_look_wanted: bool,
    is_stopping: bool,
}

/// A request.
#[derive(Clone, Copy)]
enum AllocationRequest {
    /// A destination for `pages` base pages: recycled pages, or room for fresh ones.
    Destination { size: PageSize, to: NodeId, pages: usize },
    /// A huge page of zeros.
    HugePage(Option<NodeId>),
}

/// The result: pages, or room for this many fresh ones.
enum AllocationReply {
    Pages(NodeSlot),
    Headroom(usize),
    Unavailable(SkipReason),
}

impl AllocationThread {
    /// Starts the thread. `lane` is a number that no lane has.
    pub fn start(context: &Arc<PagerContext>, lane: usize) -> Result<Self> {
        let state = ChannelState {
            request: None,
            request_number: 0,
            reply: None,
            is_overdue: false,
            returned_slots: Vec::with_capacity(RETURNED_SLOTS_MAX),
            is_look_wanted: false,
            is_stopping: false,
        };
        let channel =
            Arc::new(AllocationChannel { state: Mutex::new(state), changed: Condvar::new() });
        let slots = LaneSlots::new(Arc::clone(context), lane);
        let (channel_of_thread, context) = (Arc::clone(&channel), Arc::clone(context));
        let thread = spawn_pager_thread("nodeward-alloc".to_owned(), move || {
            context.prepare_for_calls();
            serve(&channel_of_thread, &context, &slots);
        })?;
        Ok(Self { channel, thread: Some(thread) })
    }

    /// Makes the thread look at the room on nodes soon. Does not wait for it.
    pub fn request_look(&self) {
        let _held = block_signals_in_scope();
        lock(&self.channel.state).is_look_wanted = true;
        self.channel.changed.notify_all();
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
        slots: &mut LaneSlots,
        chunk_move: &ChunkMove<'_>,
        most: usize,
    ) -> std::result::Result<(BatchTarget, usize), SkipReason> {
        let is_fit = slots.has_destination(chunk_move);
        match slots.take_destination() {
            Some(ready) if is_fit => return Ok(slots.target_in(ready, most)),
            unfit => unfit.into_iter().for_each(|slot| self.return_slot(slot)),
        }
        let (size, to) = (chunk_move.size, chunk_move.to);
        let pages = most * self.context.folio_pages(size);
        if !self.take_headroom(chunk_move, pages) {
            match self.channel.request(AllocationRequest::Destination { size, to, pages }) {
                AllocationReply::Pages(ready) => return Ok(slots.target_in(ready, most)),
                AllocationReply::Headroom(found) => {
                    let (left_pages, found_at) = (found - pages, Instant::now());
                    self.headroom = Some(FoundHeadroom { node: to, left_pages, found_at });
                }
                AllocationReply::Unavailable(why) => return Err(why),
            }
        }
        prefer_node(&self.context, to)?;
        Ok((BatchTarget::Fresh, most))
    }

    /// Takes fresh base pages from the room found before; returns whether it is enough and recent.
    fn take_headroom(&mut self, chunk_move: &ChunkMove<'_>, pages: usize) -> bool {
        let Some(found) = &mut self.headroom else { return false };
        let has_room = chunk_move.size == PageSize::Base
            && found.node == chunk_move.to
            && found.found_at.elapsed() < HEADROOM_VALID_FOR
            && found.left_pages >= pages;
        found.left_pages -= if has_room { pages } else { 0 };
        has_room
    }

    /// Fetches a huge page of zeros that is fresh from the kernel.
    pub fn huge_page(&self, node: Option<NodeId>) -> std::result::Result<NodeSlot, SkipReason> {
        match self.channel.request(AllocationRequest::HugePage(node)) {
            AllocationReply::Pages(found) => Ok(found),
            AllocationReply::Headroom(_) => Err(SkipReason::NoHugePage),
            AllocationReply::Unavailable(why) => Err(why),
        }
    }

    /// Hands over a slot for the allocation thread to keep or free.
    pub fn return_slot(&self, mut slot: NodeSlot) {
        let mut state = lock(&self.channel.state);
        if state.returned_slots.len() < RETURNED_SLOTS_MAX {
            state.returned_slots.push(slot);
            drop(state);
            return self.channel.changed.notify_all();
        }
        drop(state);
        // Its address space is lost.
        slot.shadow.clear();
        std::mem::forget(slot);
    }
}

impl AllocationChannel {
    /// Makes a request and waits for its result, at most for `REPLY_TIMEOUT`. Fails at once while
    /// the allocation thread is late with an earlier request.
    fn request(&self, request: AllocationRequest) -> AllocationReply {
        let mut state = lock(&self.state);
        if state.is_overdue {
            return AllocationReply::Unavailable(SkipReason::NoMemory);
        }
        state.request_number += 1;
        state.request = Some(request);
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
            state.request.is_none()
                && state.returned_slots.is_empty()
                && !state.is_look_wanted
                && !state.is_stopping
        };
        let waited = self.changed.wait_while(lock(&self.state), idle);
        waited.expect("no thread panicked with this lock")
    }
}

fn serve(channel: &AllocationChannel, context: &PagerContext, slots: &LaneSlots) {
    let mut returned = Vec::with_capacity(RETURNED_SLOTS_MAX);
    loop {
        let mut state = channel.wait();
        std::mem::swap(&mut state.returned_slots, &mut returned);
        let (request, number) = (state.request.take(), state.request_number);
        let looks = std::mem::take(&mut state.is_look_wanted);
        let ended = state.is_stopping && request.is_none() && returned.is_empty();
        drop(state);
        if ended {
            return;
        }
        // These come first, because one of them may satisfy the request.
        returned.drain(..).for_each(|slot| context.slots.return_slot(slot));
        let Some(request) = request else {
            if looks {
                context.look_at_headroom();
            }
            continue;
        };
        let found = fulfil(context, slots, request);
        let mut state = lock(&channel.state);
        let too_late = state.request_number != number;
        let left = if too_late { Some(found) } else { state.reply.replace(found) };
        drop(state);
        channel.changed.notify_all();
        if let Some(AllocationReply::Pages(slot)) = left {
            context.slots.return_slot(slot);
        }
    }
}

fn fulfil(
    context: &PagerContext,
    slots: &LaneSlots,
    request: AllocationRequest,
) -> AllocationReply {
    match request {
        AllocationRequest::Destination { size, to, pages } => {
            let on_node = |shadow| AllocationReply::Pages(NodeSlot { shadow, node: Some(to) });
            match (slots.take_recycled(size, to), size) {
                (Some(recycled), _) => on_node(recycled),
                (None, PageSize::Huge) => {
                    let fresh = slots.fresh_huge_page(Some(to));
                    fresh.map_or_else(AllocationReply::Unavailable, on_node)
                }
                (None, PageSize::Base) => find_headroom(context, to, pages),
            }
        }
        AllocationRequest::HugePage(node) => {
            let anywhere = |shadow| AllocationReply::Pages(NodeSlot { shadow, node: None });
            slots.fresh_huge_page(node).map_or_else(AllocationReply::Unavailable, anywhere)
        }
    }
}

/// Checks room for `pages` fresh base pages, and first for a whole chunk, for later requests.
fn find_headroom(context: &PagerContext, to: NodeId, pages: usize) -> AllocationReply {
    let ample = pages.max(CHUNK_BYTES / context.page_bytes);
    let mut wishes = [ample, pages].into_iter();
    let found = wishes.find(|&pages| context.reserve_headroom(to, pages).is_ok());
    found.map_or(AllocationReply::Unavailable(SkipReason::NoMemory), AllocationReply::Headroom)
}
