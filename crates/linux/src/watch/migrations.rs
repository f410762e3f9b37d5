//! The pages that the kernel has migrated: by calls of any process, for its own balancing, demotion
//! and compaction, and from memory that goes offline.

use super::context::WatchContext;
use super::files::CachedFile;

/// The counter in /proc/vmstat, in base pages.
const COUNTER: &str = "pgmigrate_success ";

/// The file of the counter.
#[derive(Debug, Default)]
pub struct MigrationCount(CachedFile);

impl MigrationCount {
    /// Returns the pages since the boot; `None` if the kernel does not count them
    /// (`CONFIG_MIGRATION`). Cost: a file.
    pub fn read(&mut self, tools: &mut WatchContext) -> Option<u64> {
        let path = || tools.root.join("proc/vmstat");
        let bytes = self.0.read(path, &tools.open_files, &mut tools.buffer).ok()?;
        let text = String::from_utf8_lossy(bytes);
        text.lines().find_map(|line| line.strip_prefix(COUNTER)?.parse().ok())
    }
}
