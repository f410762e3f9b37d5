//! The page lists of this kernel: what is in them, how long they may be, and who decides that.

use std::path::Path;

use nodeward_machine::{Error, Result};
use nodeward_model::ZoneLists;

use crate::kernel_file;
use crate::procfs::{page_lists, parse_trimmed};
use crate::sysctl::Sysctl;

/// The sysctl that sets the length of all lists. Linux 5.14 and newer have it; the setting that
/// older kernels have has another meaning.
pub const HIGH_FRACTION: Sysctl = Sysctl {
    name: "vm.percpu_pagelist_high_fraction",
    action: "setting the length of page lists",
    missing: "this kernel has no vm.percpu_pagelist_high_fraction (Linux 5.14 and newer have it)",
};

/// From this version on the kernel tunes its page lists.
const TUNES_SINCE: (u32, u32) = (6, 7);
/// From this version on lists have blocks of several pages.
const LISTS_OF_BLOCKS_SINCE: (u32, u32) = (5, 13);
/// PAGE_ALLOC_COSTLY_ORDER of the kernel.
const LARGEST_LIST_ORDER: u32 = 3;

/// Whether the kernel tunes the length of its page lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfTuning {
    /// It has no tuner (before Linux 6.7).
    Absent,
    /// It tunes them between two bounds.
    Active,
    /// It would, but [`HIGH_FRACTION`] is set, which makes the bounds equal.
    Fixed,
}

impl SelfTuning {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Active => "active",
            Self::Fixed => "fixed",
        }
    }
}

/// What the kernel tells about its page lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageListState {
    /// The zones that have lists.
    pub zones: Vec<ZoneLists>,
    /// The value of [`HIGH_FRACTION`]: all lists of a zone together hold this part of it at most.
    /// 0 leaves the length to the kernel; `None` if the kernel has no such sysctl.
    pub high_fraction: Option<u32>,
    /// Whether it tunes them.
    pub self_tuning: SelfTuning,
}

/// Returns which blocks of pages go through lists: the largest order, and that of huge pages.
/// Before Linux 5.13 single pages alone do.
///
/// # Errors
/// If the version of the kernel cannot be read.
pub fn list_orders(root: &Path, page_bytes: u64) -> Result<(u32, Option<u32>)> {
    if version(root)? < LISTS_OF_BLOCKS_SINCE {
        return Ok((0, None));
    }
    let text = kernel_file::read(root.join("sys/kernel/mm/transparent_hugepage/hpage_pmd_size"));
    let bytes = text.ok().and_then(|text| parse_trimmed::<u64>(&text));
    let pages = bytes.and_then(|bytes| bytes.checked_div(page_bytes)).filter(|&pages| pages > 0);
    Ok((LARGEST_LIST_ORDER, pages.map(u64::ilog2)))
}

impl PageListState {
    /// Reads the state. `root` is `/` on a live machine.
    ///
    /// # Errors
    /// If a file cannot be read, or a line of it cannot be understood.
    pub fn read(root: &Path) -> Result<Self> {
        let zones = page_lists::zones(root)?;
        let high_fraction = HIGH_FRACTION.read(root)?;
        let has_bounds = |zone: &ZoneLists| zone.lists.iter().any(|l| l.high_min_pages.is_some());
        let has_tuner = zones.iter().any(has_bounds) || version(root)? >= TUNES_SINCE;
        let self_tuning = match (has_tuner, high_fraction) {
            (false, _) => SelfTuning::Absent,
            (true, None | Some(0)) => SelfTuning::Active,
            (true, Some(_)) => SelfTuning::Fixed,
        };
        Ok(Self { zones, high_fraction, self_tuning })
    }
}

