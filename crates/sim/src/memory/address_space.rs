//! Address spaces: the memory of a process, and what the kernel knows of the process.

use nodeward_model::{Nodemask, Pid};

use super::folio::Folio;
use super::page_byte::PageByte;
use super::region::{GranuleRange, MemoryRegion};
use super::segment_mapping::SegmentMapping;
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};

/// The memory of a process. The fields that each turn needs come first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct AddressSpace {
    /// Its regions, by ascending address.
    pub regions: Vec<MemoryRegion>,
    /// Whether the process has ended.
    pub ended: bool,
    /// Whether its cgroup is frozen.
    pub frozen: bool,
    /// Number of times that CPUs were removed from `cpus`.
    pub tlb_cpus_version: u32,
    /// The pid of the process.
    pub pid: Pid,
    /// Its name.
    pub name: String,
    /// The CPUs that may have translations of it.
    pub tlb_cpus: CpuIndexSet,
    /// Its threads.
    pub tasks: Vec<TaskId>,
    /// Its memory cgroup, by index.
    pub memcg: usize,
    /// Threads that wait for pages in flight.
    pub migration_waiters: Vec<TaskId>,
    /// CPU time of threads that have exited, in nanoseconds.
    pub exited_cpu_time_ns: u64,
    /// Its first thread.
    pub leader: Option<TaskId>,
    /// Work done for its workload: lines, pages, messages or lives.
    pub work_done: u64,
    /// The nodes of its cpuset; `None` for all.
    pub cpuset: Option<Nodemask>,
    /// Threads that stopped because it is frozen.
    pub frozen_tasks: Vec<TaskId>,
    /// The segments that it maps, by ascending address, all above its regions.
    pub segments: Vec<SegmentMapping>,
    /// The processes that map it, if it is a segment.
    pub mappers: Option<Vec<SpaceId>>,
}

impl AddressSpace {
    /// Returns the counts of some granules: pages on each node, lazy pages, pages in flight.
    pub fn count(&self, part: &GranuleRange, nodes: usize) -> Vec<u64> {
        let mut sums = vec![0; nodes + 2];
        self.regions[part.region].add_counts(part.first..part.first + part.granules, &mut sums);
        sums
    }

    /// Returns the same counts of the whole space.
    pub fn count_all(&self, nodes: usize) -> Vec<u64> {
        let mut sums = vec![0; nodes + 2];
        self.regions.iter().for_each(|region| region.add_counts(0..region.granules(), &mut sums));
        sums
    }
}

impl AddressSpace {
    /// Creates the address space of a process without threads, in a memory cgroup.
    pub fn new(pid: Pid, name: String, regions: Vec<MemoryRegion>, memcg: usize) -> Self {
        Self {
            pid,
            name,
            regions,
            tlb_cpus: CpuIndexSet::default(),
            tasks: Vec::new(),
            memcg,
            migration_waiters: Vec::new(),
            exited_cpu_time_ns: 0,
            leader: None,
            work_done: 0,
            cpuset: None,
            frozen_tasks: Vec::new(),
            segments: Vec::new(),
            mappers: None,
            frozen: false,
            ended: false,
            tlb_cpus_version: 0,
        }
    }

    /// Returns whether it is a segment, and no process.
    pub fn is_segment(&self) -> bool {
        self.mappers.is_some()
    }

    /// Returns the number of pages in memory, on all of `nodes` nodes.
    pub fn resident_pages(&self, nodes: usize) -> u64 {
        self.count_all(nodes)[..nodes].iter().sum()
    }

    /// Returns the state of a folio's first page.
    pub fn folio_byte(&self, folio: &Folio) -> PageByte {
        self.region_of(folio).map_or(PageByte::ABSENT, |region| region.page(folio.pages.start))
    }

    /// Returns whether a folio still is one huge page.
    pub fn is_huge_folio(&self, folio: &Folio) -> bool {
        self.region_of(folio).is_some_and(|region| region.is_huge(folio.pages.start))
    }

    /// Returns whether a folio is still whole.
    pub fn is_whole_folio(&self, folio: &Folio) -> bool {
        self.region_of(folio).is_some_and(|region| region.folio(folio.pages.start) == folio.pages)
    }

    /// Sets the state of a folio.
    pub fn set_folio(&mut self, folio: &Folio, byte: PageByte) {
        self.regions[folio.region].set(folio.pages.clone(), byte);
    }

    /// Returns the region of a folio, as long as the region has the folio's pages.
    fn region_of(&self, folio: &Folio) -> Option<&MemoryRegion> {
        self.regions.get(folio.region).filter(|region| folio.pages.end <= region.pages)
    }
}
