//! Where nodeward keeps what outlives a command.
//!
//! $NODEWARD_STATE_DIR if it is set; else /var/lib/nodeward for root, and for others
//! $XDG_STATE_HOME/nodeward (~/.local/state where that is not set). There are the ledgers of moves
//! (`ledger/`) and what the balancer goes on with (`balance.*`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use nodeward_wire::ledger::{Limits, Store};

/// The directory for all of it, which may be missing yet.
///
/// # Errors
/// If there is no place for it.
pub fn dir() -> Result<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    directory(is_root, |name| std::env::var_os(name))
        .context("there is no home directory for its ledger; set NODEWARD_STATE_DIR")
}

/// The ledgers of moves.
///
/// # Errors
/// If there is no place for them.
pub fn ledgers() -> Result<Store> {
    Ok(Store::new(dir()?.join("ledger"), Limits::default()))
}

/// Milliseconds after 1970.
pub fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn directory(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || {
        // A relative path in this variable is to be ignored, says its specification.
        let state = path("XDG_STATE_HOME").filter(|path| path.is_absolute());
        let folder = state.or_else(|| Some(path("HOME")?.join(".local/state")))?;
        Some(folder.join("nodeward"))
    };
    path("NODEWARD_STATE_DIR").or_else(|| match is_root {
        true => Some(PathBuf::from("/var/lib/nodeward")),
        false => of_user(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(is_root: bool, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        };
        directory(is_root, variable).map(|path| path.display().to_string())
    }

    /// Goal: the variable beats all; root has one place for the whole machine, users their own.
    #[test]
    fn state_is_where_people_look_for_it() {
        let home = ("HOME", "/users/u");
        assert_eq!(found(true, &[home]).as_deref(), Some("/var/lib/nodeward"));
        assert_eq!(found(false, &[home]).as_deref(), Some("/users/u/.local/state/nodeward"));
        let xdg = ("XDG_STATE_HOME", "/s");
        assert_eq!(found(false, &[home, xdg]).as_deref(), Some("/s/nodeward"));
        let relative = ("XDG_STATE_HOME", "s");
        let usual = "/users/u/.local/state/nodeward";
        assert_eq!(found(false, &[home, relative]).as_deref(), Some(usual));
        assert_eq!(found(true, &[("NODEWARD_STATE_DIR", "/n")]).as_deref(), Some("/n"));
        assert_eq!(found(false, &[]), None);
    }
}
