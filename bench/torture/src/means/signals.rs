//! Signals for all threads, whose handler writes to the memory.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use nodeward_linux::trouble::{on_signal, send_signal};
use rustix::process::Signal;

use super::{Made, Means, Site, Skipped, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand};
use crate::lot::{Lot, PAGE_WORDS};
use crate::post::Post;

pub const WHAT: &str = "signals for every thread, at any time; their handlers write to the memory";

/// Signals in a step, and counters checked then; all counters are checked at the end.
const SIGNALS: usize = 16;

/// A counter in the memory, and the same count outside of it.
struct Count {
    word: &'static AtomicU64,
    beside: AtomicU64,
}

static COUNTS: OnceLock<Vec<Count>> = OnceLock::new();
static TURN: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: i32) {
    let Some(counts) = COUNTS.get() else { return };
    let turn = TURN.fetch_add(1, SeqCst) as usize;
    let count = &counts[turn * 5 % counts.len()];
    count.word.fetch_add(1, SeqCst);
    count.beside.fetch_add(1, SeqCst);
}

struct Signals {
    posts: Arc<OnceLock<Vec<Arc<Post>>>>,
}

pub fn make(site: &mut Site<'_>) -> Made {
    let lots = site.ground.lots(Use::Plain);
    let pages = |lot: &Lot<'static>| lot.words().iter().step_by(PAGE_WORDS);
    let count_of = |word| Count { word, beside: AtomicU64::new(0) };
    let counts = lots.iter().flat_map(pages).map(count_of).collect();
    COUNTS.set(counts).map_err(|_| Skipped("there is one already".to_owned()))?;
    on_signal(Signal::USR1.as_raw(), count).map_err(|error| Skipped(error.to_string()))?;
    one(Signals { posts: Arc::clone(&site.posts) })
}

impl Means for Signals {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let Some(posts) = self.posts.get() else { return Ok(()) };
        for _ in 0..SIGNALS {
            let tid = posts[hand.dice.below(posts.len())].tid();
            hand.post.does("tgkill", 0..0);
            if tid != 0 {
                // The thread may have ended.
                send_signal(tid, Signal::USR1.as_raw()).ok();
            }
            std::thread::sleep(std::time::Duration::from_micros(hand.dice.below(500) as u64));
        }
        // The handler counts in the memory first and outside of it second.
        let counts = COUNTS.get().map_or(&[][..], |counts| counts);
        (0..SIGNALS.min(counts.len())).try_for_each(|_| {
            let count = &counts[hand.dice.below(counts.len())];
            hand.post.goes_on();
            let beside = count.beside.load(SeqCst);
            let found = count.word.load(SeqCst);
            if found < beside { Err(Fault::Count { expected: beside, found }) } else { Ok(()) }
        })
    }

    fn last_look(&mut self) -> Result<(), Fault> {
        counts().try_for_each(|count| {
            let [expected, found] = [&count.beside, count.word].map(|count| count.load(SeqCst));
            if found == expected { Ok(()) } else { Err(Fault::Count { expected, found }) }
        })
    }
}

fn counts() -> std::slice::Iter<'static, Count> {
    COUNTS.get().map_or([].iter(), |counts| counts.iter())
}
