//! A pool of workers that take units of work from one queue.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nodeward_machine::Machine;
use nodeward_model::CpuId;
use nodeward_policy::ramp::Ramp;

use crate::idle_cores::IdleCores;
use crate::{Jobs, MoveControl, MoveRequest};

/// Interval at which a worker that is not needed checks whether it is, in nanoseconds: at first and
/// at most.
const IDLE_POLL_NS: [u64; 2] = [500_000, 2_000_000];

/// A worker pool: its CPUs, and the number of workers at a time.
pub struct WorkerPool<'a> {
    pub machine: &'a dyn Machine,
    pub control: &'a MoveControl,
    cpus: &'a [CpuId],
    workers_max: u32,
    yields: bool,
    workers: Mutex<WorkerCount>,
}

/// The number of workers at a time.
struct WorkerCount {
    ramp: Ramp,
    /// `None` if the number is fixed.
    idle_cores: Option<IdleCores>,
}

impl WorkerCount {
    /// Notes that a worker has finished a unit.
    fn finished(&mut self, machine: &dyn Machine, bytes: u64) {
        let now_ns = machine.now_ns();
        if let Some(idle) = &mut self.idle_cores {
            idle.sample(machine);
            self.ramp.limit_to(now_ns, idle.count());
        }
        self.ramp.finished(now_ns, bytes);
    }
}

impl<'a> WorkerPool<'a> {
    /// The worker pool of a request, for `units` units of work.
    pub fn new(
        machine: &'a dyn Machine,
        live: &'a MoveControl,
        request: &'a MoveRequest,
        units: usize,
    ) -> Self {
        let cpus = &request.cpus;
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).max(1);
        let workers_max = request.workers_max().min(count(units));
        let workers = match request.jobs {
            Jobs::Fixed(_) => WorkerCount { ramp: Ramp::fixed(workers_max), idle_cores: None },
            Jobs::Auto => WorkerCount {
                ramp: Ramp::up_to(workers_max),
                idle_cores: Some(IdleCores::among(machine, cpus)),
            },
        };
        let gives_way = request.stall_ns.is_some();
        Self {
            machine,
            control: live,
            cpus,
            workers_max,
            yields: gives_way,
            workers: Mutex::new(workers),
        }
    }

    /// Runs `work` for every item; returns the results in the order of the items, and the number of
    /// workers in use at the end. `work` returns with each result the number of bytes that it
    /// moved.
    pub fn run_all<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> (R, u64) + Sync,
    ) -> (Vec<R>, u32) {
        self.run_on(self.workers_max, items, work)
    }

    /// Like [`Self::run_all`] with one worker, for items that would hinder each other.
    pub fn run_one_by_one<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> (R, u64) + Sync,
    ) -> Vec<R> {
        self.run_on(1, items, work).0
    }

    fn run_on<T: Sync, R: Send>(
        &self,
        workers: u32,
        items: &[T],
        work: impl Fn(&T) -> (R, u64) + Sync,
    ) -> (Vec<R>, u32) {
        let queue = AtomicUsize::new(0);
        let done = Mutex::new(Vec::with_capacity(items.len()));
        self.workers().ramp.begin(self.machine.now_ns());
        let shift =
            WorkerPass { pool: self, workers, items, work: &work, queue: &queue, done: &done };
        std::thread::scope(|scope| {
            for worker in 1..workers {
                let shift = &shift;
                scope.spawn(move || shift.run(worker));
            }
            shift.run(0);
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|&(index, _)| index);
        let results = done.into_iter().map(|(_, result)| result).collect();
        (results, self.workers().ramp.workers())
    }

    /// Returns the maximum number of workers.
    pub fn workers_max(&self) -> u32 {
        self.workers_max
    }

    fn workers(&self) -> MutexGuard<'_, WorkerCount> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_needed(&self, worker: u32) -> bool {
        worker < self.workers().ramp.workers()
    }

    /// Pins a worker to its CPU, if there are several. Where others need CPUs, the kernel finds one
    /// that is idle. Returns whether it is pinned.
    fn pin(&self, worker: u32) -> bool {
        let is_alone = self.workers().idle_cores.as_ref().is_none_or(IdleCores::are_all);
        let may_pin = self.workers_max > 1 && is_alone && !self.cpus.is_empty();
        if may_pin {
            self.machine.pin_current_thread(self.cpus[worker as usize % self.cpus.len()]);
        }
        may_pin
    }
}

/// One pass over a list of items.
struct WorkerPass<'a, T, R, F> {
    pool: &'a WorkerPool<'a>,
    workers: u32,
    items: &'a [T],
    work: &'a F,
    queue: &'a AtomicUsize,
    done: &'a Mutex<Vec<(usize, R)>>,
}

impl<T, R, F: Fn(&T) -> (R, u64)> WorkerPass<'_, T, R, F> {
    fn run(&self, worker: u32) {
        let worker_pool = self.pool;
        let _together = WorkerRegistration::begin(worker_pool.machine, worker, self.workers);
        if worker_pool.yields {
            worker_pool.machine.yield_to_waking_threads();
        }
        let (mut is_pinned, mut poll_ns) = (worker_pool.pin(worker), IDLE_POLL_NS[0]);
        while self.queue.load(Ordering::Relaxed) < self.items.len() {
            if !worker_pool.is_needed(worker) {
                worker_pool.machine.sleep_ns(poll_ns);
                poll_ns = (poll_ns * 2).min(IDLE_POLL_NS[1]);
                continue;
            }
            is_pinned = is_pinned || worker_pool.pin(worker);
            let index = self.queue.fetch_add(1, Ordering::Relaxed);
            let Some(item) = self.items.get(index) else { return };
            let (result, bytes) = (self.work)(item);
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
            let mut workers = worker_pool.workers();
            workers.finished(worker_pool.machine, bytes);
            worker_pool.control.set_workers(workers.ramp.workers());
        }
    }
}

/// Marks a thread as one of several workers until it is dropped, also by a panic.
struct WorkerRegistration<'a>(&'a dyn Machine);

impl<'a> WorkerRegistration<'a> {
    /// Returns `None` if there is only one worker.
    fn begin(machine: &'a dyn Machine, worker: u32, of: u32) -> Option<Self> {
        (of > 1).then(|| {
            machine.register_worker(worker, of);
            Self(machine)
        })
    }
}

impl Drop for WorkerRegistration<'_> {
    fn drop(&mut self) {
        self.0.unregister_worker();
    }
}
