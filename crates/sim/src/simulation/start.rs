//! The start of a world.

use std::collections::BTreeMap;

use nodeward_policy::sampling::SplitMix64;
use nodeward_scenario::Scenario;

use crate::cpu::{CopyHelpers, Cpu, DmaEngine, OfflineCpus, PendingIpis, SchedulerState};
use crate::events::{EventQueue, SimEvent, TraceHash};
use crate::faults::FaultModel;
use crate::hardware::{EPOCH_NS, MachineLayout, Traffic};
use crate::memory::{ForkRelations, PhysicalMemory};
use crate::programs::start_workloads;
use crate::statistics::{AccessObservers, Counters, Latencies, Recorder, ThreadLog};
use crate::world::{WorkEnds, World};

impl World {
    /// Creates a machine with its programs, at time 0.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let machine = scenario.machine.clone();
        let layout = MachineLayout::of(&machine);
        let memory = PhysicalMemory::new(&machine, &layout);
        let traffic = Traffic::new(&machine, &layout);
        let pending_ipis = PendingIpis::new(layout.cpus.len());
        let copy_helpers = CopyHelpers::new(&machine, &layout);
        let dma = DmaEngine::new(machine.params.dma_channels as usize);
        let sched = SchedulerState::new(&machine, &layout, scenario);
        let cpus = (0..layout.cpus.len()).map(|_| Cpu::default()).collect();
        let mut world = Self {
            counters: Counters::default(),
            latencies: Latencies::default(),
            now_ns: 0,
            events: EventQueue::default(),
            rng: SplitMix64::new(seed),
            cpus,
            tasks: Vec::new(),
            programs: Vec::new(),
            spaces: Vec::new(),
            trace: TraceHash::default(),
            scenario: scenario.clone(),
            machine,
            layout,
            memory,
            traffic,
            seed,
            recorder: Recorder::new(scenario),
            work_ends: WorkEnds::default(),
            access_observers: AccessObservers::default(),
            thread_log: ThreadLog::default(),
            events_max: u64::MAX,
            fault_model: FaultModel::new(scenario, seed),
            numa_balancing: scenario.numa_balancing.then(Box::default),
            pending_ipis,
            copy_helpers,
            dma,
            lazy_faults_due: BTreeMap::new(),
            offline_cpus: OfflineCpus::default(),
            fork_relations: ForkRelations::default(),
            moves: Vec::new(),
            hotplugs: Vec::new(),
            sched,
            barriers: Vec::new(),
            streams: Vec::new(),
            residency_cache: Vec::new(),
            steps: 0,
        };
        world.plan_samples();
        world.events.plan(EPOCH_NS, SimEvent::Traffic);
        world.plan_tick();
        world.plan_balance();
        start_workloads(&mut world);
        world.start_home_balancers();
        world.plan_actions();
        world
    }

    /// Plans the periodic balancing of each node, at different times.
    fn plan_balance(&mut self) {
        let balance = self.machine.params.balance_ns;
        let count = self.machine.nodes.len() as u64;
        for node in (0..count).filter(|&node| !self.layout.cpus_of_node[node as usize].is_empty()) {
            let first = balance + balance * node / count;
            self.events.plan(first, SimEvent::Balance { node: node as u32 });
        }
    }

    /// Plans samples: one at the beginning, and one just before the first action.
    fn plan_samples(&mut self) {
        self.events.plan(0, SimEvent::Sample);
        if let Some(first) = self.scenario.actions.iter().map(|action| action.at_ns).min() {
            self.events.plan(first.saturating_sub(1), SimEvent::Sample);
        }
    }
}
