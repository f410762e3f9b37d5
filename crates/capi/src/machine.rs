//! The machine, and this library.

use std::ffi::{c_char, c_int};

use crate::pointers;
use crate::status::status_of;

/// The version of the library, for example "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn nodeward_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Writes the nodes with memory that this process may use to `nodes`, in ascending order and at
/// most `capacity` of them, and their number to `count`. `nodes` may be NULL if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_nodes(
    nodes: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    status_of(|| {
        let found = nodeward::nodes()?.iter().map(|node| node.0).collect::<Vec<u32>>();
        // SAFETY: C has room for so many.
        unsafe { pointers::write_list(&found, nodes, capacity, count) }
    })
}
