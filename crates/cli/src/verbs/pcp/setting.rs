//! The setting of all page lists, changed for a time.
//!
//! ```text
//! hold the sysctl -> (write the record -> look again -> set) ... restore -> remove the record
//! ```
//!
//! A kill anywhere leaves a record of what is to be restored, or nothing to restore. Whoever sets
//! another value meanwhile has the last word. A sysctl cannot be compared and set at once: a value
//! that comes between the last look and the write behind it is lost.

use std::path::Path;

use anyhow::{Context as _, Result};
use nodeward_linux::page_lists::HIGH_FRACTION;
use nodeward_linux::sysctl::HeldSysctl;
use nodeward_machine::Error;
use nodeward_records::state::StateFile;
use serde::{Deserialize, Serialize};

use crate::results::SettingEnd;
use crate::settings::state_dir;

/// The version of the record. It is raised whenever its fields change.
const RECORD_VERSION: u32 = 1;

/// What is to be restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SettingRecord {
    /// The boot of the machine: the next one begins with a value of its own.
    boot: String,
    /// The value before.
    original: u32,
    /// Our last value, and the one that was about to be set: any other is another program's.
    ours: [u32; 2],
}

/// The setting, held by one process at a time. Dropping this restores the value.
pub struct HeldSetting {
    sysctl: HeldSysctl,
    record: StateFile,
    original: u32,
    ours: u32,
    /// Whether there is something to restore.
    is_recorded: bool,
}

/// Whose the value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOwner {
    /// Nobody else set one.
    Ours,
    /// Another program set this value; nothing was done.
    Theirs(u32),
}

impl HeldSetting {
    /// Holds the setting, after restoring what was left by a process that was killed.
    ///
    /// # Errors
    /// If it cannot be set here, or another process holds it.
    pub fn hold(root: &Path) -> Result<(Self, Option<SettingEnd>)> {
        let sysctl = hold(root)?;
        let record = record()?;
        let left = recover(&sysctl, &record)?;
        let original = sysctl.value()?;
        Ok((Self { sysctl, record, original, ours: original, is_recorded: false }, left))
    }

    /// Returns the value before.
    pub fn original(&self) -> u32 {
        self.original
    }

    /// Sets a fraction, or the value before if there is none; nothing if another program did.
    ///
    /// # Errors
    /// If the record cannot be written, or the value cannot be set.
    pub fn choose(&mut self, fraction: Option<u32>) -> Result<SettingOwner> {
        let wanted = fraction.unwrap_or(self.original);
        let mut owner = self.owner()?;
        if owner == SettingOwner::Ours && wanted != self.ours {
            self.write_record(wanted)?;
            // The disk may have taken long.
            owner = self.owner()?;
            if owner == SettingOwner::Ours {
                self.sysctl.set(wanted)?;
                self.ours = wanted;
            }
        }
        Ok(owner)
    }

    fn owner(&self) -> Result<SettingOwner> {
        let now = self.sysctl.value()?;
        Ok(if now == self.ours { SettingOwner::Ours } else { SettingOwner::Theirs(now) })
    }

    fn write_record(&mut self, wanted: u32) -> Result<()> {
        self.record.write(&SettingRecord {
            boot: self.sysctl.boot_id().to_owned(),
            original: self.original,
            ours: [self.ours, wanted],
        })?;
        self.is_recorded = true;
        Ok(())
    }

    /// Restores the value, unless another program set one meanwhile; `None` if nobody set any.
    ///
    /// # Errors
    /// If it cannot be set; the record then stays for the next start.
    pub fn end(mut self) -> Result<Option<SettingEnd>> {
        if self.is_recorded {
            return self.restore().map(Some);
        }
        let now = self.sysctl.value()?;
        Ok((now != self.original).then_some(SettingEnd::Changed(now)))
    }

    fn restore(&mut self) -> Result<SettingEnd> {
        self.is_recorded = false;
        restore(&self.sysctl, &self.record, self.original, &[self.ours])
    }
}

impl Drop for HeldSetting {
    fn drop(&mut self) {
        if self.is_recorded
            && let Err(error) = self.restore()
        {
            say!(
                "nodeward: {} stays as it was set until nodeward pcp restore: {error:#}",
                HIGH_FRACTION.name
            );
        }
    }
}

/// Restores what a process that was killed left; `None` if there is nothing to restore.
///
/// # Errors
/// If it cannot be set here, or another process holds it.
pub fn restore_left(root: &Path) -> Result<Option<SettingEnd>> {
    let record = record()?;
    if record.read::<SettingRecord>()?.is_none() {
        return Ok(None);
    }
    recover(&hold(root)?, &record)
}

fn recover(sysctl: &HeldSysctl, record: &StateFile) -> Result<Option<SettingEnd>> {
    let Some(SettingRecord { boot, original, ours }) = record.read()? else { return Ok(None) };
    if sysctl.boot_id() != boot {
        record.remove()?;
        return Ok(Some(SettingEnd::OfEarlierBoot));
    }
    restore(sysctl, record, original, &ours).map(Some)
}

fn restore(
    sysctl: &HeldSysctl,
    record: &StateFile,
    original: u32,
    ours: &[u32],
) -> Result<SettingEnd> {
    let now = sysctl.value()?;
    let ended = match ours.contains(&now) {
        true => {
            if now != original {
                sysctl.set(original)?;
            }
            SettingEnd::Restored(original)
        }
        false => SettingEnd::Changed(now),
    };
    record.remove()?;
    Ok(ended)
}

