//! The page lists of this kernel: what is in them, how long they may be, and who decides that.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nodeward_machine::{Error, Result};
use nodeward_model::ZoneLists;

use crate::procfs::{page_lists, parse_trimmed};

/// The sysctl that sets the length of all lists. Linux 5.14 and newer have it; the setting that
/// older kernels have has another meaning.
pub const HIGH_FRACTION: &str = "vm.percpu_pagelist_high_fraction";

/// From this version on the kernel tunes its page lists.
const TUNES_SINCE: (u32, u32) = (6, 7);

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

impl PageListState {
    /// Reads the state. `root` is `/` on a live machine.
    ///
    /// # Errors
    /// If a file cannot be read, or a line of it cannot be understood.
    pub fn read(root: &Path) -> Result<Self> {
        let zones = page_lists::zones(root)?;
        let high_fraction = high_fraction(root)?;
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

fn sysctl(root: &Path) -> PathBuf {
    root.join("proc/sys").join(HIGH_FRACTION.replace('.', "/"))
}

fn high_fraction(root: &Path) -> Result<Option<u32>> {
    let path = sysctl(root);
    match std::fs::read(&path) {
        Ok(bytes) => number(path, &bytes).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { path, source }),
    }
}

fn number(path: PathBuf, bytes: &[u8]) -> Result<u32> {
    let expected = "a number".to_owned();
    parse_trimmed(bytes).ok_or(Error::Parse { path, line: 1, expected })
}

/// Returns the first two numbers of the kernel's version.
fn version(root: &Path) -> Result<(u32, u32)> {
    let path = root.join("proc/sys/kernel/osrelease");
    let text = match std::fs::read_to_string(&path) {
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

    #[test]
    fn versions() {
        assert_eq!(parse_version("6.12.90+deb13-amd64\n"), Some((6, 12)));
        assert_eq!(parse_version("7.3-rc2"), Some((7, 3)));
        assert_eq!(parse_version("7"), None);
        assert_eq!(parse_version(""), None);
    }
}