/// Returns the first two numbers of the kernel's version.
fn version(root: &Path) -> Result<(u32, u32)> {
    let path = root.join("proc/sys/kernel/osrelease");
    let text = match kernel_file::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(Error::Read { path, source }),
    };
    let expected = "a version such as 6.12.90".to_owned();
    parse_version(&text).ok_or(Error::Parse { path, line: 1, expected })
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A machine with one list, of a kernel of this version.
    fn machine(release: &str, bounds: &str, fraction: Option<&str>) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        let zoneinfo = format!(
            "Node 0, zone Normal\n  pages free 9\n  pagesets\n    cpu: 0\n      count: 1\n      \
             high: 378\n      batch: 63\n{bounds}"
        );
        let mut files = vec![("zoneinfo", zoneinfo.as_str()), ("sys/kernel/osrelease", release)];
        files.extend(fraction.map(|text| ("sys/vm/percpu_pagelist_high_fraction", text)));
        for (file, text) in files {
            let path = root.path().join("proc").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn tuning(release: &str, bounds: &str, fraction: Option<&str>) -> (SelfTuning, Option<u32>) {
        let state = PageListState::read(machine(release, bounds, fraction).path()).unwrap();
        assert_eq!(state.zones.len(), 1);
        (state.self_tuning, state.high_fraction)
    }

    /// Goal: a kernel tunes by itself from 6.7 on, or as soon as it tells bounds, whatever version
    /// it claims; a fraction that is set stops that.
    #[test]
    fn who_tunes_is_told() {
        let bounds = "      high_min: 378\n      high_max: 5000\n";
        for (release, bounds, fraction, expected) in [
            ("5.10.0-28-amd64\n", "", None, SelfTuning::Absent),
            ("6.1.0-18-amd64\n", "", Some("0\n"), SelfTuning::Absent),
            ("6.1.0-18-amd64\n", "", Some("64\n"), SelfTuning::Absent),
            ("6.6.30\n", "", Some("0\n"), SelfTuning::Absent),
            ("6.6.30\n", bounds, Some("0\n"), SelfTuning::Active),
            ("6.7-rc1\n", "", Some("0\n"), SelfTuning::Active),
            ("6.12.90\n", bounds, Some("0\n"), SelfTuning::Active),
            ("7.3.4\n", bounds, Some("8\n"), SelfTuning::Fixed),
        ] {
            let value = fraction.map(|text| text.trim().parse().unwrap());
            assert_eq!(tuning(release, bounds, fraction), (expected, value), "{release}");
        }
    }

    /// Goal: a value or a version that is none is an error with its file, not a guess.
    #[test]
    fn what_is_no_number_is_named() {
        let odd = |root: &TempDir| PageListState::read(root.path()).unwrap_err().to_string();
        let told = odd(&machine("6.1.0\n", "", Some("many\n")));
        assert!(told.ends_with("percpu_pagelist_high_fraction:1: expected a number"), "{told}");
        let told = odd(&machine("six\n", "", Some("0\n")));
        assert!(told.contains("osrelease:1: expected a version"), "{told}");
    }

    /// Goal: lists have blocks from 5.13 on; the order of huge pages is that of this machine, 2 MiB
    /// of 4 KiB or 512 MiB of 64 KiB.
    #[test]
    fn which_blocks_go_through_lists() {
        let old = machine("5.10.0\n", "", None);
        assert_eq!(list_orders(old.path(), 4096).unwrap(), (0, None));
        let new = machine("6.1.0\n", "", None);
        assert_eq!(list_orders(new.path(), 4096).unwrap(), (3, None));
        let folder = new.path().join("sys/kernel/mm/transparent_hugepage");
        fs::create_dir_all(&folder).unwrap();
        for (bytes, page_bytes, order) in [("2097152\n", 4096, 9), ("536870912\n", 65_536, 13)] {
            fs::write(folder.join("hpage_pmd_size"), bytes).unwrap();
            assert_eq!(list_orders(new.path(), page_bytes).unwrap(), (3, Some(order)));
        }
    }

    #[test]
    fn versions() {
        assert_eq!(parse_version("6.12.90+deb13-amd64\n"), Some((6, 12)));
        assert_eq!(parse_version("7.3-rc2"), Some((7, 3)));
        assert_eq!(parse_version("7"), None);
        assert_eq!(parse_version(""), None);
    }
}
