//! Who may touch which chunk of a region: the hand-over between lanes, fault handler, fork and
//! drop.
//!
//! A chunk is claimed by one of them at a time. A lane waits for its turn. The fault handler never
//! waits for a lane, because threads stand behind it: it notes that somebody waits for the chunk
//! and goes on, and whoever releases the chunk wakes them, so that they fault again. Nothing is out
//! of sight in a chunk that is not claimed, except what a lazy migration left out, and that is
//! noted with the chunk.
//!
//! The fault handler takes the desk's lock, and the thread that it serves may be in the middle of
//! malloc(3), or in a signal handler: so nobody allocates or runs a signal handler with that lock.
//!
//! The protocol is model-checked in `tests/desk_model.rs`, with the locks of the model.

use std::ops::Range;

use crate::chunk_table::ChunkTable;
use crate::sync::{Condvar, Mutex, MutexGuard, hold_signals};

/// The table of a region's chunks; `T` is what is noted with a chunk.
pub struct Desk<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    chunks: ChunkTable<Chunk<T>>,
    claimed: usize,
    pauses: usize,
    closing: bool,
    /// Page ranges that stay where they are. There are few.
    pins: Vec<Range<usize>>,
}

struct Chunk<T> {
    /// `None` while it is claimed: the claim has it.
    note: Option<T>,
    waited_for: bool,
}

impl<T: Default> Default for Chunk<T> {
    fn default() -> Self {
        Self { note: Some(T::default()), waited_for: false }
    }
}

/// The region is being dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing;

/// What the fault handler may do about a chunk.
pub enum Turn<T> {
    /// It has the chunk.
    Claimed(Claim<T>),
    /// Somebody else has it, and will wake those who wait for it.
    WillBeWoken,
    /// The region is being dropped.
    Closing,
}

/// The sole right to a chunk. It goes back by [`Desk::release`].
#[must_use = "a chunk that is not released stays claimed"]
pub struct Claim<T> {
    /// Which.
    pub chunk: usize,
    /// What is noted with it.
    pub note: T,
}

impl<T: Default> Desk<T> {
    /// Of so many chunks that nobody has, and nothing is noted with.
    pub fn new(chunks: usize) -> Self {
        let chunks = ChunkTable::new(chunks);
        let state = State { chunks, claimed: 0, pauses: 0, closing: false, pins: Vec::new() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Claims a chunk to take pages out of sight. Waits while somebody has it, and while paused.
    pub fn claim(&self, chunk: usize) -> Result<Claim<T>, Closing> {
        self.claim_when(chunk, |state| state.pauses == 0)
    }

    /// Claims a chunk to bring pages into sight, also while paused. Waits while somebody has it.
    pub fn claim_to_return(&self, chunk: usize) -> Result<Claim<T>, Closing> {
        self.claim_when(chunk, |_| true)
    }

    fn claim_when(
        &self,
        chunk: usize,
        may: impl Fn(&State<T>) -> bool,
    ) -> Result<Claim<T>, Closing> {
        let mut state = self.state();
        loop {
            if state.closing {
                return Err(Closing);
            }
            if may(&state)
                && let Some(claim) = state.take(chunk)
            {
                return Ok(claim);
            }
            state = self.wait(state);
        }
    }

    /// Claims a chunk in which a thread faulted. Never waits.
    pub fn claim_for_fault(&self, chunk: usize) -> Turn<T> {
        let mut state = self.state();
        if state.closing {
            return Turn::Closing;
        }
        match state.take(chunk) {
            Some(claim) => Turn::Claimed(claim),
            None => {
                state.chunks.entry(chunk).waited_for = true;
                Turn::WillBeWoken
            }
        }
    }

    /// Gives a chunk back. Returns whether threads that wait for it must be woken now.
    #[must_use = "threads that wait must be woken"]
    pub fn release(&self, claim: Claim<T>) -> bool {
        let mut state = self.state();
        state.claimed -= 1;
        let chunk = state.chunks.entry(claim.chunk);
        chunk.note = Some(claim.note);
        let waited_for = std::mem::take(&mut chunk.waited_for);
        drop(state);
        self.changed.notify_all();
        waited_for
    }

    /// Lets nobody take pages out of sight until [`Desk::resume`], and waits until nobody does.
    /// Pauses add up.
    pub fn pause(&self) {
        let _held = hold_signals();
        let mut state = self.state();
        state.pauses += 1;
        while state.claimed > 0 {
            state = self.wait(state);
        }
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let _held = hold_signals();
        self.state().pauses -= 1;
        self.changed.notify_all();
    }

    /// Ends all claims for good: later ones are refused, and this waits for those that are. Returns
    /// what was noted with chunks.
    #[must_use = "what was left out has to go somewhere"]
    pub fn close(&self) -> Vec<T> {
        let _held = hold_signals();
        let mut state = self.state();
        state.closing = true;
        self.changed.notify_all();
        while state.claimed > 0 {
            state = self.wait(state);
        }
        let known = state.chunks.known().count(); // for good
        drop(state);
        let mut notes = Vec::with_capacity(known);
        notes.extend(self.state().chunks.known_mut().filter_map(|chunk| chunk.note.take()));
        notes
    }

    /// Chunks whose note says so; those that are claimed now count as well.
    pub fn chunks_where(&self, says: impl Fn(&T) -> bool) -> Vec<usize> {
        let _held = hold_signals();
        let wanted = |chunk: &Chunk<T>| chunk.note.as_ref().is_none_or(&says);
        let mut found = Vec::new();
        loop {
            let state = self.state();
            let chunks = || state.chunks.known().filter(|(_, chunk)| wanted(chunk));
            let count = chunks().count();
            if count <= found.capacity() {
                found.extend(chunks().map(|(index, _)| index));
                return found;
            }
            drop(state);
            found.reserve(count);
        }
    }

    /// Notes that pages stay where they are. Claims that began before may still move them.
    pub fn pin(&self, pages: Range<usize>) {
        let _held = hold_signals();
        let mut pins = Vec::new();
        loop {
            let mut state = self.state();
            if state.pins.len() < pins.capacity() {
                pins.append(&mut state.pins);
                pins.push(pages);
                std::mem::swap(&mut state.pins, &mut pins);
                return drop(state); // before the old ones are freed
            }
            let count = state.pins.len();
            drop(state);
            pins.reserve(count + 1);
        }
    }

    /// Takes back one [`Desk::pin`] of the same pages.
    pub fn unpin(&self, pages: &Range<usize>) {
        let _held = hold_signals();
        let mut state = self.state();
        if let Some(index) = state.pins.iter().position(|pin| pin == pages) {
            state.pins.swap_remove(index);
        }
    }

    /// Names the parts of `pages` that must stay where they are. Asked by the holder of their
    /// chunk.
    pub fn pinned(&self, pages: &Range<usize>, part: impl FnMut(Range<usize>)) {
        let state = self.state();
        let common = |pin: &Range<usize>| pin.start.max(pages.start)..pin.end.min(pages.end);
        state.pins.iter().map(common).filter(|part| !part.is_empty()).for_each(part);
    }

    /// Waits until something has changed.
    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed.wait(state).expect("no thread panicked with this lock")
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("no thread panicked with this lock")
    }
}

impl<T: Default> State<T> {
    fn take(&mut self, chunk: usize) -> Option<Claim<T>> {
        let note = self.chunks.entry(chunk).note.take()?;
        self.claimed += 1;
        Some(Claim { chunk, note })
    }
}
