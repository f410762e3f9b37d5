//! The threads: one for each part of each means, until the time is over or something is wrong.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nodeward_proof::Dice;

use crate::dump;
use crate::hand::{Fault, Hand};
use crate::means::Means;
use crate::post::Post;
use crate::tally::Tally;
use crate::watch::{LOOK, Watchdog};

/// A thread to be started, with its name in listings.
pub struct Part {
    pub name: String,
    pub post: Arc<Post>,
    pub means: Box<dyn Means>,
}

/// The end of a run.
#[derive(Debug)]
pub enum Ending {
    /// The time was over, and nothing was wrong.
    Clean,
    /// This thread found this fault.
    Fault(String, Fault),
    /// This thread made no progress.
    Stands(Arc<Post>),
}

/// Run time, minimum steps, and how long a thread may stand still.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub run: Duration,
    /// Minimum number of steps of each thread.
    pub steps: u64,
    pub patience: Duration,
}

/// A thread works for one part in this many of its time: there are many more threads than CPUs, and
/// the pager's threads serve all of them.
const BUSY: u32 = 4;
const REST_MOST: Duration = Duration::from_millis(50);

type Worker = JoinHandle<(Box<dyn Means>, Result<(), Fault>)>;

/// The running threads.
pub struct Crew {
    pub watchdog: Watchdog,
    workers: Vec<(Arc<Post>, Worker)>,
    stop: Arc<AtomicBool>,
}

impl Crew {
    /// Starts all threads. Each has random numbers from the seed and its own number.
    pub fn start(parts: Vec<Part>, seed: u64, tally: &Arc<Tally>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let posts: Vec<_> = parts.iter().map(|part| Arc::clone(&part.post)).collect();
        let watchdog = Watchdog::start(&posts);
        let start = |(number, part): (u64, Part)| {
            let dice = Dice::new(seed.wrapping_mul(1009).wrapping_add(number));
            let post = Arc::clone(&part.post);
            let hand = Hand::new(dice, Arc::clone(&post), Arc::clone(tally), Arc::clone(&stop));
            let builder = thread::Builder::new().name(part.name);
            let worker = builder.spawn(move || work(part.means, hand));
            (post, worker.expect("another thread can be started"))
        };
        let workers = (1..).zip(parts).map(start).collect();
        Self { watchdog, workers, stop }
    }

    /// Watches the threads until the time is over, then checks all memory once more.
    pub fn watch(&mut self, times: Times) -> Ending {
        let began = Instant::now();
        while self.workers.iter().any(|(_, worker)| !worker.is_finished()) {
            // A thread that ends early has found something.
            let early = self.workers.iter().any(|(_, worker)| worker.is_finished());
            if early || began.elapsed() >= times.run && self.has_stepped(times.steps) {
                self.stop.store(true, Relaxed);
            }
            if let Some(post) = self.watchdog.look(times.patience) {
                eprintln!("{} (thread {}) stands still; all threads:", post.name, post.tid());
                eprint!("{}", dump::threads());
                return self.join_those_that_ended(Ending::Stands(post));
            }
            thread::sleep(LOOK);
        }
        self.join()
    }

    fn has_stepped(&self, steps: u64) -> bool {
        self.workers.iter().all(|(post, _)| post.steps() >= steps)
    }

    /// Merges the faults of threads that ended before another one stood still.
    fn join_those_that_ended(&mut self, stands: Ending) -> Ending {
        let is_over = |(_, worker): &mut (Arc<Post>, Worker)| worker.is_finished();
        let ended = self.workers.extract_if(.., is_over);
        let faults = ended.filter_map(|(post, worker)| {
            let (_, result) = worker.join().ok()?;
            result.err().map(|fault| (post, fault))
        });
        faults.fold(stands, |ending, (post, fault)| first(ending, &post, fault))
    }

    /// Merges the results of all threads; the last checks are made when no thread is left.
    fn join(&mut self) -> Ending {
        let mut ending = Ending::Clean;
        let mut all = Vec::new();
        for (post, worker) in self.workers.drain(..) {
            let panicked = |_| Fault::Failed("it panicked; see above".to_owned());
            let result = worker.join().map_err(panicked);
            match result.and_then(|(means, result)| result.map(|()| means)) {
                Ok(means) => all.push((post, means)),
                Err(fault) => ending = first(ending, &post, fault),
            }
        }
        for (post, mut means) in all {
            if let Err(fault) = means.last_look() {
                ending = first(ending, &post, fault);
            }
        }
        ending
    }
}

/// Returns the worse of an ending and a fault: lost memory takes precedence.
fn first(ending: Ending, post: &Post, fault: Fault) -> Ending {
    eprintln!("{}: {fault}\n    after: {}", post.name, post.story());
    let is_worse = match &ending {
        Ending::Clean => true,
        Ending::Fault(_, before) => fault.is_loss() && !before.is_loss(),
        Ending::Stands(_) => fault.is_loss(),
    };
    if is_worse { Ending::Fault(post.name.clone(), fault) } else { ending }
}

fn work(mut means: Box<dyn Means>, mut hand: Hand) -> (Box<dyn Means>, Result<(), Fault>) {
    let post = Arc::clone(&hand.post);
    post.begin();
    let result = loop {
        let began = Instant::now();
        let result = means.step(&mut hand);
        post.stepped();
        thread::sleep((began.elapsed() * (BUSY - 1)).min(REST_MOST));
        if result.is_err() || hand.is_over() {
            break result;
        }
    };
    // Other threads may wait for it, however it ended.
    let ended = means.end(&mut hand);
    post.end();
    (means, result.and(ended))
}
