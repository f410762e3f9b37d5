//! A job: the work that a call gives to the lanes, chunk by chunk, and its outcome.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nodeward_model::{CpuId, SkipReason};
use nodeward_policy::pacing::RateLimit;
use nodeward_policy::ramp::Ramp;
use nodeward_policy::stragglers::StragglerDetector;

use super::options::{Cancel, MoveOptions, Progress};
use super::page_skips::PageSkips;
use super::report::{MigrationReport, elapsed_ns};
use super::task::{ChunkTask, EndRequest, TaskControl};
use crate::region::{Placement, RegionShared};
use crate::sync::{Condvar, Mutex, lock};

/// Interval at which a lane that is not needed checks whether it is.
const IDLE_POLL_INTERVAL: Duration = Duration::from_micros(500);
/// Interval of progress reports, and of checks for cancellation while a rate is used up.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// The operation that is applied to each chunk.
pub enum JobKind {
    /// Moves its pages to the task's node.
    Migrate,
    /// Leaves its pages out of sight.
    UnmapLazily,
    /// Brings its missing pages into memory.
    Commit(Placement),
    /// Brings back pages that were left out of sight.
    ReturnLazy,
    /// Frees its pages.
    Discard,
    /// Brings back pages that were left out, and forgets the chunk's node, because from now on the
    /// kernel moves its pages.
    PrepareForKernel,
}

impl JobKind {
    /// Returns whether the operation only brings pages into sight. Then it may run while a fork
    /// waits for just that, and it has a lane of its own.
    pub fn unmaps_nothing(&self) -> bool {
        matches!(self, Self::ReturnLazy | Self::Discard | Self::PrepareForKernel)
    }

    /// Returns whether the report says what became of pages.
    pub fn reports(&self) -> bool {
        matches!(self, Self::Migrate | Self::UnmapLazily)
    }

    /// Returns whether a thread of the program may do it. It leaves nothing out of sight: memory is
    /// taken for a slot while the chunk is claimed.
    pub fn may_run_on_caller(&self) -> bool {
        !matches!(self, Self::UnmapLazily)
    }
}

/// The description of a job.
pub struct JobSpec {
    pub region: Arc<RegionShared>,
    pub kind: JobKind,
    pub options: MoveOptions,
    pub tasks: Vec<ChunkTask>,
    /// Number of lanes that work on it, and whether all of them work from the start.
    pub lanes: u32,
    pub all_lanes: bool,
    /// CPUs that the lanes run on, the best first; empty for any.
    pub cpus: Vec<CpuId>,
}

impl JobSpec {
    /// An order for one lane, without limits.
    pub fn on_one_lane(
        region: &Arc<RegionShared>,
        kind: JobKind,
        options: MoveOptions,
        tasks: Vec<ChunkTask>,
    ) -> Self {
        Self {
            region: Arc::clone(region),
            kind,
            options,
            tasks,
            lanes: 1,
            all_lanes: true,
            cpus: Vec::new(),
        }
    }
}

/// A job that lanes work on.
pub struct LaneJob {
    pub spec: JobSpec,
    pub stop: EndRequest,
    /// Why pages stayed, of the task that ended last.
    pub last_skips: Mutex<PageSkips>,
    began: Instant,
    examined_bytes: AtomicU64,
    queue: Mutex<Queue>,
    work_available: Condvar,
    done: Mutex<FinishedLanes>,
    finished: Condvar,
}

struct Queue {
    /// Remaining tasks of each lane. Each lane has a part of its own, so that lanes work in
    /// different sections; a lane that has finished its part helps another.
    parts: Vec<Range<usize>>,
    ramp: Ramp,
    stragglers: StragglerDetector,
    rate: Option<RateLimit>,
}

#[derive(Default)]
struct FinishedLanes {
    lanes: u32,
    report: MigrationReport,
}

impl LaneJob {
    /// A job that no lane has begun. Its lanes end it when the caller cancels it.
    pub fn new(order: JobSpec, cancel: Option<&Cancel>) -> Self {
        let ramp = match order.all_lanes {
            true => Ramp::fixed(order.lanes),
            false => Ramp::up_to(order.lanes),
        };
        let (tasks, lanes) = (order.tasks.len(), order.lanes as usize);
        let part = |lane: usize| tasks * lane / lanes..tasks * (lane + 1) / lanes;
        let queue = Queue {
            parts: (0..lanes).map(part).collect(),
            ramp,
            stragglers: StragglerDetector::new(lanes),
            rate: order.options.budget.bytes_per_s.map(RateLimit::new),
        };
        Self {
            spec: order,
            stop: EndRequest { caller: cancel.cloned().unwrap_or_default(), ..Default::default() },
            last_skips: Mutex::default(),
            began: Instant::now(),
            examined_bytes: AtomicU64::new(0),
            queue: Mutex::new(queue),
            work_available: Condvar::new(),
            done: Mutex::default(),
            finished: Condvar::new(),
        }
    }

