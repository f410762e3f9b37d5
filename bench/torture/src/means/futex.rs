//! Two threads that wake each other by a futex in the memory.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::Duration;

use nodeward_linux::interference::{futex_wait, futex_wake};

use crate::means_thread::{Means, MeansEnv, MeansThreads};
use crate::owned_range::{OwnedRange, PAGE_WORDS};
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext};

pub const WHAT: &str = "futexes: two threads in turns, each of which sleeps until it is woken";

/// Turns in a step.
const TURNS: usize = 16;
/// Longer than the watchdog's patience, so that a lost wake-up is detected.
const WAIT_LIMIT: Duration = Duration::from_secs(3600);

/// One of two threads. Side 0 has its turn when the word is even, side 1 when it is odd.
struct FutexThread {
    words: Vec<&'static AtomicU64>,
    parity: u64,
    /// The last value that it has seen in each word.
    seen: Vec<u64>,
    _lots: Vec<OwnedRange<'static>>,
}

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    let lots = env.memory.ranges(RangeUse::Plain);
    let first =
        |lot: &OwnedRange<'static>| [&lot.words()[0], &lot.words()[lot.pages() / 2 * PAGE_WORDS]];
    let words: Vec<_> = lots.iter().flat_map(first).collect();
    let mut lots = Some(lots);
    let player = |side| -> Box<dyn Means> {
        let (words, seen) = (words.clone(), vec![side; words.len()]);
        Box::new(FutexThread { words, parity: side, seen, _lots: lots.take().unwrap_or_default() })
    };
    Ok([0, 1].map(player).into())
}

impl Means for FutexThread {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        for turn in 0..TURNS * self.words.len() {
            self.take_turn(context, turn % self.words.len())?;
            if context.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Wakes the other thread, which may sleep.
    fn end(&mut self, _hand: &mut ThreadContext) -> Result<(), StepFailure> {
        self.words.iter().for_each(|word| {
            word.fetch_or(ENDED_BIT, AcqRel);
            futex_wake(word).ok();
        });
        Ok(())
    }
}

/// Set in a word when one of the two threads has ended.
const ENDED_BIT: u64 = 1 << 31;

impl FutexThread {
    fn take_turn(&mut self, context: &ThreadContext, number: usize) -> Result<(), StepFailure> {
        let word = self.words[number];
        context.status.begin_action("futex", 0..0);
        loop {
            let value = word.load(Acquire);
            if value & ENDED_BIT != 0 {
                return Ok(());
            }
            if value % 2 == self.parity {
                break;
            }
            futex_wait(word, value as u32, WAIT_LIMIT).ok();
        }
        let value = word.fetch_add(1, AcqRel);
        if value & ENDED_BIT == 0 && value != self.seen[number] {
            let expected = self.seen[number];
            return Err(StepFailure::Count { expected, found: value });
        }
        self.seen[number] += 2;
        futex_wake(word).map_err(crate::thread_context::failure("futex"))?;
        Ok(())
    }
}
