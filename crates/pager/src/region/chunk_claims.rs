//! Claims on the chunks of a region: the hand-over between lanes, fault handler, fork and drop.
//!
//! A chunk is claimed by one thread at a time. A lane waits for its turn. The fault handler never
//! waits for a lane, because faulting threads wait for the handler: it marks the chunk as waited
//! for and goes on. The thread that releases the chunk wakes the waiting threads, which then fault
//! again. In an unclaimed chunk no page is out of sight, except those that a lazy migration left
//! out; these are recorded in the chunk's state.
//!
//! The fault handler takes this lock while the thread that it serves may be in the middle of
//! malloc(3), or in a signal handler. So no thread allocates or runs a signal handler with that
//! lock.
//!
//! The protocol is model-checked in `tests/chunk_claims_model.rs`, with the locks of the model.

use std::ops::Range;

use super::chunk_table::ChunkTable;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::sys::block_signals_in_scope;

/// The table of a region's chunks; `T` is the state kept with each chunk.
pub struct ChunkClaims<T> {
    state: Mutex<ClaimState<T>>,
    changed: Condvar,
}

struct ClaimState<T> {
    chunks: ChunkTable<ChunkEntry<T>>,
    claimed: usize,
    pauses: usize,
    closing: bool,
    /// Page ranges that are pinned. There are few.
    pins: Vec<Range<usize>>,
}

struct ChunkEntry<T> {
    /// `None` while the chunk is claimed: the claim holds the state.
    state: Option<T>,
    has_waiters: bool,
}

impl<T: Default> Default for ChunkEntry<T> {
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

impl<T: Default> ChunkClaims<T> {
    /// A table of `chunks` unclaimed chunks with default states.
    pub fn new(chunks: usize) -> Self {
        let chunks = ChunkTable::new(chunks);
        let state = ClaimState { chunks, claimed: 0, pauses: 0, closing: false, pins: Vec::new() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
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
                && let Some(claim) = state.try_claim(chunk)
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
        match state.try_claim(chunk) {
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
        let chunk = state.chunks.entry(claim.chunk);
        chunk.state = Some(claim.state);
        let waited_for = std::mem::take(&mut chunk.has_waiters);
        drop(state);
        self.changed.notify_all();
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

    /// Pins pages. Claims that began earlier may still move them.
    pub fn pin(&self, pages: Range<usize>) {
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

    /// Undoes one [`ChunkClaims::pin`] of the same pages.
    pub fn unpin(&self, pages: &Range<usize>) {
        let _held = block_signals_in_scope();
        let mut state = self.lock_state();
        if let Some(index) = state.pins.iter().position(|pin| pin == pages) {
            state.pins.swap_remove(index);
        }
    }

    /// Calls `part` for each pinned part of `pages`. The caller holds their chunk.
    pub fn for_each_pinned(&self, pages: &Range<usize>, part: impl FnMut(Range<usize>)) {
        let state = self.lock_state();
        let common = |pin: &Range<usize>| pin.start.max(pages.start)..pin.end.min(pages.end);
        state.pins.iter().map(common).filter(|part| !part.is_empty()).for_each(part);
    }

    /// Waits for the next change of the state.
    fn wait<'a>(&self, state: MutexGuard<'a, ClaimState<T>>) -> MutexGuard<'a, ClaimState<T>> {
        self.changed.wait(state).expect("no thread panicked with this lock")
    }

    fn lock_state(&self) -> MutexGuard<'_, ClaimState<T>> {
        self.state.lock().expect("no thread panicked with this lock")
    }
}

impl<T: Default> ClaimState<T> {
    fn try_claim(&mut self, chunk: usize) -> Option<Claim<T>> {
        let state = self.chunks.entry(chunk).state.take()?;
        self.claimed += 1;
        Some(Claim { chunk, state })
    }
}
