//! Signals for all threads, whose handler writes to the memory.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use nodeward_linux::interference::{on_signal, send_signal};
use rustix::process::Signal;

use crate::means_thread::{Means, MeansEnv, MeansThreads, SkippedMeans, single_thread};
use crate::owned_range::{OwnedRange, PAGE_WORDS};
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext};
use crate::thread_status::ThreadStatus;

pub const WHAT: &str = "signals for every thread, at any time; their handlers write to the memory";

/// Signals in a step, and counters checked then; all counters are checked at the end.
const SIGNALS: usize = 16;

static COUNTS: OnceLock<Vec<WordCount>> = OnceLock::new();
static TURN: AtomicU64 = AtomicU64::new(0);

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    let lots = env.memory.ranges(RangeUse::Plain);
    let pages = |lot: &OwnedRange<'static>| lot.words().iter().step_by(PAGE_WORDS);
    let count_of = |word| WordCount { word, reference: AtomicU64::new(0) };
    let counts = lots.iter().flat_map(pages).map(count_of).collect();
    COUNTS.set(counts).map_err(|_| SkippedMeans("there is one already".to_owned()))?;
    on_signal(Signal::USR1.as_raw(), count_signal)
        .map_err(|error| SkippedMeans(error.to_string()))?;
    single_thread(SignalMeans { statuses: Arc::clone(&env.statuses) })
}

/// A counter in the memory, and the same count outside of it.
struct WordCount {
    word: &'static AtomicU64,
    reference: AtomicU64,
}

extern "C" fn count_signal(_: i32) {
    let Some(counts) = COUNTS.get() else { return };
    let turn = TURN.fetch_add(1, SeqCst) as usize;
    let count = &counts[turn * 5 % counts.len()];
    count.word.fetch_add(1, SeqCst);
    count.reference.fetch_add(1, SeqCst);
}

struct SignalMeans {
    statuses: Arc<OnceLock<Vec<Arc<ThreadStatus>>>>,
}

impl Means for SignalMeans {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let Some(statuses) = self.statuses.get() else { return Ok(()) };
        for _ in 0..SIGNALS {
            let tid = statuses[context.random.below(statuses.len())].tid();
            context.status.begin_action("tgkill", 0..0);
            if tid != 0 {
                // The thread may have ended.
                send_signal(tid, Signal::USR1.as_raw()).ok();
            }
            std::thread::sleep(std::time::Duration::from_micros(context.random.below(500) as u64));
        }
        // The handler counts in the memory first and outside of it second.
        let counts = COUNTS.get().map_or(&[][..], |counts| counts);
        (0..SIGNALS.min(counts.len())).try_for_each(|_| {
            let count = &counts[context.random.below(counts.len())];
            context.status.mark_progress();
            let beside = count.reference.load(SeqCst);
            let found = count.word.load(SeqCst);
            if found < beside {
                Err(StepFailure::Count { expected: beside, found })
            } else {
                Ok(())
            }
        })
    }

    fn final_check(&mut self) -> Result<(), StepFailure> {
        counts().try_for_each(|count| {
            let [expected, found] = [&count.reference, count.word].map(|count| count.load(SeqCst));
            if found == expected { Ok(()) } else { Err(StepFailure::Count { expected, found }) }
        })
    }
}

fn counts() -> std::slice::Iter<'static, WordCount> {
    COUNTS.get().map_or([].iter(), |counts| counts.iter())
}
