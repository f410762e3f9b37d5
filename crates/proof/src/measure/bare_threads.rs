//! The kernel's calls that a migration cannot do without, on as many threads as a migration has, on
//! memory of their own.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use nodeward_linux::{Linux, mempolicy};
use nodeward_machine::Machine;
use nodeward_model::{CpuId, NodeId};
use nodeward_pager::{BareMoves, Copier, StepTimes};

use super::extras::on_own_thread;
use super::plan::Column;
use crate::measured_region::system;
use crate::{Error, NodeRoute};

/// Memory of each thread: more than caches hold, and a fraction of what a machine has.
const BYTES_MAX: usize = 64 << 20;

/// Threads with memory of their own, which moves to and fro between two nodes.
pub struct BareThreads {
    threads: Vec<BareMoves>,
    /// CPUs of the threads; empty for any.
    cpus: Vec<CpuId>,
    nodes: NodeRoute,
    is_at_destination: bool,
    machine: Linux,
}

/// All memory of all threads moved once.
#[derive(Clone, Copy, Debug)]
pub struct BarePass {
    /// Bytes that moved.
    pub bytes: usize,
    /// From the first start to the last end of a thread.
    pub took: Duration,
    /// The time of each step, of all threads together.
    pub steps: StepTimes,
}

impl BareThreads {
    /// Allocates memory for `threads` threads, which would together move a region of `bytes`.
    ///
    /// # Errors
    /// If UFFDIO_MOVE does not work here, or there is no memory.
    pub fn open(
        threads: u32,
        bytes: usize,
        nodes: NodeRoute,
        cpus: Vec<CpuId>,
    ) -> Result<Self, Error> {
        let each = (bytes / threads.max(1) as usize).min(BYTES_MAX);
        let open = || {
            on_own_thread(|| -> Result<BareMoves, Error> {
                prefer(nodes, nodes.from)?;
                Ok(BareMoves::open(each)?)
            })
        };
        let threads = (0..threads).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
        let machine = Linux::open();
        let mut opened = Self { threads, cpus, nodes, is_at_destination: false, machine };
        // Now the memory and the recycled pages for it are on different nodes, if there are two.
        opened.pass(Column::OneWay, &nodeward_pager::Memcpy)?;
        Ok(opened)
    }

    /// Moves everything once, all threads at the same time: to fresh pages of the other node, or to
    /// the kept ones.
    ///
    /// # Errors
    /// If the kernel refuses a call.
    pub fn pass(&mut self, column: Column, copier: &dyn Copier) -> Result<BarePass, Error> {
        let to = if self.is_at_destination { self.nodes.from } else { self.nodes.to };
        self.is_at_destination = !self.is_at_destination;
        let start = Barrier::new(self.threads.len());
        let (start, cpus, machine, nodes) = (&start, &self.cpus, &self.machine, self.nodes);
        let bytes = self.threads.iter().map(BareMoves::bytes).sum();
        let passes = thread::scope(|scope| {
            let pass = |(number, bare): (usize, &mut BareMoves)| {
                if let Some(cpu) = cpus.get(number % cpus.len().max(1)) {
                    machine.pin_current_thread(*cpu);
                }
                let preferred = prefer(nodes, to);
                start.wait(); // the others wait, too
                preferred?;
                let began = Instant::now();
                let steps = match column {
                    Column::OneWay => bare.one_way()?,
                    Column::RecycledWriter | Column::RecycledAlone => bare.recycled(copier)?,
                };
                Ok((began, Instant::now(), steps))
            };
            let threads = self.threads.iter_mut().enumerate();
            let threads: Vec<_> = threads.map(|one| scope.spawn(move || pass(one))).collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.collect::<Result<Vec<_>, Error>>()
        })?;
        Ok(BarePass::of(bytes, &passes))
    }

    /// Allocates as much fresh memory as each thread has, one after the other. Returns the mean
    /// time for `bytes` bytes.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn populate_ns(&self, bytes: usize) -> Result<f64, Error> {
        let took = self.threads.iter().map(BareMoves::populate).collect::<Result<Vec<_>, _>>()?;
        let all: usize = self.threads.iter().map(BareMoves::bytes).sum();
        Ok(took.iter().sum::<u64>() as f64 * bytes as f64 / all as f64)
    }
}

impl BarePass {
    fn of(bytes: usize, threads: &[(Instant, Instant, StepTimes)]) -> Self {
        let began = threads.iter().map(|thread| thread.0).min();
        let ended = threads.iter().map(|thread| thread.1).max();
        let took = began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended - began);
        let mut steps = StepTimes::default();
        threads.iter().for_each(|thread| steps.add(thread.2));
        Self { bytes, took, steps }
    }

    /// Returns bytes per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// Takes fresh memory of the calling thread from a node, if there are two.
fn prefer(nodes: NodeRoute, node: NodeId) -> Result<(), Error> {
    match nodes.are_distinct() {
        true => mempolicy::prefer_memory(node).map_err(system("preferring a node")),
        false => Ok(()),
    }
}
