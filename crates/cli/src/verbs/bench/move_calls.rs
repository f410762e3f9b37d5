//! Whether the kernel's calls that measurements stand beside work here.

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
