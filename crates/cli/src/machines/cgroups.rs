//! Checks that the control groups on the command line exist, and names one that does not.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use nodeward_machine::{Error, Machine};
use nodeward_model::{Escape as _, ProcessFilter};

/// Checks that all groups exist, so that a missing one is reported by its name.
///
/// # Errors
/// If one does not exist, or cannot be read.
pub fn check(machine: &dyn Machine, groups: &[PathBuf]) -> Result<()> {
    for group in groups {
        let alone = ProcessFilter { cgroups: vec![group.clone()], ..ProcessFilter::default() };
        machine.watch(&alone).map_err(|error| explain_missing(group, error))?;
    }
    Ok(())
}

/// Returns the error for a group: one that does not exist is a mistake on the command line, one
/// that cannot be read is a failure of the machine.
pub fn explain_missing(group: &Path, error: Error) -> anyhow::Error {
    match error {
        Error::Read { source, .. } if source.kind() == ErrorKind::NotFound => {
            anyhow!("'{}' is not a control group here", group.escaped())
        }
        error => error.into(),
    }
}
