//! Sources of accesses of a simulated machine.

use std::sync::Arc;

use nodeward_machine::{
    AccessBatch, AccessSampling, AccessSource, AccessSourceKind, AccessSourceStatus, Error, Result,
};
use nodeward_model::{Access, AccessKind, AccessSample, Accessor, Pid};

use super::cleared_processes::ClearedProcesses;
use super::lockstep::{SharedWorld, WaitUntil};
use crate::memory::PageAccesses;
use crate::statistics::CpuTimeKind;
use crate::world::World;

/// CPU time of the source for a sample whose instruction is to be decoded: 5 to 10 us natively.
const DECODING_NS: u64 = 10_000;
/// The same for one that tells its address; assumed.
const READING_NS: u64 = 1_000;

/// An open source.
pub struct SimAccessSource {
    shared: Arc<SharedWorld>,
    kind: AccessSourceKind,
    number: u64,
    cleared: ClearedProcesses,
    /// The CPU time of clearing that is not yet paid, in nanoseconds.
    clear_ns: u64,
}

/// Returns the sources that simulated machines have, the best first.
pub fn statuses(world: &World) -> Vec<AccessSourceStatus> {
    let obstacle = |is_there: bool, why: &str| (!is_there).then(|| why.to_owned());
    vec![
        AccessSourceStatus {
            kind: AccessSourceKind::Perf,
            obstacle: obstacle(
                world.machine.params.counter_entries > 0,
                "no node counts accesses; set machine.counter-entries",
            ),
            blind_to: "threads, and reads from writes; pages that find no counter",
            price: "nothing",
        },
        AccessSourceStatus {
            kind: AccessSourceKind::Registers,
            obstacle: None,
            blind_to: "how often memory is used: slow accesses are seen more often",
            price: "an interrupt a sample in the program, and decoding it here",
        },
        AccessSourceStatus {
            kind: AccessSourceKind::SoftDirty,
            obstacle: None,
            blind_to: "reads, and memory that processes share",
            price: "a write fault for each page and round",
        },
        AccessSourceStatus {
            kind: AccessSourceKind::Faults,
            obstacle: obstacle(
                world.numa_balancing.is_some(),
                "the kernel balances no memory; set numa-balancing = true",
            ),
            blind_to: "how often memory is used: each page is seen once a scan",
            price: "nothing beside the faults that the kernel makes anyway",
        },
    ]
}

/// Reads and clears the access counters of all nodes.
pub fn read_counters(world: &mut World) -> Vec<(Pid, Access)> {
    let access = |seen: PageAccesses| {
        let accessor = Accessor::Node(seen.from);
        (seen.pid, Access { address: seen.address, accessor, count: seen.lines })
    };
    let nodes = 0..world.machine.nodes.len();
    nodes.flat_map(|node| world.take_accesses(node)).map(access).collect()
}

impl SimAccessSource {
    /// Opens a source.
    ///
    /// # Errors
    /// `Unsupported` if this machine does not have it.
    pub fn open(shared: &Arc<SharedWorld>, kind: AccessSourceKind) -> Result<Self> {
        let world = &mut shared.lock().world;
        let status = statuses(world).into_iter().find(|status| status.kind == kind);
        let missing = || Some(format!("simulated machines have no source '{kind}'"));
        if let Some(reason) = status.map_or_else(missing, |status| status.obstacle) {
            return Err(Error::Unsupported { action: "observing accesses", reason });
        }
        let number = world.access_observers.open(kind, world.seed);
        let cleared = ClearedProcesses::default();
        Ok(Self { shared: Arc::clone(shared), kind, number, cleared, clear_ns: 0 })
    }

    /// Takes the counts of the observed processes.
    fn take_counts(&self, world: &mut World) -> Vec<AccessSample> {
        let counts = read_counters(world).into_iter();
        let counts = counts.filter(|(pid, _)| world.access_observers.is_wanted(self.number, *pid));
        let sample =
            |(pid, access)| AccessSample { pid, tid: None, kind: AccessKind::Unknown, access };
        counts.map(sample).collect()
    }
}

impl AccessSource for SimAccessSource {
    fn kind(&self) -> AccessSourceKind {
        self.kind
    }

    fn observe(&mut self, sampling: &AccessSampling) -> Result<()> {
        let world = &mut self.shared.lock().world;
        let is_new = world.access_observers.observe(self.number, sampling, world.now_ns);
        if is_new && self.kind == AccessSourceKind::Perf {
            drop(read_counters(world)); // those of the time before
        }
        if self.kind == AccessSourceKind::SoftDirty {
            self.clear_ns += self.cleared.observe(world, &sampling.pids)?;
        }
        Ok(())
    }

    /// Takes the CPU time that the samples cost.
    fn take(&mut self) -> Result<AccessBatch> {
        let mut lockstep = self.shared.lock();
        let mut batch = lockstep.world.access_observers.take(self.number);
        batch.cpu_ns = match self.kind {
            AccessSourceKind::Perf => {
                batch.samples = self.take_counts(&mut lockstep.world);
                0
            }
            AccessSourceKind::Registers => batch.samples.len() as u64 * DECODING_NS,
            AccessSourceKind::SoftDirty => {
                self.clear_ns += self.cleared.clear(&mut lockstep.world);
                let reading_ns = batch.samples.len() as u64 * READING_NS;
                std::mem::take(&mut self.clear_ns) + reading_ns
            }
            _ => batch.samples.len() as u64 * READING_NS,
        };
        if batch.cpu_ns > 0 {
            let cpu = lockstep.current_or_idlest_cpu();
            let task = lockstep.world.start_work(cpu, CpuTimeKind::Kernel, batch.cpu_ns);
            lockstep.own_cpu_time_ns += batch.cpu_ns;
            drop(self.shared.wait(lockstep, WaitUntil::TaskEnd(task)));
        }
        Ok(batch)
    }
}

impl Drop for SimAccessSource {
    fn drop(&mut self) {
        self.shared.lock().world.access_observers.close(self.number);
    }
}
