//! A process of a simulated machine, as a mover of its memory sees it.

use std::sync::{Arc, MutexGuard};

use nodeward_machine::{
    CallEnd, EntryStatus, Error, Liveness, MovePagesCall, MovePagesOutcome, Process, Result,
};
use nodeward_model::{
    AffinityOutcome, Cpumask, Mapping, MappingKind, MappingOrigin, MemoryPolicies, Name,
    NumaActivity, Page, PageLocation, Permissions, Pid, ProcessIdentity, ProcessTraits, Range,
    SegmentId, SegmentPart,
};

use super::lockstep::{LockstepWorld, SharedWorld, WaitUntil};
use super::move_call::ProcessMemory;
use super::process_watch::kernel_comm;
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};
use crate::memory::MemoryRegion;

/// Interval of checks whether a thread has left the kernel, in virtual nanoseconds.
const KERNEL_EXIT_POLL_NS: u64 = 50_000;
/// The minor number of the device of segments, as that of the kernel's own tmpfs.
const SEGMENT_MINOR: u32 = 1;

/// What programs may do with all their memory.
const READ_WRITE: Permissions = Permissions { read: true, write: true, execute: false };

/// A handle on a process.
pub struct SimProcess {
    pub shared: Arc<SharedWorld>,
    pub pid: Pid,
    pub memory: ProcessMemory,
}

impl SimProcess {
    fn lock_running(&self) -> Result<MutexGuard<'_, LockstepWorld>> {
        let lockstep = self.shared.lock();
        match lockstep.world.spaces[self.memory.space].ended {
            true => Err(Error::Gone(self.pid)),
            false => Ok(lockstep),
        }
    }

    /// Returns what an observer sees of a page.
    fn observed_page(&self, lockstep: &mut LockstepWorld, address: u64) -> Page {
        let page = self.memory.page(&lockstep.world, address);
        let world = &mut lockstep.world;
        let (faults, counters) = (&mut world.fault_model, &mut world.counters);
        faults.observed_page(world.now_ns, counters, (self.memory.space, address), page)
    }

    fn for_each_page(&self, range: Range, mut tell: impl FnMut(Page)) -> Result<()> {
        let mut lockstep = self.lock_running()?;
        let addresses = (range.start..range.end).step_by(self.memory.page_bytes as usize);
        addresses.for_each(|address| tell(self.observed_page(&mut lockstep, address)));
        Ok(())
    }
}

impl Process for SimProcess {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn identity(&self) -> Result<ProcessIdentity> {
        let lockstep = self.lock_running()?;
        Ok(ProcessIdentity {
            pid: self.pid,
            name: kernel_comm(&lockstep.world.spaces[self.memory.space]),
            boot_id: format!("simulated {}", lockstep.world.scenario().name),
            started_ticks: self.memory.space as u64,
            auxv_checksum: 0,
        })
    }

    fn liveness(&self) -> Liveness {
        if self.lock_running().is_ok() { Liveness::Running } else { Liveness::Exited }
    }

    fn mappings(&self) -> Result<Vec<Mapping>> {
        let lockstep = self.lock_running()?;
        let world = &lockstep.world;
        let mapping = |(start, space, region): (u64, SpaceId, &MemoryRegion)| {
            let is_segment = world.spaces[space].is_segment();
            Mapping {
                range: region.address_range(start),
                kind: if region.shared { MappingKind::Shared } else { MappingKind::Anonymous },
                shared: region.shared,
                huge_page_bytes: None,
                path: match is_segment {
                    true => world.spaces[space].name.as_str().into(),
                    false => Name::default(),
                },
                segment: is_segment.then_some(SegmentPart {
                    id: SegmentId { major: 0, minor: SEGMENT_MINOR, inode: space as u64 + 1 },
                    offset: 0,
                    writable: true,
                }),
                origin: MappingOrigin { offset: 0, permissions: READ_WRITE },
            }
        };
        Ok(world.mapped_regions(self.memory.space).map(mapping).collect())
    }

    /// All processes run as root, in the root cgroup. A thread of a workload in pools is named
    /// after its pool, any other after its process.
    fn traits(&self) -> Result<ProcessTraits> {
        let lockstep = self.lock_running()?;
        let world = &lockstep.world;
        let named = |&task: &TaskId| (world.tid(task), world.thread_name(task));
        let mut threads: Vec<_> = world.spaces[self.memory.space].tasks.iter().map(named).collect();
        threads.sort_unstable();
        Ok(ProcessTraits { user: Some(0), cgroup: Some("/".into()), executable: None, threads })
    }

    fn resident_bytes(&self) -> Result<u64> {
        let lockstep = self.lock_running()?;
        let nodes = lockstep.world.machine.nodes.len();
        let resident = |(_, _, region): (u64, SpaceId, &MemoryRegion)| {
            let mut sums = vec![0; nodes + 2];
            region.add_counts(0..region.granules(), &mut sums);
            sums[..nodes].iter().sum::<u64>()
        };
        let pages: u64 = lockstep.world.mapped_regions(self.memory.space).map(resident).sum();
        Ok(pages * self.memory.page_bytes)
    }

