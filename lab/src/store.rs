//! Downloads kernels and tools into the cache, once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::apt::{Apt, DebianPackage};
use crate::boot_image;
use crate::cache::LabCache;
use crate::kernel::{GuestKernel, latest, numbers};

/// The package that depends on the current kernel of its suite, in the flavour for virtual
/// machines.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
/// The parts of a kernel, which may be one package or several.
const KERNEL_PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];
/// Tools for the guest.
const TOOL_PACKAGES: [&str; 3] = ["busybox-static", "numactl", "libnuma1"];

/// A kernel on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelImage {
    /// The output of `uname -r`; for a user's own image its path.
    pub release: String,
    /// The file to boot.
    pub file: PathBuf,
    /// The tree of its modules, if it came with one.
    pub modules: Option<PathBuf>,
}

/// Returns a kernel that is already on disk.
pub fn fetched_kernel(cache: &LabCache, kernel: &GuestKernel) -> Result<Option<KernelImage>> {
    if let GuestKernel::Image(path) = kernel {
        let file = path.canonicalize();
        let file = file.with_context(|| format!("no kernel at {}", path.display()))?;
        return Ok(Some(KernelImage { release: path.display().to_string(), file, modules: None }));
    }
    let kernels = cache.dir("kernels")?;
    let Ok(release) = fs::read_to_string(kernels.join(format!("{kernel}.release"))) else {
        return Ok(None);
    };
    Ok(image_in_cache(&kernels, release.trim()))
}

fn image_in_cache(kernels: &Path, release: &str) -> Option<KernelImage> {
    let dir = kernels.join(release);
    let file = dir.join("vmlinux");
    let image =
        KernelImage { release: release.to_owned(), file, modules: Some(dir.join("modules")) };
    image.file.exists().then_some(image)
}

/// Returns a kernel, downloaded if missing.
pub fn find_or_fetch_kernel(cache: &LabCache, kernel: &GuestKernel) -> Result<KernelImage> {
    match fetched_kernel(cache, kernel)? {
        Some(image) => Ok(image),
        None => fetch_latest_kernel(cache, kernel),
    }
}

/// Returns the archive's present version of a kernel, downloaded if missing.
pub fn fetch_latest_kernel(cache: &LabCache, kernel: &GuestKernel) -> Result<KernelImage> {
    let Some(prefix) = kernel.prefix() else { return find_or_fetch_kernel(cache, kernel) };
    let _lock = cache.lock("fetch")?;
    let apt = Apt::open(&cache.dir("apt")?)?;
    let versions = apt.versions(KERNEL_PACKAGE)?;
    let version = latest(&versions, prefix)
        .with_context(|| format!("the mirror has no kernel {kernel}; it has {versions:?}"))?;
    let parts = kernel_packages(
        &apt,
        &DebianPackage { name: KERNEL_PACKAGE.into(), version: version.clone() },
    )?;
    let release = parts
        .iter()
        .find_map(|part| part.name.strip_prefix(KERNEL_PARTS[0]))
        .with_context(|| format!("{KERNEL_PACKAGE} {version} names no kernel"))?
        .to_owned();
    let kernels = cache.dir("kernels")?;
    let image = match image_in_cache(&kernels, &release) {
        Some(image) => image,
        None => fetch(&apt, &kernels, &parts, &release)?,
    };
    fs::write(kernels.join(format!("{kernel}.release")), &release)?;
    Ok(image)
}

/// Follows dependencies from the package of a flavour to those that hold files of the kernel.
fn kernel_packages(apt: &Apt, package: &DebianPackage) -> Result<Vec<DebianPackage>> {
    let mut parts: Vec<DebianPackage> = Vec::new();
    let mut open = vec![package.clone()];
    while let Some(package) = open.pop() {
        let found = apt.depends(&package)?.into_iter().filter(is_kernel_package);
        for part in found {
            if !parts.contains(&part) {
                parts.push(part.clone());
                open.push(part);
            }
        }
    }
    Ok(parts)
}

fn is_kernel_package(package: &DebianPackage) -> bool {
    let versions = KERNEL_PARTS.iter().filter_map(|part| package.name.strip_prefix(part));
    versions.into_iter().any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn fetch(apt: &Apt, kernels: &Path, parts: &[DebianPackage], release: &str) -> Result<KernelImage> {
    eprintln!("nodeward-lab: fetching kernel {release}");
    let work = tempfile::tempdir_in(kernels)?;
    let tree = work.path().join("tree");
    for part in parts {
        apt.unpack(part, &tree)?;
    }
    let ready = work.path().join("ready");
    fs::create_dir(&ready)?;
    let vmlinux = ready.join("vmlinux");
    let out = fs::File::options().read(true).write(true).create_new(true).open(&vmlinux)?;
    boot_image::extract_kernel(&boot_image(&tree, release)?, &out)?;
    fs::rename(modules(&tree, release)?, ready.join("modules"))?;
    let dir = kernels.join(release);
    fs::rename(&ready, &dir).with_context(|| format!("cannot fill {}", dir.display()))?;
    image_in_cache(kernels, release).context("the kernel vanished")
}

fn boot_image(tree: &Path, release: &str) -> Result<PathBuf> {
    let places = [format!("boot/vmlinuz-{release}"), format!("usr/lib/modules/{release}/vmlinuz")];
    first_of(tree, &places).context("the packages hold no boot image")
}

fn modules(tree: &Path, release: &str) -> Result<PathBuf> {
    let places = [format!("usr/lib/modules/{release}"), format!("lib/modules/{release}")];
    first_of(tree, &places).context("the packages hold no modules")
}

fn first_of(tree: &Path, places: &[String]) -> Option<PathBuf> {
    places.iter().map(|place| tree.join(place)).find(|path| path.exists())
}

/// Returns the tree of tools for the guest, downloaded if missing.
pub fn tools(cache: &LabCache) -> Result<PathBuf> {
    let tree = packages(cache, &cache.root().join("tools"), &TOOL_PACKAGES)?;
    ensure!(tree.join("bin/busybox").exists(), "busybox-static holds no bin/busybox");
    Ok(tree)
}

/// Returns the tree of a package whose programs are to run in a guest, downloaded if missing.
pub fn package(cache: &LabCache, name: &str) -> Result<PathBuf> {
    packages(cache, &cache.dir("packages")?.join(name), &[name])
}

/// Downloads packages and unpacks them to a directory, unless it exists.
///
/// Of each the oldest version is used: it requires the least of the host's C library, which it runs
/// with.
fn packages(cache: &LabCache, dir: &Path, names: &[&str]) -> Result<PathBuf> {
    if dir.exists() {
        return Ok(dir.to_owned());
    }
    let _lock = cache.lock("fetch")?;
    if dir.exists() {
        return Ok(dir.to_owned());
    }
    eprintln!("nodeward-lab: fetching {}", names.join(", "));
    let apt = Apt::open(&cache.dir("apt")?)?;
    let work = tempfile::tempdir_in(cache.root())?;
    let tree = work.path().join("tree");
    for &name in names {
        let versions: BTreeSet<String> = apt.program_versions(name)?.into_iter().collect();
        let oldest = versions.into_iter().min_by_key(|version| numbers(version));
        let version = oldest.with_context(|| format!("the mirror has no {name}"))?;
        apt.unpack(&DebianPackage { name: name.into(), version }, &tree)?;
    }
    fs::rename(&tree, dir)?;
    Ok(dir.to_owned())
}
