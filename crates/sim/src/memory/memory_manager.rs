//! The memory manager: what the rules about free pages read and change.

use nodeward_scenario::MachineSpec;

use super::address_space::AddressSpace;
use super::physical_memory::PhysicalMemory;
use crate::hardware::MachineLayout;
use crate::statistics::{Counters, Latencies};

/// Free pages and address spaces, with the hardware, the time and the counters that the rules about
/// them need. Each file of this directory adds the rules of its subject.
pub struct MemoryManager<'a> {
    /// The hardware.
    pub machine: &'a MachineSpec,
    /// The hardware by dense indices.
    pub layout: &'a MachineLayout,
    /// The present time, in virtual nanoseconds.
    pub now_ns: u64,
    /// The free pages.
    pub memory: &'a mut PhysicalMemory,
    /// The address spaces.
    pub spaces: &'a mut [AddressSpace],
    /// The counters of the run.
    pub counters: &'a mut Counters,
    /// The latencies of the run.
    pub latencies: &'a mut Latencies,
}
