//! The shared libraries of a program, and their places in the guest.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

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
/// `further` is searched before the host's own directories.
pub fn shared_libraries(program: &Path, further: Option<&Path>) -> Result<Vec<Library>> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program).env("LC_ALL", "C");
    if let Some(dir) = further {
        ldd.env("LD_LIBRARY_PATH", dir);
    }
    let output = ldd.output().context("cannot run ldd: install libc-bin")?;
    if !output.status.success() {
        return Ok(Vec::new()); // "not a dynamic executable"
    }
    parse(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("{} cannot run on this host", program.display()))
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

    #[test]
    fn a_missing_library_is_named() {
        let why = parse("\tlibgone.so.2 => not found\n").unwrap_err().to_string();
        assert!(why.contains("libgone.so.2 is missing"), "{why}");
    }
}
