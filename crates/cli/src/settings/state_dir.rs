//! The directory for state that outlives a command.
//!
//! $NODEWARD_STATE_DIR if it is set; else /var/lib/nodeward for root, and for others
//! $XDG_STATE_HOME/nodeward (~/.local/state if that is not set). It holds the ledgers of moves
//! (`ledger/`) and the saved state of the balancer (`balance.*`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use nodeward_records::ledger::{LedgerStore, StoreLimits};

/// Returns the state directory, which may not exist yet.
///
/// # Errors
/// If there is no place for it.
pub fn dir() -> Result<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    directory(is_root, |name| std::env::var_os(name))
        .context("there is no home directory for its ledger; set NODEWARD_STATE_DIR")
}

/// Returns the ledgers of moves.
///
/// # Errors
/// If there is no place for them.
pub fn ledgers() -> Result<LedgerStore> {
    Ok(LedgerStore::new(dir()?.join("ledger"), StoreLimits::default()))
}

/// Returns milliseconds since 1970.
pub fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn directory(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || {
        // The specification requires to ignore a relative path in this variable.
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

    /// Goal: the variable takes precedence; root has one place for the whole machine, users their
    /// own.
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
