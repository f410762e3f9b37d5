//! Reads the name of the processor from /proc/cpuinfo.

use std::path::Path;

use bstr::ByteSlice as _;
use nodeward_model::Name;

use super::lines;
use crate::kernel_file;

/// Returns the name of the first processor; `None` if the kernel tells none, as on most Arm
/// machines.
pub fn processor(root: &Path) -> Option<Name> {
    let bytes = kernel_file::read(root.join("proc/cpuinfo")).ok()?;
    let named = lines(&bytes).find_map(|line| line.strip_prefix(b"model name"))?;
    Some(named.trim_start_with(|c| matches!(c, ' ' | '\t' | ':')).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the name is what is behind the colon, also one with a colon of its own; without such a
    /// line there is none.
    #[test]
    fn the_first_name() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let file = root.path().join("proc/cpuinfo");
        std::fs::write(&file, "processor\t: 0\nmodel name\t: X: 9000\nmodel name\t: Y\n").unwrap();
        assert_eq!(processor(root.path()), Some("X: 9000".into()));
        std::fs::write(&file, "processor\t: 0\nBogoMIPS\t: 50.00\n").unwrap();
        assert_eq!(processor(root.path()), None);
    }
}
