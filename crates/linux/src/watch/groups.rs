//! The control groups of the watched processes, and whether they are frozen.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::context::WatchContext;
use super::files::CachedFile;
use crate::cgroup::MemoryGroups;

/// The groups by their paths in the hierarchy (version 2).
#[derive(Debug, Default)]
pub struct CgroupStates {
    mounts: Option<MemoryGroups>,
    states: BTreeMap<Arc<PathBuf>, CgroupState>,
}

#[derive(Debug, Default)]
struct CgroupState {
    events: CachedFile,
    snapshot_number: u64,
    frozen: bool,
}

impl CgroupStates {
    /// Finds the mounted hierarchies.
    pub fn find(context: &WatchContext) -> Self {
        Self { mounts: MemoryGroups::find(&context.root).ok(), states: BTreeMap::new() }
    }

    /// Returns true if a group is frozen, by itself or by an ancestor. Cost: one file for each
    /// group and sample.
    pub fn is_frozen(&mut self, path: &Arc<PathBuf>, context: &mut WatchContext) -> bool {
        let Some(mounts) = &self.mounts else { return false };
        let group = self.states.entry(Arc::clone(path)).or_default();
        if group.snapshot_number == context.snapshot_number {
            return group.frozen;
        }
        group.snapshot_number = context.snapshot_number;
        let file = || mounts.folder_v2_of(path).unwrap_or_default().join("cgroup.events");
        let bytes = group.events.read(file, &context.open_files, &mut context.buffer);
        // The root group has no such file; nor has a removed group, whose name may be used again.
        let failed = bytes.is_err();
        group.frozen = bytes.is_ok_and(|bytes| has_line(bytes, b"frozen 1"));
        if failed {
            group.events = CachedFile::default();
        }
        group.frozen
    }

    /// Drops groups that were not queried in this sample.
    pub fn forget_unused(&mut self, look: u64) {
        self.states.retain(|_, group| group.snapshot_number == look);
    }
}

fn has_line(bytes: &[u8], line: &[u8]) -> bool {
    bytes.split(|&byte| byte == b'\n').any(|found| found == line)
}