fn hold(root: &Path) -> Result<HeldSysctl> {
    let reason = "another process does that already; end that one first".to_owned();
    let busy = Error::Unsupported { action: HIGH_FRACTION.action, reason };
    Ok(HIGH_FRACTION.hold(root)?.ok_or(busy)?)
}

fn record() -> Result<StateFile> {
    let dir = state_dir::dir().context("there is no place for a record of what to restore")?;
    Ok(record_in(&dir))
}

fn record_in(dir: &Path) -> StateFile {
    StateFile::new(dir.join("pcp.takeover"), RECORD_VERSION)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    const FILE: &str = "proc/sys/vm/percpu_pagelist_high_fraction";

    /// A root with the sysctl at a value, and a directory for the record.
    fn root(value: &str) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [(FILE, value), ("proc/sys/kernel/random/boot_id", "5e-1a\n")] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        root
    }

    fn value(root: &TempDir) -> String {
        fs::read_to_string(root.path().join(FILE)).unwrap().trim().to_owned()
    }

    fn set(root: &TempDir, value: &str) {
        fs::write(root.path().join(FILE), format!("{value}\n")).unwrap();
    }

    fn record(root: &TempDir) -> StateFile {
        record_in(&root.path().join("state"))
    }

    fn held(root: &TempDir) -> HeldSetting {
        let sysctl = hold(root.path()).unwrap();
        let original = sysctl.value().unwrap();
        let record = record(root);
        HeldSetting { sysctl, record, original, ours: original, is_recorded: false }
    }

    fn recovered(root: &TempDir) -> Option<SettingEnd> {
        recover(&hold(root.path()).unwrap(), &record(root)).unwrap()
    }

    /// Goal: values come and go, and at the end the value before is back, without a record.
    #[test]
    fn the_value_comes_back() {
        for original in ["0", "64"] {
            let root = root(original);
            let mut held = held(&root);
            for (fraction, expected) in [(Some(14), "14"), (Some(8), "8"), (None, original)] {
                assert_eq!(held.choose(fraction).unwrap(), SettingOwner::Ours);
                assert_eq!(value(&root), expected);
            }
            held.choose(Some(20)).unwrap();
            let restored = SettingEnd::Restored(original.parse().unwrap());
            assert_eq!(held.end().unwrap(), Some(restored));
            assert_eq!(value(&root), original);
            assert_eq!(record(&root).read::<SettingRecord>().unwrap(), None);
        }
    }

    /// Goal: also an end by an error or a panic restores the value.
    #[test]
    fn dropping_restores() {
        let root = root("0");
        let mut held = held(&root);
        held.choose(Some(14)).unwrap();
        drop(held);
        assert_eq!(value(&root), "0");
    }

    /// Goal: after a kill at any moment, before or behind the write of the second value, the next
    /// start restores the first.
    #[test]
    fn a_kill_is_made_good() {
        for now in ["14", "8"] {
            let root = root("0");
            let mut held = held(&root);
            held.choose(Some(14)).unwrap();
            held.choose(Some(8)).unwrap();
            held.is_recorded = false; // dropping it then does no more than a kill
            drop(held);
            set(&root, now);
            let ended = recovered(&root);
            assert_eq!((ended, value(&root).as_str()), (Some(SettingEnd::Restored(0)), "0"));
            assert_eq!(recovered(&root), None);
        }
    }

    /// Goal: another program's value stands, while we hold the setting and after a kill.
    #[test]
    fn others_have_the_last_word() {
        let root = root("0");
        let mut held = held(&root);
        held.choose(Some(14)).unwrap();
        set(&root, "100");
        assert_eq!(held.choose(Some(8)).unwrap(), SettingOwner::Theirs(100));
        assert_eq!(held.choose(None).unwrap(), SettingOwner::Theirs(100));
        assert_eq!(held.end().unwrap(), Some(SettingEnd::Changed(100)));
        assert_eq!(value(&root), "100");
        let record = record(&root);
        record.write(&SettingRecord { boot: "5e-1a".into(), original: 0, ours: [14, 8] }).unwrap();
        assert_eq!(recovered(&root), Some(SettingEnd::Changed(100)));
        assert_eq!(value(&root), "100");
    }

    /// Goal: what was changed in an earlier boot is not restored in this one.
    #[test]
    fn an_earlier_boot_is_over() {
        let root = root("14");
        let record = record(&root);
        record.write(&SettingRecord { boot: "other".into(), original: 0, ours: [0, 14] }).unwrap();
        assert_eq!(recovered(&root), Some(SettingEnd::OfEarlierBoot));
        assert_eq!((value(&root).as_str(), recovered(&root)), ("14", None));
    }

    /// Goal: two of us at once: the second is refused, with a reason.
    #[test]
    fn the_second_is_refused() {
        let root = root("0");
        let _first = held(&root);
        let told = hold(root.path()).unwrap_err().to_string();
        assert!(told.contains("another process does that already"), "{told}");
    }

    /// Goal: without a place for the record nothing is set.
    #[test]
    fn no_record_no_change() {
        let root = root("0");
        fs::write(root.path().join("state"), "a file").unwrap();
        let mut held = held(&root);
        assert!(held.choose(Some(14)).is_err());
        assert_eq!((held.end().unwrap(), value(&root).as_str()), (None, "0"));
    }
}
