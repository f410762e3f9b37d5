//! Claims on the chunks of a region: the hand-over between lanes, fault handler, fork and drop.
//!
//! A chunk is claimed by one thread at a time. A lane waits for its turn. The fault handler never
//! waits for a lane, because faulting threads wait for the handler: it marks the chunk as waited
//! for and goes on. The thread that releases the chunk wakes the waiting threads, which then fault
//! again. In an unclaimed chunk no page is out of sight, except those that a lazy migration left
//! out; these are recorded in the chunk's state.
//!
//! A thread of the program claims a chunk only if it need not wait ([`ChunkClaims::try_claim`]),
//! and otherwise leaves the work to a lane. So no thread waits while it holds a claim.
//!
//! The fault handler takes this lock while the thread that it serves may be in the middle of
//! malloc(3), or in a signal handler. So no thread allocates or runs a signal handler with that
//! lock.
//!
//! The protocol is model-checked in `tests/chunk_claims_model.rs`, with the locks of the model.

use std::ops::Range;

use super::chunk_table::ChunkTable;
use super::pin_slots::{PinSlot, PinSlots};
use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence};
use crate::sys::block_signals_in_scope;

/// The state that is kept with each chunk.
pub trait ChunkContent: Default {
    /// Returns whether all of the chunk's pages are in sight.
    fn is_in_sight(&self) -> bool;
}

/// The table of a region's chunks; `T` is the state kept with each chunk.
pub struct ChunkClaims<T> {
    state: Mutex<ClaimState<T>>,
    changed: Condvar,
    /// Chunks that are claimed or have pages out of sight. Written with the lock.
    unsettled: AtomicUsize,
    pin_slots: PinSlots,
}

/// A pin of pages, as [`ChunkClaims::pin`] makes it.
#[derive(Debug)]
pub struct RegionPin {
    /// The slot that holds it; `None` if it is in the list.
    slot: Option<PinSlot>,
    /// No page of the region was out of sight or about to be taken out when the pin was made, so
    /// it holds from now on.
    pub is_settled: bool,
}

struct ClaimState<T> {
    chunks: ChunkTable<ChunkEntry<T>>,
    claimed: usize,
    pauses: usize,
    closing: bool,
    /// Threads that wait for a change.
    waiting: usize,
    /// Page ranges that are pinned and found no slot. There are few.
    pins: Vec<Range<usize>>,
}

struct ChunkEntry<T> {
    /// `None` while the chunk is claimed: the claim holds the state.
    state: Option<T>,
    has_waiters: bool,
}

impl<T: ChunkContent> Default for ChunkEntry<T> {
    fn default() -> Self {
        Self { state: Some(T::default()), has_waiters: false }
    }
}

/// The region is being dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing;

/// The answer to the fault handler's request for a chunk.
pub enum FaultClaim<T> {
    /// The fault handler has the chunk.
    Claimed(Claim<T>),
    /// Another thread has the chunk, and will wake the threads that wait for it.
    WillBeWoken,
    /// The region is being dropped.
    Closing,
}

/// The sole right to a chunk. [`ChunkClaims::release`] takes it back.
#[must_use = "a chunk that is not released stays claimed"]
pub struct Claim<T> {
    /// The chunk number.
    pub chunk: usize,
    /// The chunk's state.
    pub state: T,
}

