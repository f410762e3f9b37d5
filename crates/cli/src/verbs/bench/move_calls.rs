//! Checks whether the kernel's calls work here with which measurements are compared.

use nodeward_pager::{BareCalls, Error};

/// Returns whether UFFDIO_MOVE works; says why where it does not.
pub fn are_there() -> bool {
    match BareCalls::open() {
        Err(why @ Error::NeedsUserfaultfd { .. }) => {
            say!("nodeward: {why}");
            false
        }
        _ => true,
    }
}