    /// Returns the next task for a lane. Waits while the lane is not needed or the rate is used up.
    pub fn next_task(&self, lane: usize) -> Option<ChunkTask> {
        let (task, wait_ns) = self.wait_for_task(lane)?;
        let wake_at = Instant::now() + Duration::from_nanos(wait_ns);
        while !self.is_stopped() && Instant::now() < wake_at {
            std::thread::sleep((wake_at - Instant::now()).min(PROGRESS_INTERVAL));
        }
        Some(task)
    }

    fn wait_for_task(&self, lane: usize) -> Option<(ChunkTask, u64)> {
        let mut queue = lock(&self.queue);
        loop {
            let nothing_left = queue.parts.iter().all(Range::is_empty);
            if self.is_stopped() || nothing_left || queue.stragglers.is_excluded(lane) {
                return None;
            }
            if queue.is_needed(lane) {
                break;
            }
            queue = self
                .work_available
                .wait_timeout(queue, IDLE_POLL_INTERVAL)
                .expect("not poisoned")
                .0;
        }
        let task = self.spec.tasks[queue.next(lane)?];
        let bytes = self.bytes(&task);
        let now = self.now_ns();
        let wait_ns = queue.rate.as_mut().map_or(0, |rate| rate.reserve(now, bytes));
        Some((task, wait_ns))
    }

    /// Returns what the batches of a task need of the job. The task counts as examined when it is
    /// dropped.
    pub fn control(&self, task: &ChunkTask) -> TaskControl<'_> {
        TaskControl::new(&self.stop, &self.examined_bytes, self.bytes(task))
    }

    /// Records that a lane has done a task, in `took_ns` nanoseconds.
    pub fn finished(&self, lane: usize, task: &ChunkTask, took_ns: u64) {
        let bytes = self.bytes(task);
        let now = self.now_ns();
        let mut queue = lock(&self.queue);
        queue.ramp.finished(now, bytes);
        queue.stragglers.record_batch(lane, task.pages.len() as u64, took_ns);
    }

    /// Records that a lane has nothing more to do, and adds its report.
    pub fn lane_finished(&self, report: &MigrationReport) {
        let mut done = lock(&self.done);
        done.lanes += 1;
        done.report.add(report);
        drop(done);
        self.finished.notify_all();
    }

    /// Waits for the end and returns the outcome. Meanwhile reports progress. Between reports the
    /// thread sleeps: on a machine without an idle CPU, each time that it woke would stop a lane.
    pub fn wait(&self, progress: Option<&dyn Fn(Progress)>) -> MigrationReport {
        let total_bytes = self.spec.tasks.iter().map(|task| self.bytes(task)).sum();
        let tell = || {
            let examined_bytes = self.examined_bytes.load(Ordering::Relaxed);
            progress.inspect(|progress| progress(Progress { examined_bytes, total_bytes }));
        };
        let mut told = Instant::now();
        let mut done = lock(&self.done);
        while done.lanes < self.spec.lanes {
            done = self.finished.wait_timeout(done, PROGRESS_INTERVAL).expect("not poisoned").0;
            if told.elapsed() >= PROGRESS_INTERVAL {
                told = Instant::now();
                drop(done);
                tell();
                done = lock(&self.done);
            }
        }
        let mut report = std::mem::take(&mut done.report);
        drop(done);
        tell();
        self.complete_report(&mut report);
        report
    }

    /// Fills in the fields that are known only at the end.
    fn complete_report(&self, report: &mut MigrationReport) {
        report.took_ns = self.now_ns();
        report.cancelled = self.is_stopped();
        report.lanes = lock(&self.queue).ramp.workers();
        if self.spec.kind.reports() {
            let pages: u64 = self.spec.tasks.iter().map(|task| task.pages.len() as u64).sum();
            let untouched = pages.saturating_sub(report.account.selected() + report.lazy_pages);
            report.account.skip(SkipReason::Interrupted, untouched);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_made()
    }

    fn bytes(&self, task: &ChunkTask) -> u64 {
        (task.pages.len() * self.spec.region.context.page_bytes) as u64
    }

    fn now_ns(&self) -> u64 {
        elapsed_ns(self.began)
    }
}

impl Queue {
    /// Returns whether the lane is among the first lanes that get work, as many as are worth it.
    fn is_needed(&self, lane: usize) -> bool {
        let before = (0..lane).filter(|&other| !self.stragglers.is_excluded(other)).count();
        before < self.ramp.workers() as usize
    }

    /// Returns the next task of the lane's part, or else the last one of the largest remaining
    /// part.
    fn next(&mut self, lane: usize) -> Option<usize> {
        if let Some(task) = self.parts[lane].next() {
            return Some(task);
        }
        self.parts.iter_mut().max_by_key(|part| part.len())?.next_back()
    }
}
