//! The shared libraries of a program, and their places in the guest.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

/// Default search directories of the guest's loader.
const LOADER_DIRS: [&str; 4] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib"];
/// Directory for libraries from anywhere else.
const GUEST_LIBRARY_DIR: &str = "/usr/lib/x86_64-linux-gnu";

/// A file of the host and its path in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// The file on the host.
    pub host: PathBuf,
    /// Its absolute path in the guest.
    pub guest: String,
}

/// Returns the libraries and the loader that a program needs; none for a static one or a script.
/// `further` is searched before the host's own directories. A library that is missing is an error.
pub fn shared_libraries(program: &Path, further: Option<&Path>) -> Result<Vec<Library>> {
    parse(&listed_by_ldd(program, further)?)
        .with_context(|| format!("{} cannot run on this host", program.display()))
}

/// Returns what the programs and libraries below `dir` need from outside it. What is missing is
/// left out: a runtime has plug-ins that nobody loads, and the guest's loader names a library that
/// a program does need.
pub fn shared_libraries_below(dir: &Path) -> Result<Vec<Library>> {
    let mut outside = Vec::new();
    for entry in WalkDir::new(dir).follow_links(true) {
        // The caller, who sends each entry, says why one cannot be read.
        let Ok(entry) = entry else { continue };
        if entry.file_type().is_file() && is_elf(entry.path()) {
            let listed = listed_by_ldd(entry.path(), None)?;
            outside.extend(listed.lines().filter_map(|text| line(text.trim()).ok().flatten()));
        }
    }
    outside.retain(|library| !library.host.starts_with(dir));
    Ok(outside)
}

/// Says whether a file is a program or a library in the format of Linux.
fn is_elf(file: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(file).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *b"\x7fELF"
}

/// Returns what ldd(1) prints; nothing for what is not linked dynamically.
fn listed_by_ldd(program: &Path, further: Option<&Path>) -> Result<String> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program).env("LC_ALL", "C");
    if let Some(dir) = further {
        ldd.env("LD_LIBRARY_PATH", dir);
    }
    let output = ldd.output().context("cannot run ldd: install libc-bin")?;
    if !output.status.success() {
        return Ok(String::new()); // "not a dynamic executable"
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn parse(listed: &str) -> Result<Vec<Library>> {
    let lines = listed.lines().map(str::trim).filter(|line| !line.is_empty());
    let libraries: Result<Vec<Option<Library>>> = lines.map(line).collect();
    Ok(libraries?.into_iter().flatten().collect())
}

/// Parses a line: `name => path (address)`, `name => not found`, `path (address)`, `statically
/// linked`, or the kernel's own `linux-vdso.so.1 (address)`.
fn line(line: &str) -> Result<Option<Library>> {
    let (name, found) = line.split_once(" => ").unwrap_or(("", line));
    if found == "not found" {
        bail!("its library {name} is missing: install the package that has it");
    }
    let path = found.split(" (").next().unwrap_or(found);
    if !path.starts_with('/') {
        return Ok(None);
    }
    let guest = if name.is_empty() { path.to_owned() } else { guest_path(name, path) };
    Ok(Some(Library { host: path.into(), guest }))
}

fn guest_path(name: &str, path: &str) -> String {
    let dir = Path::new(path).parent().and_then(Path::to_str).unwrap_or_default();
    if LOADER_DIRS.contains(&dir) {
        return path.to_owned();
    }
    let name = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
    format!("{GUEST_LIBRARY_DIR}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_a_line() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffd)\n\
            \tlibnuma.so.1 => /lib/x86_64-linux-gnu/libnuma.so.1 (0x00007f01)\n\
            \tlibmine.so => /opt/mine/lib/libmine.so (0x00007f02)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f03)\n";
        let guest: Vec<String> =
            parse(listed).unwrap().into_iter().map(|library| library.guest).collect();
        let numa = "/lib/x86_64-linux-gnu/libnuma.so.1";
        let mine = "/usr/lib/x86_64-linux-gnu/libmine.so";
        assert_eq!(guest, [numa, mine, "/lib64/ld-linux-x86-64.so.2"]);
        assert_eq!(parse("\tstatically linked\n").unwrap(), []);
    }

    /// Goal: what a program inside a directory needs is brought with it, a program of the host's
    /// being the directory's only one; a text that may be executed needs nothing.
    #[test]
    fn programs_below_a_directory_bring_their_libraries() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        let program = dir.path().join("bin/ls");
        std::fs::copy("/bin/ls", &program).unwrap();
        std::fs::write(dir.path().join("bin/text"), "#!/bin/sh\n").unwrap();
        let needed = shared_libraries(&program, None).unwrap();
        assert!(!needed.is_empty(), "ls of this host is static");
        assert_eq!(shared_libraries_below(dir.path()).unwrap(), needed);
    }

    #[test]
    fn a_missing_library_is_named() {
        let why = parse("\tlibgone.so.2 => not found\n").unwrap_err().to_string();
        assert!(why.contains("libgone.so.2 is missing"), "{why}");
    }
}
