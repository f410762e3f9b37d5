//! CPUs and memory that go offline and come back.

mod cpu_hotplug;
mod memory_hotplug;

pub use cpu_hotplug::{OfflineCpus, cpu_outcome};
pub use memory_hotplug::memory_outcome;
