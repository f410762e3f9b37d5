//! The control groups of the watched processes, and whether they are frozen.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::files::Kept;
use super::tools::Tools;
use crate::cgroup::MemoryGroups;

/// The groups by their paths in the hierarchy (version 2).
#[derive(Debug, Default)]
pub struct Groups {
    mounts: Option<MemoryGroups>,
    known: BTreeMap<Arc<PathBuf>, Group>,
}

#[derive(Debug, Default)]
struct Group {
    events: Kept,
    look: u64,
    frozen: bool,
}

impl Groups {
    /// Finds the mounted hierarchies.
    pub fn find(tools: &Tools) -> Self {
        Self { mounts: MemoryGroups::find(&tools.root).ok(), known: BTreeMap::new() }
    }

    /// Returns true if a group is frozen, by itself or by an ancestor. Cost: one file for each
    /// group and sample.
    pub fn is_frozen(&mut self, path: &Arc<PathBuf>, tools: &mut Tools) -> bool {
        let Some(mounts) = &self.mounts else { return false };
        let group = self.known.entry(Arc::clone(path)).or_default();
        if group.look == tools.look {
            return group.frozen;
        }
        group.look = tools.look;
        let file = || mounts.folder_v2_of(path).unwrap_or_default().join("cgroup.events");
        let bytes = group.events.read(file, &tools.shelf, &mut tools.buffer);
        // The root group has no such file; nor has a removed group, whose name may be used again.
        let failed = bytes.is_err();
        group.frozen = bytes.is_ok_and(|bytes| has_line(bytes, b"frozen 1"));
        if failed {
            group.events = Kept::default();
        }
        group.frozen
    }

    /// Drops groups that were not queried in this sample.
    pub fn end(&mut self, look: u64) {
        self.known.retain(|_, group| group.look == look);
    }
}

fn has_line(bytes: &[u8], line: &[u8]) -> bool {
    bytes.split(|&byte| byte == b'\n').any(|found| found == line)
}