    /// Returns the granules that have pages.
    fn populated(&self, range: Range) -> Result<Vec<Range>> {
        let lockstep = self.lock_running()?;
        let nodes = lockstep.world.machine.nodes.len();
        let mut found: Vec<Range> = Vec::new();
        for (first, _, region) in lockstep.world.mapped_regions(self.memory.space) {
            for granule in 0..region.granules() {
                let mut sums = vec![0; nodes + 2];
                region.add_counts(granule..granule + 1, &mut sums);
                let addresses = region.address_range_of(first, granule..granule + 1);
                let part = addresses.intersection(range);
                let Some(part) = part.filter(|_| sums.iter().any(|&sum| sum > 0)) else { continue };
                match found.last_mut().filter(|last| last.end >= part.start) {
                    Some(last) => last.end = last.end.max(part.end),
                    None => found.push(part),
                }
            }
        }
        Ok(found)
    }

    fn pages(&self, _mapping: &Mapping, range: Range, into: &mut Vec<Page>) -> Result<()> {
        self.for_each_page(range, |page| into.push(page))
    }

    fn locations(&self, range: Range, into: &mut Vec<PageLocation>) -> Result<()> {
        self.for_each_page(range, |page| into.push(page.location))
    }

    fn frames(&self, _range: Range, _into: &mut Vec<Option<u64>>) -> Result<()> {
        Err(Error::Denied {
            action: "reading frame numbers".to_owned(),
            remedy: "a simulated machine has none; name pages by their virtual addresses"
                .to_owned(),
        })
    }

    fn locate(&self, addresses: &[u64]) -> Result<Vec<PageLocation>> {
        let mut lockstep = self.lock_running()?;
        Ok(addresses
            .iter()
            .map(|&address| self.observed_page(&mut lockstep, address).location)
            .collect())
    }

    fn move_pages(&self, batch: &MovePagesCall) -> Result<MovePagesOutcome> {
        let mut lockstep = self.lock_running()?;
        let cpu = lockstep.current_or_idlest_cpu();
        let begun = lockstep.world.start_move_call(self.memory, batch, cpu);
        let mut lockstep = self.shared.wait(lockstep, WaitUntil::TaskEnd(begun.task));
        lockstep.own_cpu_time_ns += lockstep.world.tasks[begun.task as usize].cpu_time_ns;
        let lost = || MovePagesOutcome {
            end: CallEnd::Gone,
            status: vec![EntryStatus::Unwritten; batch.len()],
        };
        Ok(begun.outcome().unwrap_or_else(lost))
    }

    /// A memory policy applies to all of the process's memory.
    fn memory_policies(&self) -> Result<MemoryPolicies> {
        let lockstep = self.lock_running()?;
        let regions = &lockstep.world.spaces[self.memory.space].regions;
        let is_told = |region: &MemoryRegion| region.placement.is_memory_policy();
        Ok(MemoryPolicies {
            has_task_policy: regions.iter().any(is_told),
            policy_ranges: Vec::new(),
        })
    }

    fn nudge(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        loop {
            let mut lockstep = self.lock_running()?;
            let now_ns = lockstep.world.now_ns;
            let Some(task) = lockstep.world.task_of_tid(self.memory.space, tid) else {
                return Ok(AffinityOutcome::Gone);
            };
            let cpus = lockstep.world.cpu_indices(cpus);
            let placed = lockstep.world.nudge(task, &cpus);
            if !lockstep.world.is_nudged(task) {
                return Ok(placed);
            }
            let lockstep =
                self.shared.wait(lockstep, WaitUntil::Time(now_ns + KERNEL_EXIT_POLL_NS));
            if lockstep.world.now_ns == now_ns {
                // No caller waits any more; it completes by itself.
                return Ok(AffinityOutcome::Done);
            }
        }
    }

    fn pin(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        let mut lockstep = self.lock_running()?;
        let (world, space) = (&mut lockstep.world, self.memory.space);
        let Some(task) = world.task_of_tid(space, tid) else { return Ok(AffinityOutcome::Gone) };
        let wanted = world.cpu_indices(cpus);
        let node = |cpu: usize| world.layout.node_of(cpu);
        let may_run =
            |&cpu: &usize| world.is_cpu_online(cpu) && world.cpuset_allows(space, node(cpu));
        let both = CpuIndexSet::of(wanted.iter().filter(may_run));
        if both.is_empty() {
            return Ok(AffinityOutcome::NotAllowed);
        }
        world.set_cpus_allowed(task, both);
        world.offline_cpus.forget_requested(task);
        Ok(AffinityOutcome::Done)
    }

    /// The balancing reports nothing but zeros where it is off, as the kernel's does.
    fn numa_activity(&self, tid: u32) -> Result<Option<NumaActivity>> {
        let lockstep = self.lock_running()?;
        let world = &lockstep.world;
        let task = world.task_of_tid(self.memory.space, tid).ok_or(Error::Gone(self.pid))?;
        let faults = world.numa_balancing.as_ref().and_then(|numa| numa.faults(task));
        Ok(Some(faults.map_or_else(NumaActivity::default, |faults| NumaActivity {
            migrated_pages: faults.migrated,
            preferred_node: faults.preferred.map(|node| world.layout.node_ids[node]),
        })))
    }
}
