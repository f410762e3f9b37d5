//! Prints this machine (or the tree below the directory given) as a captured text, as the files in
//! `fixtures/sysfs` are.

use std::path::PathBuf;

fn main() {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("/"), PathBuf::from);
    print!("{}", nodeward_linux::sysfs::capture(&root));
}
