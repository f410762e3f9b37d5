//! Prints this machine, or the one whose files are below the given directory, as a captured text
//! like the files in `fixtures/sysfs`.

use std::path::PathBuf;

fn main() {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("/"), PathBuf::from);
    print!("{}", nodeward_linux::sysfs::capture(&root));
}
