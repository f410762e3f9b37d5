//! What tests do where this machine lets nobody load programs.

use nodeward_bpf::Unavailable;

/// Returns what was loaded; says why where this machine lets nobody load programs.
pub fn loaded<T>(result: Result<T, Unavailable>) -> Option<T> {
    match result {
        Err(error @ Unavailable::Refused(_)) => panic!("{error}: {error:?}"),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
        Ok(loaded) => Some(loaded),
    }
}
