//! Control groups that somebody named and that are not there.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use nodeward_machine::{Error, Machine};
use nodeward_model::{Escape as _, Wanted};

/// Checks that all are there, so that one which is not is known by its name.
///
/// # Errors
/// If one is not, or cannot be read.
pub fn check(machine: &dyn Machine, groups: &[PathBuf]) -> Result<()> {
    for group in groups {
        let alone = Wanted { cgroups: vec![group.clone()], ..Wanted::default() };
        machine.watch(&alone).map_err(|error| missing(group, error))?;
    }
    Ok(())
}

/// A group that is not there was mistyped; one that cannot be read is the machine's matter.
pub fn missing(group: &Path, error: Error) -> anyhow::Error {
    match error {
        Error::Read { source, .. } if source.kind() == ErrorKind::NotFound => {
            anyhow!("'{}' is not a control group here", group.escaped())
        }
        error => error.into(),
    }
}