impl<T: ChunkContent> ChunkClaims<T> {
    /// A table of `chunks` unclaimed chunks with default states.
    pub fn new(chunks: usize) -> Self {
        let chunks = ChunkTable::new(chunks);
        let (claimed, pauses, waiting, closing, pins) = (0, 0, 0, false, Vec::new());
        let state = ClaimState { chunks, claimed, pauses, closing, waiting, pins };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            unsettled: AtomicUsize::new(0),
            pin_slots: PinSlots::new(),
        }
    }

    /// Claims a chunk to take pages out of sight, if that needs no waiting. The caller runs no
    /// signal handler until it has released the chunk.
    pub fn try_claim(&self, chunk: usize) -> Option<Claim<T>> {
        let mut state = self.lock_state();
        if state.pauses > 0 { None } else { self.claim_at_once(&mut state, chunk) }
    }

    /// Claims a chunk to bring pages into sight, also during a pause, if that needs no waiting. The
    /// caller runs no signal handler until it has released the chunk.
    pub fn try_claim_to_return(&self, chunk: usize) -> Option<Claim<T>> {
        let mut state = self.lock_state();
        self.claim_at_once(&mut state, chunk)
    }

    fn claim_at_once(&self, state: &mut ClaimState<T>, chunk: usize) -> Option<Claim<T>> {
        if state.closing { None } else { state.try_claim(chunk, &self.unsettled) }
    }

    /// Claims a chunk to take pages out of sight. Waits while it is claimed, and during a pause.
    pub fn claim(&self, chunk: usize) -> Result<Claim<T>, Closing> {
        self.claim_when(chunk, |state| state.pauses == 0)
    }

    /// Claims a chunk to bring pages into sight, also during a pause. Waits while it is claimed.
    pub fn claim_to_return(&self, chunk: usize) -> Result<Claim<T>, Closing> {
        self.claim_when(chunk, |_| true)
    }

    fn claim_when(
        &self,
        chunk: usize,
        may: impl Fn(&ClaimState<T>) -> bool,
    ) -> Result<Claim<T>, Closing> {
        let mut state = self.lock_state();
        loop {
            if state.closing {
                return Err(Closing);
            }
            if may(&state)
                && let Some(claim) = state.try_claim(chunk, &self.unsettled)
            {
                return Ok(claim);
            }
            state = self.wait(state);
        }
    }

    /// Claims a chunk in which a thread faulted. Never waits.
    pub fn claim_for_fault(&self, chunk: usize) -> FaultClaim<T> {
        let mut state = self.lock_state();
        if state.closing {
            return FaultClaim::Closing;
        }
        match state.try_claim(chunk, &self.unsettled) {
            Some(claim) => FaultClaim::Claimed(claim),
            None => {
                state.chunks.entry(chunk).has_waiters = true;
                FaultClaim::WillBeWoken
            }
        }
    }

    /// Releases a chunk. Returns whether threads that wait for it must be woken now.
    #[must_use = "threads that wait must be woken"]
    pub fn release(&self, claim: Claim<T>) -> bool {
        let mut state = self.lock_state();
        state.claimed -= 1;
        if claim.state.is_in_sight() {
            self.unsettled.fetch_sub(1, Ordering::Release);
        }
        let chunk = state.chunks.entry(claim.chunk);
        chunk.state = Some(claim.state);
        let waited_for = std::mem::take(&mut chunk.has_waiters);
        let anybody_waits = state.waiting > 0;
        drop(state);
        if anybody_waits {
            self.changed.notify_all();
        }
        waited_for
    }

    /// Makes [`ChunkClaims::claim`] wait until [`ChunkClaims::resume`], and waits until no chunk is
    /// claimed. Pauses nest.
    pub fn pause(&self) {
        let _held = block_signals_in_scope();
        let mut state = self.lock_state();
        state.pauses += 1;
        while state.claimed > 0 {
            state = self.wait(state);
        }
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let _held = block_signals_in_scope();
        self.lock_state().pauses -= 1;
        self.changed.notify_all();
    }

    /// Ends all claims for good: refuses new ones and waits for the present ones. Returns the
    /// states of the chunks.
    #[must_use = "what was left out has to go somewhere"]
    pub fn close(&self) -> Vec<T> {
        let _held = block_signals_in_scope();
        let mut state = self.lock_state();
        state.closing = true;
        self.changed.notify_all();
        while state.claimed > 0 {
            state = self.wait(state);
        }
        let known = state.chunks.allocated().count(); // final: no entry is added any more
        drop(state);
        let mut states = Vec::with_capacity(known);
        states.extend(
            self.lock_state().chunks.allocated_mut().filter_map(|chunk| chunk.state.take()),
        );
        states
    }

    /// Returns the chunks whose state satisfies `says`. Chunks that are claimed now count as well.
    pub fn find_chunks(&self, says: impl Fn(&T) -> bool) -> Vec<usize> {
        let _held = block_signals_in_scope();
        let wanted = |chunk: &ChunkEntry<T>| chunk.state.as_ref().is_none_or(&says);
        let mut found = Vec::new();
        loop {
            let state = self.lock_state();
            let chunks = || state.chunks.allocated().filter(|(_, chunk)| wanted(chunk));
            let count = chunks().count();
            if count <= found.capacity() {
                found.extend(chunks().map(|(index, _)| index));
                return found;
            }
            drop(state);
            found.reserve(count);
        }
    }

    /// Pins pages. Unless the pin is settled, claims that began earlier may still move them.
    pub fn pin(&self, pages: &Range<usize>) -> RegionPin {
        let slot = self.pin_slots.insert(pages);
        if slot.is_none() {
            self.pin_in_list(pages.clone());
        }
        fence(Ordering::SeqCst); // claims that are not seen below see the pin
        RegionPin { slot, is_settled: self.unsettled.load(Ordering::Acquire) == 0 }
    }

    fn pin_in_list(&self, pages: Range<usize>) {
        let _held = block_signals_in_scope();
        let mut pins = Vec::new();
        loop {
            let mut state = self.lock_state();
            if state.pins.len() < pins.capacity() {
                pins.append(&mut state.pins);
                pins.push(pages);
                std::mem::swap(&mut state.pins, &mut pins);
                return drop(state); // released before the old pins are freed
            }
            let count = state.pins.len();
            drop(state);
            pins.reserve(count + 1);
        }
    }

    /// Undoes a [`ChunkClaims::pin`] of these pages.
    pub fn unpin(&self, pin: &RegionPin, pages: &Range<usize>) {
        if let Some(slot) = pin.slot {
            return self.pin_slots.remove(slot);
        }
        let _held = block_signals_in_scope();
        let mut state = self.lock_state();
        if let Some(index) = state.pins.iter().position(|pin| pin == pages) {
            state.pins.swap_remove(index);
        }
    }

    /// Returns whether a chunk is unclaimed and has all of its pages in sight. The caller runs no
    /// signal handler meanwhile.
    pub fn is_settled(&self, chunk: usize) -> bool {
        let state = self.lock_state();
        let content = state.chunks.get(chunk).map(|chunk| chunk.state.as_ref());
        content.is_none_or(|content| content.is_some_and(T::is_in_sight))
    }

    /// Calls `part` for each pinned part of `pages`. The caller holds their chunk.
    pub fn for_each_pinned(&self, pages: &Range<usize>, part: impl FnMut(Range<usize>)) {
        let common = |pin: Range<usize>| pin.start.max(pages.start)..pin.end.min(pages.end);
        let state = self.lock_state();
        let pins = self.pin_slots.pins().chain(state.pins.iter().cloned());
        pins.map(common).filter(|part| !part.is_empty()).for_each(part);
    }

    /// Waits for the next change of the state.
    fn wait<'a>(&self, mut state: MutexGuard<'a, ClaimState<T>>) -> MutexGuard<'a, ClaimState<T>> {
        state.waiting += 1;
        let mut state = self.changed.wait(state).expect("no thread panicked with this lock");
        state.waiting -= 1;
        state
    }

    fn lock_state(&self) -> MutexGuard<'_, ClaimState<T>> {
        self.state.lock().expect("no thread panicked with this lock")
    }
}

impl<T: ChunkContent> ClaimState<T> {
    fn try_claim(&mut self, chunk: usize, unsettled: &AtomicUsize) -> Option<Claim<T>> {
        let state = self.chunks.entry(chunk).state.take()?;
        self.claimed += 1;
        if state.is_in_sight() {
            unsettled.fetch_add(1, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst); // pins that do not see the claim are seen by it
        Some(Claim { chunk, state })
    }
}
