//! Threads that copy for movers: their CPUs, and the parts that wait for them.

use std::collections::{BTreeMap, VecDeque};

use nodeward_scenario::{MachineSpec, Params};

use super::op::CopyPart;
use crate::hardware::MachineLayout;
use crate::ids::TaskId;

/// `copier-choice = "first"`.
const FIRST: u64 = 0;

/// `copier-choice = "complexes"`.
const COMPLEXES: u64 = 2;

/// Threads that copy for movers.
#[derive(Debug, Default)]
pub struct CopyHelpers {
    /// The CPUs that copy to each node.
    pub copier_cpus: Vec<Vec<usize>>,
    /// The copy thread of each CPU that has needed one.
    pub threads: BTreeMap<usize, TaskId>,
    /// Parts that wait for a CPU, each with its mover.
    pub queues: BTreeMap<usize, VecDeque<(TaskId, CopyPart)>>,
    /// Number of unfinished parts by mover.
    pub pending_parts: BTreeMap<TaskId, u32>,
    /// Number of parts of its copy that each mover has handed out.
    pub parts_handed_out: BTreeMap<TaskId, usize>,
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
