//! The lanes: the threads that move pages.
//!
//! Lanes block all signals: a signal handler that interrupted one in the middle of a batch could
//! touch a page that only this thread brings back. A lane that panics aborts the process, rather
//! than leave pages out of sight for ever. Small work is done without lanes, see `callers.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nodeward_machine::Machine;
use nodeward_policy::pacing::StallBudget;

use super::batch_runner::BatchRunner;
use super::claimed_chunk::ClaimedChunk;
use super::job::LaneJob;
use super::options::Progress;
use super::page_skips::PageSkips;
use super::report::{MigrationReport, elapsed_ns};
use super::task::ChunkTask;
use crate::context::PagerContext;
use crate::error::Result;
use crate::pager_thread::spawn_pager_thread;
use crate::sync::{Mutex, lock};

/// With a stall budget, the interval at which a lane yields its CPU while it holds no pages.
/// Otherwise the scheduler would preempt it at the end of its slice (3 ms), in the middle of a
/// batch, for as long as other threads run.
const YIELD_INTERVAL: Duration = Duration::from_millis(1);

/// The lanes of a pager, and one more that only brings pages back: it must not queue behind a job
/// that waits for just that.
pub struct Lanes {
    lanes: Vec<Lane>,
    return_lane: Lane,
}

/// A job for a lane.
struct Assignment {
    job: Arc<LaneJob>,
    /// The lane's number among the lanes of the job.
    number: usize,
}

struct Lane {
    jobs: Mutex<Option<Sender<Assignment>>>,
    /// Jobs that were sent and are not finished.
    pending: Arc<AtomicUsize>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Lanes {
    /// Starts `count` lanes, and the one that brings pages back.
    pub fn start(context: &Arc<PagerContext>, count: u32) -> Result<Self> {
        let lanes = (0..count as usize).map(|index| Lane::start(context, index));
        let lanes = lanes.collect::<Result<_>>()?;
        Ok(Self { lanes, return_lane: Lane::start(context, count as usize)? })
    }

    /// Returns the number of lanes.
    pub fn count(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// Runs a job and returns its outcome.
    pub fn run(&self, job: LaneJob, progress: Option<&dyn Fn(Progress)>) -> MigrationReport {
        self.run_shared(&Arc::new(job), progress)
    }

    /// Runs a job of one task. Returns its outcome, and why single pages stayed.
    pub fn run_one_task(&self, job: LaneJob) -> (MigrationReport, PageSkips) {
        let job = Arc::new(job);
        let report = self.run_shared(&job, None);
        let skips = *lock(&job.last_skips);
        (report, skips)
    }

    fn run_shared(
        &self,
        job: &Arc<LaneJob>,
        progress: Option<&dyn Fn(Progress)>,
    ) -> MigrationReport {
        let lanes = match job.spec.kind.unmaps_nothing() {
            true => vec![&self.return_lane],
            false => self.least_busy_first(),
        };
        for (number, lane) in lanes[..job.spec.lanes as usize].iter().enumerate() {
            lane.assign(job, number);
        }
        job.wait(progress)
    }

    /// Returns all lanes, those with the fewest jobs first: callers do not queue behind each other
    /// while lanes are idle, unless they call at the same moment.
    fn least_busy_first(&self) -> Vec<&Lane> {
        let mut lanes: Vec<_> = self.lanes.iter().collect();
        // Each counter is read once: a sort may panic if its keys change meanwhile.
        lanes.sort_by_cached_key(|lane| lane.pending.load(Ordering::Relaxed));
        lanes
    }

    /// Ends the threads. All jobs are done by then, because their callers wait for them.
    pub fn stop(&self) {
        for lane in self.lanes.iter().chain([&self.return_lane]) {
            lock(&lane.jobs).take();
            if let Some(thread) = lock(&lane.thread).take() {
                thread.join().expect("a lane that panics aborts the process");
            }
        }
    }
}

impl Lane {
    fn start(context: &Arc<PagerContext>, index: usize) -> Result<Self> {
        let (jobs, inbox) = channel();
        let runner = BatchRunner::new(Arc::clone(context), index);
        let pending = Arc::new(AtomicUsize::new(0));
        let unfinished = Arc::clone(&pending);
        let thread = spawn_pager_thread(format!("nodeward-lane{index}"), move || {
            run_lane(runner, &inbox, &unfinished);
        })?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), pending, thread: Mutex::new(Some(thread)) })
    }

    fn assign(&self, job: &Arc<LaneJob>, number: usize) {
        let jobs = lock(&self.jobs);
        let jobs = jobs.as_ref().expect("lanes stop with the pager");
        self.pending.fetch_add(1, Ordering::Relaxed);
        jobs.send(Assignment { job: Arc::clone(job), number }).expect("lanes stop with the pager");
    }
}

fn run_lane(mut runner: BatchRunner, inbox: &Receiver<Assignment>, unfinished: &AtomicUsize) {
    for Assignment { job, number } in inbox {
        if job.spec.lanes > 1 && !job.spec.cpus.is_empty() {
            let cpu = job.spec.cpus[number % job.spec.cpus.len()];
            runner.context.machine.pin_current_thread(cpu);
        }
        let report = run_job(&mut runner, number, &job);
        runner.slots.return_all();
        unfinished.fetch_sub(1, Ordering::Relaxed);
        job.lane_finished(&report);
    }
}

fn run_job(runner: &mut BatchRunner, lane: usize, job: &LaneJob) -> MigrationReport {
    let mut report = MigrationReport::preallocated();
    let stall = job.spec.options.budget.stall;
    let mut stall = stall.map(|stall| StallBudget::new(stall.as_nanos() as u64));
    let mut turn = Instant::now();
    while let Some(task) = job.next_task(lane) {
        if stall.is_some() && turn.elapsed() > YIELD_INTERVAL {
            std::thread::yield_now();
            turn = Instant::now();
        }
        let began = Instant::now();
        run_task(runner, job, &task, &mut stall, &mut report);
        job.finished(lane, &task, elapsed_ns(began));
    }
    report
}

fn run_task(
    runner: &mut BatchRunner,
    job: &LaneJob,
    task: &ChunkTask,
    stall: &mut Option<StallBudget>,
    report: &mut MigrationReport,
) {
    let (region, control) = (&*job.spec.region, job.control(task));
    let claim = match job.spec.kind.unmaps_nothing() {
        true => region.claims.claim_to_return(task.chunk),
        false => region.claims.claim(task.chunk),
    };
    let Ok(claim) = claim else {
        return job.stop.pager.store(true, Ordering::Relaxed);
    };
    let work = ClaimedChunk { runner: &mut *runner, region, claim };
    let claim = work.run(&job.spec.kind, task, &job.spec.options, (&control, stall), report);
    if let Some(claim) = claim {
        region.release(claim);
    }
    *lock(&job.last_skips) = runner.skips;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: jobs go to the lanes with the fewest jobs; of equals, to the first.
    #[test]
    fn jobs_go_to_idle_lanes() {
        let lane = |pending| {
            let pending = Arc::new(AtomicUsize::new(pending));
            Lane { jobs: Mutex::new(None), pending, thread: Mutex::new(None) }
        };
        let lanes = Lanes { lanes: [2, 0, 1, 0].map(lane).into(), return_lane: lane(0) };
        let chosen = |count| -> Vec<_> {
            let number = |lane: &Lane| lanes.lanes.iter().position(|one| std::ptr::eq(one, lane));
            lanes.least_busy_first().into_iter().filter_map(number).take(count).collect()
        };
        assert_eq!(chosen(1), [1]);
        assert_eq!(chosen(3), [1, 3, 2]);
    }
}
