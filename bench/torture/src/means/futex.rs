//! Two threads that wake each other by a futex in the memory.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::Duration;

use nodeward_linux::trouble::{futex_wait, futex_wake};

use super::{Made, Means, Site};
use crate::ground::Use;
use crate::hand::{Fault, Hand};
use crate::lot::{Lot, PAGE_WORDS};

pub const WHAT: &str = "futexes: two threads in turns, each of which sleeps until it is woken";

/// Turns in a step.
const TURNS: usize = 16;
/// Longer than the watchdog's patience, so that a lost wake-up is detected.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// One of two threads. Side 0 has its turn when the word is even, side 1 when it is odd.
struct Player {
    words: Vec<&'static AtomicU64>,
    side: u64,
    /// The last value that it has seen in each word.
    seen: Vec<u64>,
    _lots: Vec<Lot<'static>>,
}

pub fn make(site: &mut Site<'_>) -> Made {
    let lots = site.ground.lots(Use::Plain);
    let first = |lot: &Lot<'static>| [&lot.words()[0], &lot.words()[lot.pages() / 2 * PAGE_WORDS]];
    let words: Vec<_> = lots.iter().flat_map(first).collect();
    let mut lots = Some(lots);
    let player = |side| -> Box<dyn Means> {
        let (words, seen) = (words.clone(), vec![side; words.len()]);
        Box::new(Player { words, side, seen, _lots: lots.take().unwrap_or_default() })
    };
    Ok([0, 1].map(player).into())
}

impl Means for Player {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        for turn in 0..TURNS * self.words.len() {
            self.play(hand, turn % self.words.len())?;
            if hand.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Wakes the other thread, which may sleep.
    fn end(&mut self, _hand: &mut Hand) -> Result<(), Fault> {
        self.words.iter().for_each(|word| {
            word.fetch_or(OVER, AcqRel);
            futex_wake(word).ok();
        });
        Ok(())
    }
}

/// Set in a word when one of the two threads has ended.
const OVER: u64 = 1 << 31;

impl Player {
    fn play(&mut self, hand: &Hand, number: usize) -> Result<(), Fault> {
        let word = self.words[number];
        hand.post.does("futex", 0..0);
        loop {
            let value = word.load(Acquire);
            if value & OVER != 0 {
                return Ok(());
            }
            if value % 2 == self.side {
                break;
            }
            futex_wait(word, value as u32, FOR_EVER).ok();
        }
        let value = word.fetch_add(1, AcqRel);
        if value & OVER == 0 && value != self.seen[number] {
            let expected = self.seen[number];
            return Err(Fault::Count { expected, found: value });
        }
        self.seen[number] += 2;
        futex_wake(word).map_err(crate::hand::failed("futex"))?;
        Ok(())
    }
}
