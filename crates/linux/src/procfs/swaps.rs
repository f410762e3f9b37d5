//! Reads /proc/swaps: whether the machine has swap.

use std::path::Path;

use super::lines;
use crate::kernel_file;

/// Returns true if there is a swap area, or if the file cannot be read.
pub fn has_areas(root: &Path) -> bool {
    kernel_file::read(root.join("proc/swaps")).map_or(true, |bytes| lines(&bytes).count() > 1)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_line_is_a_heading() {
        let root = tempfile::tempdir().unwrap();
        assert!(has_areas(root.path()), "nobody says that there is none");
        fs::create_dir(root.path().join("proc")).unwrap();
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        for (text, expected) in [(heading.to_owned(), false), (format!("{heading}/dev/x\n"), true)]
        {
            fs::write(root.path().join("proc/swaps"), text).unwrap();
            assert_eq!(has_areas(root.path()), expected);
        }
    }
}
