//! CPUs and memory that go offline and come back.

mod cpu_hotplug;
mod hotplug_actions;
mod hotplug_records;
mod memory_hotplug;
