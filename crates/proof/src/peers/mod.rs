//! The allocators that the page pool is compared with: mimalloc and jemalloc, together in one
//! process, beside the process's own allocator.
//!
//! Both are written in C and built from source, with a C compiler and make. So they are a feature
//! of the crate, which programs for guests and checks for other architectures leave out.

#[allow(unsafe_code, reason = "C functions are the only way to two allocators in one process")]
mod sys;

pub use sys::{AllocatedBlock, Allocator, Jemalloc, Mimalloc};
