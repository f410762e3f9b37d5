//! Checks that a node has room before fresh pages are taken from it. The kernel itself would take
//! them from another node, or kill a process, rather than refuse.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use nodeward_linux::Linux;
use nodeward_linux::cgroup::MemoryGroups;
use nodeward_machine::{Machine, Process};
use nodeward_model::{NodeHeadroom, NodeId, PageLocation, Pid};

use crate::sync::lock;

/// Maximum base pages granted by one check: 32 MiB of 4 KiB pages, a few milliseconds of work.
const GRANT_PAGES_MAX: u64 = 8192;
/// Validity of a grant; it is short because other programs allocate as well.
const GRANT_VALID_FOR: Duration = Duration::from_millis(20);
/// A grant is at most this fraction (1/4) of the room, for the same reason.
const HEADROOM_SHARE: u64 = 4;

/// The room on each node, checked from time to time.
pub struct Headroom {
    machine: Linux,
    /// This process, opened at the first use; `None` if it cannot be read.
    myself: OnceLock<Option<Arc<dyn Process>>>,
    page_bytes: u64,
    /// `None` if the control groups cannot be read.
    groups: Option<MemoryGroups>,
    /// Fresh pages that may be taken from each node before the next check.
    granted: Mutex<BTreeMap<NodeId, Grant>>,
}

/// The result of a check of a node's room.
struct Grant {
    /// Time of the check.
    granted_at: Instant,
    /// Base pages granted that are not taken yet.
    left_pages: u64,
}

impl Headroom {
    /// Opens the room checks of a machine.
    pub fn new(machine: Linux) -> Self {
        let page_bytes = machine.page_bytes();
        let groups = MemoryGroups::find(Path::new("/")).ok();
        Self { machine, myself: OnceLock::new(), page_bytes, groups, granted: Mutex::default() }
    }

    /// Returns whether a node, and our control groups, have room for `pages` fresh base pages, and
    /// books them. If there is no room, first calls `relieve` to free some.
    pub fn reserve(&self, node: NodeId, pages: usize, relieve: impl FnOnce()) -> bool {
        let pages = pages as u64;
        let mut granted = lock(&self.granted);
        let holds = |grant: &Grant| {
            grant.left_pages >= pages && grant.granted_at.elapsed() < GRANT_VALID_FOR
        };
        let held = granted.remove(&node).filter(holds);
        let Some(mut grant) = held.or_else(|| self.grant(node, pages, relieve)) else {
            return false;
        };
        grant.left_pages -= pages;
        granted.insert(node, grant);
        true
    }

    /// Returns whether a node has room for this many base pages now.
    pub fn has_room(&self, node: NodeId, pages: u64) -> bool {
        self.headroom_pages(node) >= pages
    }

    /// Returns whether pages of ours are all on a node; true if the kernel does not tell.
    pub fn are_on_node(&self, node: NodeId, addresses: impl Iterator<Item = u64>) -> bool {
        let addresses: Vec<u64> = addresses.collect();
        let hold = || self.machine.open_process(Pid::of_this_process()).ok();
        let Some(myself) = self.myself.get_or_init(hold) else { return true };
        let is_elsewhere = |place| matches!(place, PageLocation::On(on) if on != node);
        !myself.locate(&addresses).is_ok_and(|places| places.into_iter().any(is_elsewhere))
    }

    /// Revokes what an earlier check of a node granted.
    pub fn invalidate(&self, node: NodeId) {
        lock(&self.granted).remove(&node);
    }

    fn grant(&self, node: NodeId, pages: u64, relieve: impl FnOnce()) -> Option<Grant> {
        let share =
            || Some(self.headroom_pages(node) / HEADROOM_SHARE).filter(|share| *share >= pages);
        let share = share().or_else(|| {
            relieve();
            share()
        })?;
        Some(Grant { granted_at: Instant::now(), left_pages: share.min(GRANT_PAGES_MAX) })
    }

    /// Returns the number of base pages that a node can take within the limits of our control
    /// groups.
    fn headroom_pages(&self, node: NodeId) -> u64 {
        let on_node = pages_on(node, &self.machine.headroom().unwrap_or_default());
        let allowed = self.groups.as_ref().and_then(|groups| {
            let headroom = groups.headroom_bytes();
            headroom.inspect_err(|error| tracing::warn!(%error, "limit unknown")).ok()?
        });
        on_node.min(allowed.map_or(u64::MAX, |bytes| bytes / self.page_bytes))
    }
}

/// Returns the number of base pages that a node can take; no limit if it is unknown. For the only
/// node the kernel gives up cached files that were not used for long. Of several it would rather
/// take free pages of another.
fn pages_on(node: NodeId, rooms: &BTreeMap<NodeId, NodeHeadroom>) -> u64 {
    rooms.get(&node).map_or(u64::MAX, |room| match rooms.len() {
        1 => room.free_or_cold_pages(),
        _ => room.free_pages,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a machine of one node whose memory is full of cached files has room; on one of several
    /// nodes only free pages count.
    #[test]
    fn cached_files_are_room_on_the_only_node() {
        let room = NodeHeadroom { free_pages: 10, inactive_file_pages: 90 };
        let only: BTreeMap<_, _> = [(NodeId(0), room)].into();
        assert_eq!((pages_on(NodeId(0), &only), pages_on(NodeId(1), &only)), (100, u64::MAX));
        let both = [(NodeId(0), room), (NodeId(1), room)].into();
        assert_eq!(pages_on(NodeId(0), &both), 10);
    }
}
