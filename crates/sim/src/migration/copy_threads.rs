//! Copies by threads: by the mover itself, or by urgent threads on CPUs of the destination.
//!
//! A copy runs at the rate that memory, links and its core allow, turn by turn. Each helping CPU
//! has one copy thread and a queue of parts, like the kernel's work queues. The mover hands parts
//! out one by one and waits for the last.

use std::collections::{BTreeMap, VecDeque};

use nodeward_batch::{Batch, CopySlice};
use nodeward_scenario::{MachineSpec, Params};

use super::batch_folios::BatchFolio;
use crate::arithmetic::mul_div;
use crate::cpu::{CpuIndexSet, LineCopy, Op, Task, TaskId};
use crate::hardware::{Flow, MachineLayout};
use crate::world::{TaskProgram, TurnWork, World};

/// The work of one copier, by source node; the last element is copied first.
pub type CopyPart = Vec<LineCopy>;

/// `copier-choice = "first"`.
const FIRST: u64 = 0;
/// `copier-choice = "complexes"`.
const COMPLEXES: u64 = 2;

/// Threads that copy for movers.
#[derive(Debug, Default)]
pub struct CopyHelpers {
    /// The CPUs that copy to each node.
    copier_cpus: Vec<Vec<usize>>,
    /// The copy thread of each CPU that has needed one.
    threads: BTreeMap<usize, TaskId>,
    /// Parts that wait for a CPU, each with its mover.
    queues: BTreeMap<usize, VecDeque<(TaskId, CopyPart)>>,
    /// Number of unfinished parts by mover.
    pending_parts: BTreeMap<TaskId, u32>,
    /// Number of parts of its copy that each mover has handed out.
    parts_handed_out: BTreeMap<TaskId, usize>,
}

impl CopyHelpers {
    /// Creates the helpers of a machine.
    pub fn new(machine: &MachineSpec, layout: &MachineLayout) -> Self {
        let of_node = |node| copier_cpus(layout, node, &machine.params);
        Self { copier_cpus: (0..machine.nodes.len()).map(of_node).collect(), ..Self::default() }
    }
}

/// Returns the CPUs that copy to a node, at most as many as there are copiers.
fn copier_cpus(layout: &MachineLayout, node: usize, params: &Params) -> Vec<usize> {
    let cpus = &layout.cpus_of_node[node];
    let is_first = |cpu: &&usize| layout.cpus[**cpu].siblings.iter().all(|other| other > *cpu);
    let mut places: Vec<usize> = match params.copier_choice {
        FIRST => cpus.clone(),
        _ => cpus.iter().filter(is_first).copied().collect(),
    };
    if params.copier_choice == COMPLEXES {
        // The first core of each complex, then the second of each, and so on.
        let mut seen = BTreeMap::<usize, usize>::new();
        places.sort_by_cached_key(|&cpu| {
            let turn = seen.entry(layout.cpus[cpu].complex).or_default();
            *turn += 1;
            (*turn, cpu)
        });
    }
    places.truncate(usize::try_from(params.copiers).unwrap_or(usize::MAX));
    places
}

/// Returns the granularity at which a copy may be cut, in bytes: lines if a page goes alone, base
/// pages for a few folios, folios for many.
pub fn split_granularity(params: &Params, batch_folios: &[BatchFolio]) -> u64 {
    let size = batch_folios.first().map_or(1, |batch_folio| batch_folio.folio.len());
    let most = u64::from(Batch::PAGES_MAX);
    match size * batch_folios.len() as u64 {
        0 | 1 => params.line_bytes.max(params.page_bytes / most).min(params.page_bytes),
        pages if pages <= most => params.page_bytes,
        _ => params.page_bytes * size,
    }
}

/// Returns the parts of a copy, one for each copier.
pub fn split_copy(
    params: &Params,
    to: usize,
    batch_folios: &[BatchFolio],
    slices: &[CopySlice],
    copiers: usize,
) -> Vec<CopyPart> {
    let cut_bytes = split_granularity(params, batch_folios);
    let pieces = slices.iter().map(|slice| slice.bytes).sum::<u64>() / cut_bytes;
    let count = (copiers as u64).min(pieces).max(1);
    let end_of = |part: u64| pieces * (part + 1) / count * cut_bytes; // as slices were cut
    let (mut part, mut done) = (0, 0);
    let mut parts = vec![BTreeMap::<usize, u64>::new(); count as usize];
    for slice in slices {
        while done >= end_of(part) && part + 1 < count {
            part += 1;
        }
        let mut at = slice.offset;
        while at < slice.offset + slice.bytes {
            let folio_bytes = batch_folios[0].folio.len() * params.page_bytes;
            let batch_folio = &batch_folios[(at / folio_bytes) as usize];
            let end = ((at / folio_bytes + 1) * folio_bytes).min(slice.offset + slice.bytes);
            *parts[part as usize].entry(batch_folio.from).or_default() += end - at;
            at = end;
        }
        done += slice.bytes;
    }
    let lines = |bytes: u64| bytes.div_ceil(params.line_bytes.max(1));
    let of_part = |part: BTreeMap<usize, u64>| {
        part.into_iter().map(|(from, bytes)| LineCopy { from, to, lines: lines(bytes) }).collect()
    };
    parts.into_iter().map(of_part).collect()
}

