//! A QEMU plugin that counts accesses by CPU, node of the memory and address space, and on request
//! by frame. It counts them before and after a small model of the nodes' caches, and makes misses
//! take time.
//!
//! Loaded as `-plugin libnodeward_lab_counter.so,counts=FILE`. The file is prepared by the lab
//! (`nodeward_lab_counts::Shape`) and holds all other parameters.

mod address_spaces;
mod cache_model;
mod counter;
mod decode;
mod memory_map;
mod miss_delay;
#[allow(unsafe_code, reason = "the room that speaks to the emulator")]
mod sys;
mod translations;
