//! The struct of a simulated machine, and the trait of the programs that change it. They name each
//! other, so they are in one file.

use std::collections::BTreeMap;

use nodeward_policy::sampling::SplitMix64;
use nodeward_scenario::{MachineSpec, Scenario};

use super::barrier::Barrier;
use super::stream_window::StreamWindow;
use crate::cpu::{
    CopyHelpers, Cpu, DmaEngine, NumaBalancing, OfflineCpus, Op, PendingIpis, SchedulerState, Task,
};
use crate::events::{EventQueue, TraceHash};
use crate::faults::FaultModel;
use crate::hardware::{MachineLayout, Traffic};
use crate::ids::TaskId;
use crate::memory::{AddressSpace, CachedResidency, ForkRelations, MemoryManager, PhysicalMemory};
use crate::statistics::{
    AccessObservers, Counters, HotplugRecord, Latencies, MoveRecord, Recorder, ThreadLog,
};

/// The behaviour of a task: it chooses the next operation when the last one is done. All its
/// changes of the world happen at the world's present time.
pub trait TaskProgram: Send {
    /// Returns the next operation.
    fn next(&mut self, world: &mut World, task: TaskId) -> Op;

    /// Populates its memory in no virtual time.
    fn populate(&mut self, _world: &mut World, _task: TaskId) {}
}

/// When work was done, in virtual nanoseconds, in a run that lasts until all is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkEnds {
    /// When the first process ended.
    pub first_ns: Option<u64>,
    /// When the last one did.
    pub last_ns: Option<u64>,
}

/// A simulated machine and all that runs on it.
pub struct World {
    /// Its hardware.
    pub machine: MachineSpec,
    /// Counters so far.
    pub counters: Counters,
    /// Latencies of single operations.
    pub latencies: Latencies,
    pub(crate) layout: MachineLayout,
    pub(crate) now_ns: u64,
    pub(crate) events: EventQueue,
    pub(crate) rng: SplitMix64,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    /// The program of each task. `None` while the program chooses the next operation.
    pub(crate) programs: Vec<Option<Box<dyn TaskProgram>>>,
    pub(crate) spaces: Vec<AddressSpace>,
    pub(crate) memory: PhysicalMemory,
    pub(crate) traffic: Traffic,
    /// Interrupts that CPUs still have to answer.
    pub(crate) pending_ipis: PendingIpis,
    /// Threads that copy for movers.
    pub(crate) copy_helpers: CopyHelpers,
    /// The copy engine.
    pub(crate) dma: DmaEngine,
    /// Number of faults that a task has to pay for before it continues, by task.
    pub(crate) lazy_faults_due: BTreeMap<TaskId, u64>,
    /// CPUs that are offline.
    pub(crate) offline_cpus: OfflineCpus,
    /// Children that were forked, with their parents.
    pub(crate) fork_relations: ForkRelations,
    /// Pages moved by actions of the scenario.
    pub moves: Vec<MoveRecord>,
    /// Parts of the machine that actions took offline or brought back.
    pub hotplugs: Vec<HotplugRecord>,
    pub(crate) sched: SchedulerState,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) streams: Vec<StreamWindow>,
    /// Placement of the memory that tasks go through, by task.
    pub(crate) residency_cache: Vec<CachedResidency>,
    /// The steps of [`World::steps`], without pipes.
    pub(crate) steps: u64,
    pub(crate) trace: TraceHash,
    pub(crate) scenario: Scenario,
    pub(crate) seed: u64,
    pub(crate) recorder: Recorder,
    /// When work was done, of a run that lasts until all is.
    pub(crate) work_ends: WorkEnds,
    /// Sources of accesses that are open.
    pub(crate) access_observers: AccessObservers,
    /// Records of threads that are open.
    pub(crate) thread_log: ThreadLog,
    /// Number of events after which waits for calls end.
    pub(crate) events_max: u64,
    pub(crate) fault_model: FaultModel,
    /// The kernel's NUMA balancing, if it is on.
    pub(crate) numa_balancing: Option<Box<NumaBalancing>>,
}

impl World {
    /// Returns the memory manager, which knows the rules about free pages.
    pub(crate) fn mm(&mut self) -> MemoryManager<'_> {
        MemoryManager {
            machine: &self.machine,
            layout: &self.layout,
            now_ns: self.now_ns,
            memory: &mut self.memory,
            spaces: &mut self.spaces,
            counters: &mut self.counters,
            latencies: &mut self.latencies,
        }
    }
}
