//! The guest's initial root file system: the first process, a shell with its tools, drivers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache::{LabCache, file_fingerprint, hash_name};
use crate::cpio::{self, EntryContent};
use crate::store::{self, KernelImage};
use crate::{artifacts, kernel_modules, libraries};

/// Programs of the tool packages that go to the guest.
const TOOLS: [&str; 3] = ["numactl", "numastat", "migratepages"];
/// Version of the archive format; changes when archives of older labs no longer fit.
const FORMAT: u32 = 3;
/// The guest's users: programs look up whom they are to run as.
const USERS: &str = "root:x:0:0:root:/:/bin/sh\n";
/// Library directory of the tool packages.
const TOOL_LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Returns the archive for a kernel, created if missing. Its name depends on all of its content.
pub fn path(cache: &LabCache, kernel: &KernelImage) -> Result<PathBuf> {
    let tools = store::tools(cache)?;
    let init = artifacts::init_program()?;
    let parts = [
        file_fingerprint(&init)?,
        file_fingerprint(&kernel.file)?,
        file_fingerprint(&tools.join("bin/busybox"))?,
    ];
    let key = format!("{FORMAT}\n{}", parts.join("\n"));
    let path = cache.dir("initramfs")?.join(hash_name(&key));
    if !path.exists() {
        make(&path, &init, &tools, kernel).context("cannot make the guest's root file system")?;
    }
    Ok(path)
}

fn make(path: &Path, init: &Path, tools: &Path, kernel: &KernelImage) -> Result<()> {
    let mut tree = InitramfsTree::default();
    tree.program("init", init)?;
    add_shell(&mut tree, tools)?;
    for tool in TOOLS {
        add_tool(&mut tree, tools, tool)?;
    }
    add_drivers(&mut tree, kernel)?;
    for dir in ["dev", "proc", "sys", "tmp", "root", "etc", "var"] {
        tree.put(dir, EntryContent::Directory);
    }
    tree.put("etc/passwd", EntryContent::Program(USERS.into()));
    let mut out = tempfile::NamedTempFile::new_in(path.parent().context("no parent")?)?;
    cpio::write(&mut out, &tree.entries())?;
    out.persist(path)?;
    Ok(())
}

fn add_shell(tree: &mut InitramfsTree, tools: &Path) -> Result<()> {
    let busybox = tools.join("bin/busybox");
    let listed = Command::new(&busybox).arg("--list").output().context("cannot run busybox")?;
    for applet in String::from_utf8_lossy(&listed.stdout).lines() {
        tree.put(&format!("bin/{applet}"), EntryContent::Link("busybox".into()));
    }
    tree.program("bin/busybox", &busybox)
}

fn add_tool(tree: &mut InitramfsTree, tools: &Path, name: &str) -> Result<()> {
    let program = tools.join("usr/bin").join(name);
    for library in libraries::shared_libraries(&program, Some(&tools.join(TOOL_LIBRARIES)))? {
        tree.program(library.guest.trim_start_matches('/'), &library.host)?;
    }
    tree.program(&format!("bin/{name}"), &program)
}

/// Adds drivers, numbered because the guest loads them in the order of their names.
fn add_drivers(tree: &mut InitramfsTree, kernel: &KernelImage) -> Result<()> {
    let Some(modules) = &kernel.modules else { return Ok(()) };
    for (number, (name, bytes)) in
        kernel_modules::load_order(modules, &kernel_modules::SERIAL_PORT)?.into_iter().enumerate()
    {
        let path = format!("lib/lab-drivers/{number:02}-{name}.ko");
        tree.put(&path, EntryContent::Program(bytes));
    }
    Ok(())
}

/// Entries by path, which puts directories before their content.
#[derive(Default)]
struct InitramfsTree(BTreeMap<String, EntryContent>);

impl InitramfsTree {
    /// Adds content at a path, with its parent directories.
    fn put(&mut self, path: &str, content: EntryContent) {
        let above = path.match_indices('/').map(|(end, _)| path[..end].to_owned());
        for dir in above {
            self.0.entry(dir).or_insert(EntryContent::Directory);
        }
        self.0.insert(path.to_owned(), content);
    }

    fn program(&mut self, path: &str, file: &Path) -> Result<()> {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        self.put(path, EntryContent::Program(bytes));
        Ok(())
    }

    fn entries(self) -> Vec<(String, EntryContent)> {
        self.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_before_their_content() {
        let mut tree = InitramfsTree::default();
        tree.put("a/b/c", EntryContent::Program(Vec::new()));
        tree.put("a", EntryContent::Directory);
        let entries = tree.entries();
        let paths: Vec<&str> = entries.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a", "a/b", "a/b/c"]);
    }
}
