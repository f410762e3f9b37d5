//! The threads: one for each part of each means, until the time is over or something is wrong.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nodeward_proof::Xorshift64;

use crate::means_thread::Means;
use crate::move_totals::SharedMoveTotals;
use crate::thread_context::{StepFailure, ThreadContext};
use crate::thread_dump;
use crate::thread_status::ThreadStatus;
use crate::watchdog::{CHECK_INTERVAL, HangWatchdog};

/// A thread to be started, with its name in listings.
pub struct ThreadSpec {
    pub name: String,
    pub status: Arc<ThreadStatus>,
    pub means: Box<dyn Means>,
}

/// The end of a run.
#[derive(Debug)]
pub enum TestEnd {
    /// The time was over, and nothing was wrong.
    Clean,
    /// This thread found this fault.
    Failed(String, StepFailure),
    /// This thread made no progress.
    Hung(Arc<ThreadStatus>),
}

/// Run time, minimum steps, and how long a thread may stand still.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    pub run: Duration,
    /// Minimum number of steps of each thread.
    pub steps: u64,
    pub hang_limit: Duration,
}

/// A thread works for one part in this many of its time: there are many more threads than CPUs, and
/// the pager's threads serve all of them.
const BUSY_SHARE: u32 = 4;
const PAUSE_MAX: Duration = Duration::from_millis(50);

type WorkerHandle = JoinHandle<(Box<dyn Means>, Result<(), StepFailure>)>;

/// The running threads.
pub struct TestThreads {
    pub watchdog: HangWatchdog,
    threads: Vec<(Arc<ThreadStatus>, WorkerHandle)>,
    stop: Arc<AtomicBool>,
}

impl TestThreads {
    /// Starts all threads. Each has random numbers from the seed and its own number.
    pub fn start(parts: Vec<ThreadSpec>, seed: u64, tally: &Arc<SharedMoveTotals>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let statuses: Vec<_> = parts.iter().map(|part| Arc::clone(&part.status)).collect();
        let watchdog = HangWatchdog::start(&statuses);
        let start = |(number, part): (u64, ThreadSpec)| {
            let random = Xorshift64::new(seed.wrapping_mul(1009).wrapping_add(number));
            let status = Arc::clone(&part.status);
            let context = ThreadContext::new(
                random,
                Arc::clone(&status),
                Arc::clone(tally),
                Arc::clone(&stop),
            );
            let builder = thread::Builder::new().name(part.name);
            let worker = builder.spawn(move || run_means(part.means, context));
            (status, worker.expect("another thread can be started"))
        };
        let workers = (1..).zip(parts).map(start).collect();
        Self { watchdog, threads: workers, stop }
    }

    /// Watches the threads until the time is over, then checks all memory once more.
    pub fn run(&mut self, times: RunLimits) -> TestEnd {
        let began = Instant::now();
        while self.threads.iter().any(|(_, worker)| !worker.is_finished()) {
            // A thread that ends early has found something.
            let early = self.threads.iter().any(|(_, worker)| worker.is_finished());
            if early || began.elapsed() >= times.run && self.has_made_steps(times.steps) {
                self.stop.store(true, Relaxed);
            }
            if let Some(status) = self.watchdog.check(times.hang_limit) {
                eprintln!("{} (thread {}) stands still; all threads:", status.name, status.tid());
                eprint!("{}", thread_dump::threads());
                return self.join_finished(TestEnd::Hung(status));
            }
            thread::sleep(CHECK_INTERVAL);
        }
        self.join()
    }

    fn has_made_steps(&self, steps: u64) -> bool {
        self.threads.iter().all(|(status, _)| status.steps() >= steps)
    }

    /// Merges the faults of threads that ended before another one stood still.
    fn join_finished(&mut self, stands: TestEnd) -> TestEnd {
        let is_over = |(_, worker): &mut (Arc<ThreadStatus>, WorkerHandle)| worker.is_finished();
        let ended = self.threads.extract_if(.., is_over);
        let faults = ended.filter_map(|(status, worker)| {
            let (_, result) = worker.join().ok()?;
            result.err().map(|fault| (status, fault))
        });
        faults.fold(stands, |ending, (status, fault)| worse_of(ending, &status, fault))
    }

    /// Merges the results of all threads; the last checks are made when no thread is left.
    fn join(&mut self) -> TestEnd {
        let mut ending = TestEnd::Clean;
        let mut all = Vec::new();
        for (status, worker) in self.threads.drain(..) {
            let panicked = |_| StepFailure::Failed("it panicked; see above".to_owned());
            let result = worker.join().map_err(panicked);
            match result.and_then(|(means, result)| result.map(|()| means)) {
                Ok(means) => all.push((status, means)),
                Err(fault) => ending = worse_of(ending, &status, fault),
            }
        }
        for (status, mut means) in all {
            if let Err(fault) = means.final_check() {
                ending = worse_of(ending, &status, fault);
            }
        }
        ending
    }
}

/// Returns the worse of an ending and a fault: lost memory takes precedence.
fn worse_of(ending: TestEnd, status: &ThreadStatus, fault: StepFailure) -> TestEnd {
    eprintln!("{}: {fault}\n    after: {}", status.name, status.recent_actions());
    let is_worse = match &ending {
        TestEnd::Clean => true,
        TestEnd::Failed(_, before) => fault.is_loss() && !before.is_loss(),
        TestEnd::Hung(_) => fault.is_loss(),
    };
    if is_worse { TestEnd::Failed(status.name.clone(), fault) } else { ending }
}

fn run_means(
    mut means: Box<dyn Means>,
    mut context: ThreadContext,
) -> (Box<dyn Means>, Result<(), StepFailure>) {
    let status = Arc::clone(&context.status);
    status.begin();
    let result = loop {
        let began = Instant::now();
        let result = means.step(&mut context);
        status.finish_step();
        thread::sleep((began.elapsed() * (BUSY_SHARE - 1)).min(PAUSE_MAX));
        if result.is_err() || context.is_over() {
            break result;
        }
    };
    // Other threads may wait for it, however it ended.
    let ended = means.end(&mut context);
    status.end();
    (means, result.and(ended))
}
