//! The compiled objects of the programs that run inside the kernel. They are committed, so that a
//! build needs no clang; a test fails when one differs from its source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{process, workspace};

/// Another version writes other bytes. Debian has this one (packages clang-19, llvm-19).
const CLANG: &str = "clang-19";
const STRIP: &str = "llvm-strip-19";

/// Compiles each program of crates/bpf.
pub fn run() -> Result<()> {
    let objects = directory().join("objects");
    names()?.iter().try_for_each(|name| compile(name, &objects))
}

fn directory() -> PathBuf {
    workspace::root().join("crates/bpf")
}

/// Returns the names of the programs: NAME of programs/NAME.bpf.c.
fn names() -> Result<Vec<String>> {
    let programs = directory().join("programs");
    let entries = fs::read_dir(&programs).with_context(|| format!("{}", programs.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let file = entry?.file_name();
        names.extend(file.to_str().and_then(|f| f.strip_suffix(".bpf.c")).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Compiles one program. No path of this machine gets into the object; the types of the program
/// stay, the lines for debuggers do not.
fn compile(name: &str, into: &Path) -> Result<()> {
    let object = into.join(format!("{name}.o"));
    let mut clang = Command::new(CLANG);
    clang.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"]);
    clang.args(["-ffile-compilation-dir=.", "-c"]).arg(format!("programs/{name}.bpf.c"));
    process::run(clang.arg("-o").arg(&object).current_dir(directory()))?;
    process::run(Command::new(STRIP).arg("-g").arg(&object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_extent::CheckExtent;

    /// Goal: what runs in the kernel is what can be read in its source.
    #[test]
    fn the_committed_objects_are_those_of_the_sources() {
        if let Some(missing) = [CLANG, STRIP].iter().find(|name| process::find(name).is_none()) {
            let must = CheckExtent::from_environment() == CheckExtent::All;
            assert!(!must, "{missing} is not here; install the packages clang-19 and llvm-19");
            eprintln!("skipped: {missing} is not installed (packages clang-19, llvm-19)");
            return;
        }
        let fresh = tempfile::tempdir().unwrap();
        for name in names().unwrap() {
            compile(&name, fresh.path()).unwrap();
            let file = format!("{name}.o");
            let committed = fs::read(directory().join("objects").join(&file)).unwrap_or_default();
            let compiled = fs::read(fresh.path().join(&file)).unwrap();
            assert!(committed == compiled, "{file} is not of its source; run `make bpf`");
        }
    }
}
