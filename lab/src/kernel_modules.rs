//! Selects the kernel modules that a guest loads, and their order.
//!
//! A kernel package has no dependency table before it is installed, so the modules themselves are
//! read: each names its dependencies in its `depends=` record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Modules of the serial port, if they are not built in: without it a guest cannot talk to the
/// host.
pub const SERIAL_PORT: [&str; 2] = ["virtio_pci", "virtio_console"];

/// Returns modules and their dependencies in loading order: name and uncompressed content. A module
/// that the tree lacks is assumed to be built in; if it is not, the guest fails to load it.
pub fn load_order(tree: &Path, wanted: &[&str]) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = BTreeMap::new();
    list(tree, &mut files).with_context(|| format!("cannot list {}", tree.display()))?;
    let mut order = Vec::new();
    for name in wanted {
        add(name, &files, &mut order)?;
    }
    Ok(order)
}

fn add(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    order: &mut Vec<(String, Vec<u8>)>,
) -> Result<()> {
    let Some(path) = files.get(name) else { return Ok(()) };
    if order.iter().any(|(done, _)| done == name) {
        return Ok(());
    }
    let content = content(path)?;
    for needed in depends(&content) {
        add(&needed, files, order)?;
    }
    order.push((name.to_owned(), content));
    Ok(())
}

fn list(dir: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            list(&path, files)?;
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// Returns the module name of a file: `virtio-rng.ko.xz` is `virtio_rng`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, rest) = file.split_once(".ko")?;
    matches!(rest, "" | ".xz" | ".zst" | ".gz").then(|| name.replace('-', "_"))
}

fn content(path: &Path) -> Result<Vec<u8>> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let tool = match extension {
        "xz" => "xz",
        "zst" => "zstd",
        "gz" => "gzip",
        "ko" => return fs::read(path).with_context(|| format!("cannot read {}", path.display())),
        other => bail!("{}: unknown compression '{other}'", path.display()),
    };
    let output = Command::new(tool).arg("-dc").arg(path).output();
    let output = output.with_context(|| format!("cannot run {tool}: install it"))?;
    ensure!(output.status.success(), "{tool} cannot unpack {}", path.display());
    Ok(output.stdout)
}

/// Returns the names in the `depends=a,b` record of a module.
fn depends(module: &[u8]) -> Vec<String> {
    const RECORD: &[u8] = b"\0depends=";
    let Some(start) = module.windows(RECORD.len()).position(|window| window == RECORD) else {
        return Vec::new();
    };
    let rest = &module[start + RECORD.len()..];
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    let names = String::from_utf8_lossy(&rest[..end]).replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, record: &str| {
            fs::write(dir.path().join(name), format!("ELF\0depends={record}\0more")).unwrap();
        };
        put("virtio.ko", "");
        put("virtio-ring.ko", "virtio");
        put("virtio_pci.ko", "virtio,virtio-ring");
        put("virtio_console.ko", "virtio_ring,virtio");
        put("unrelated.ko", "virtio_pci");
        let order = load_order(dir.path(), &SERIAL_PORT).unwrap();
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "virtio_pci", "virtio_console"]);
    }

    #[test]
    fn a_kernel_with_all_built_in_needs_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load_order(dir.path(), &SERIAL_PORT).unwrap(), []);
    }

    #[test]
    fn names_and_records() {
        assert_eq!(module_name(Path::new("/x/a-b.ko.xz")).as_deref(), Some("a_b"));
        assert_eq!(module_name(Path::new("/x/a.koala")), None);
        assert_eq!(depends(b"no record"), Vec::<String>::new());
        assert_eq!(depends(b"\0depends=\0"), Vec::<String>::new());
    }
}
