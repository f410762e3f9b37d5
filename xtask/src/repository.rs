//! Where the repository is on this machine.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the root of the workspace.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.parent().unwrap_or(here).to_path_buf()
    })
}
