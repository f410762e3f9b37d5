//! The allocators that the page pool is compared with: mimalloc and jemalloc, together in one
//! process, beside the process's own allocator.
//!
//! Only benchmarks need this crate. Both allocators are written in C and built from source, with a
//! C compiler and make; so programs for inside the lab, and checks for other architectures, leave
//! it out.

#[allow(unsafe_code, reason = "C functions are the only way to two allocators in one process")]
mod sys;

pub use sys::{ALIGN, AllocatedBlock, Allocator, Jemalloc, Mimalloc};
