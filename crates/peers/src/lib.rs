//! The allocators that the page pool is measured against: mimalloc and jemalloc, side by side in
//! one process, beside the one that the process itself uses.
//!
//! Only benchmarks need this. Both are C and are built from source, with a C compiler and make; so
//! programs for inside the lab and checks for other architectures leave this crate out.

#[allow(unsafe_code, reason = "C functions are the only way to two allocators in one process")]
mod sys;

pub use sys::{ALIGN, Allocator, Block, Jemalloc, Mimalloc};
