//! /proc/vmstat: what the kernel counted of the machine's memory since the boot.

use super::context::WatchContext;
use super::files::CachedFile;

/// The pages that the kernel has migrated: by calls of any process, for its own balancing, demotion
/// and compaction, and from memory that goes offline. In base pages.
const MIGRATED: &str = "pgmigrate_success ";
/// Those of them that its NUMA balancing migrated.
const BALANCED: &str = "numa_pages_migrated ";

/// The file.
#[derive(Debug, Default)]
pub struct Vmstat(CachedFile);

impl Vmstat {
    /// Returns the file's lines, each a name and a number; none if it cannot be read. Cost: a file.
    pub fn read(&mut self, context: &mut WatchContext) -> String {
        let path = || context.root.join("proc/vmstat");
        let bytes = self.0.read(path, &context.open_files, &mut context.buffer);
        bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }
}

/// Returns the migrated pages; `None` if the kernel does not count them (`CONFIG_MIGRATION`).
pub fn migrated_pages(lines: &str) -> Option<u64> {
    count(lines, MIGRATED)
}

/// Returns the pages that the kernel's NUMA balancing migrated; `None` if the kernel does not count
/// them (`CONFIG_NUMA_BALANCING`).
pub fn balancing_pages(lines: &str) -> Option<u64> {
    count(lines, BALANCED)
}

fn count(lines: &str, name: &str) -> Option<u64> {
    lines.lines().find_map(|line| line.strip_prefix(name)?.parse().ok())
}