impl World {
    /// Returns the number of parts that a copy to a node is cut into.
    pub(crate) fn copier_count(&self, to: usize) -> usize {
        match self.machine.params.dma_channels {
            0 => self.movers.helpers.copier_cpus[to].len().max(1),
            channels => channels as usize,
        }
    }

    /// Returns the number of parts that a mover waits for.
    pub(crate) fn pending_parts(&self, mover: TaskId) -> u32 {
        self.movers.helpers.pending_parts.get(&mover).copied().unwrap_or(0)
    }

    /// Adds one part for a mover to wait for.
    pub(crate) fn add_pending_part(&mut self, mover: TaskId) {
        *self.movers.helpers.pending_parts.entry(mover).or_default() += 1;
    }

    /// Completes one part; the mover continues after the last.
    pub(crate) fn finish_part(&mut self, mover: TaskId) {
        let pending = self.movers.helpers.pending_parts.entry(mover).or_default();
        *pending = pending.saturating_sub(1);
        if *pending == 0 {
            self.movers.helpers.pending_parts.remove(&mover);
            self.movers.helpers.parts_handed_out.remove(&mover);
            self.wake(mover);
        }
    }

    /// Hands a part to the next of the CPUs that copy to a node.
    pub(crate) fn queue_for_helper(&mut self, mover: TaskId, to: usize, part: CopyPart) {
        self.add_pending_part(mover);
        let helpers = &mut self.movers.helpers;
        let handed = helpers.parts_handed_out.entry(mover).or_default();
        let places = &helpers.copier_cpus[to];
        let cpu = places[*handed % places.len()];
        *handed += 1;
        helpers.queues.entry(cpu).or_default().push_back((mover, part));
        match helpers.threads.get(&cpu) {
            Some(&thread) => self.wake(thread),
            None => {
                let helper = CopyHelper { cpu, part: Vec::new(), mover: None };
                let thread = self.start_urgent(cpu, Box::new(helper));
                self.movers.helpers.threads.insert(cpu, thread);
            }
        }
    }

    fn start_urgent(&mut self, cpu: usize, program: Box<dyn TaskProgram>) -> TaskId {
        let mut task = Task::new(CpuIndexSet::of([cpu]));
        task.urgent = true;
        self.start_task(task, program)
    }

    /// Returns the time to copy a line now, in picoseconds. Reading and writing overlap, and
    /// neither may have more lines in flight than fit.
    pub(crate) fn copy_line_ps(&self, cpu: usize, copying: &LineCopy) -> u64 {
        let (place, params) = (&self.layout.cpus[cpu], &self.machine.params);
        let latency = |node| self.traffic.latency_ps(place.complex, place.node, node);
        let miss_ps = latency(copying.from).max(latency(copying.to));
        let wait_ps = mul_div(miss_ps, 1000, params.copy_parallel_milli);
        let speed = self.speed_milli(cpu);
        let own_ps = u128::from(params.line_bytes) * 1_000_000_000_000_000;
        let own_ps = own_ps / u128::from(params.copy_bytes_per_s.max(1)) / u128::from(speed);
        u64::try_from(own_ps).unwrap_or(u64::MAX).max(wait_ps).max(1)
    }

    /// Begins to copy at the present rate.
    pub(crate) fn begin_copy(&mut self, cpu: usize, copying: LineCopy, most_ns: u64) {
        let line_ps = self.copy_line_ps(cpu, &copying);
        let place = &self.layout.cpus[cpu];
        let (complex, from) = (place.complex, place.node);
        let rate = self.machine.params.line_bytes.saturating_mul(1_000_000) / line_ps;
        let written = mul_div(rate, self.machine.params.copy_writes_milli, 1000);
        for (to, rate) in [(copying.from, rate), (copying.to, written)] {
            self.begin_flow(cpu, Flow { complex, from, to, rate });
        }
        let all = (u128::from(copying.lines) * u128::from(line_ps)).div_ceil(1000);
        let ns = u64::try_from(all).unwrap_or(u64::MAX).min(most_ns);
        self.start_turn(cpu, TurnWork::Copy { line_ps }, ns);
    }
}

/// Program that copies the parts in the queue of its CPU.
struct CopyHelper {
    cpu: usize,
    part: CopyPart,
    mover: Option<TaskId>,
}

impl TaskProgram for CopyHelper {
    fn next(&mut self, world: &mut World, _task: TaskId) -> Op {
        loop {
            if let Some(copying) = self.part.pop() {
                return Op::Copy(copying);
            }
            if let Some(mover) = self.mover.take() {
                world.finish_part(mover);
            }
            let queue = world.movers.helpers.queues.entry(self.cpu).or_default();
            let Some((mover, part)) = queue.pop_front() else { return Op::Wait };
            (self.mover, self.part) = (Some(mover), part);
        }
    }
}
