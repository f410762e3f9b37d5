//! The room where unsafe code is allowed: one function per system call that no safe library offers.
//! Slices go in, owned values come out, and nothing is decided here.

mod pages;

pub use pages::{move_pages, query_pages};
