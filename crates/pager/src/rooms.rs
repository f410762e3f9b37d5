//! Whether there is room for fresh pages. The kernel would rather take them from another node, or
//! end a process, than refuse.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use nodeward_linux::Linux;
use nodeward_linux::cgroup::MemoryGroups;
use nodeward_machine::{Machine, Process};
use nodeward_model::{NodeId, Pid, Place};

use crate::sync::lock;

/// Base pages that a look at the machine's room is good for: 32 MiB of 4 KiB pages, a few
/// milliseconds of work.
const GRANT_PAGES_MAX: u64 = 8192;
/// What was seen is good for no longer than this, because others allocate as well.
const GRANT_LASTS: Duration = Duration::from_millis(20);
/// A grant is at most this part of the room, for the same reason.
const SHARE_OF_ROOM: u64 = 4;

/// The room on each node, looked at now and then.
pub struct Rooms {
    machine: Linux,
    /// This process, once somebody asks; `None` if it cannot be looked at.
    myself: OnceLock<Option<Arc<dyn Process>>>,
    page_bytes: u64,
    /// `None` where they cannot be seen.
    groups: Option<MemoryGroups>,
    /// Fresh pages that may be taken from each node before the next look.
    granted: Mutex<BTreeMap<NodeId, Grant>>,
}

/// What a look at the machine's room was good for.
struct Grant {
    /// When that was.
    seen: Instant,
    /// Base pages of it that were not taken yet.
    left: u64,
}

impl Rooms {
    /// Of a machine.
    pub fn of(machine: Linux) -> Self {
        let page_bytes = machine.page_bytes();
        let groups = MemoryGroups::find(Path::new("/")).ok();
        Self { machine, myself: OnceLock::new(), page_bytes, groups, granted: Mutex::default() }
    }

    /// Whether a node, and our control groups, have room for so many fresh base pages; they are
    /// booked then. If there is none, `relieve` is asked to free some first.
    pub fn room_for(&self, node: NodeId, pages: usize, relieve: impl FnOnce()) -> bool {
        let pages = pages as u64;
        let mut granted = lock(&self.granted);
        let holds = |grant: &Grant| grant.left >= pages && grant.seen.elapsed() < GRANT_LASTS;
        let held = granted.remove(&node).filter(holds);
        let Some(mut grant) = held.or_else(|| self.grant(node, pages, relieve)) else {
            return false;
        };
        grant.left -= pages;
        granted.insert(node, grant);
        true
    }

    /// Whether a node has room for so many base pages now.
    pub fn has_room(&self, node: NodeId, pages: u64) -> bool {
        self.room(node) >= pages
    }

    /// Whether pages of ours are all on a node; yes, where the kernel does not tell.
    pub fn are_on(&self, node: NodeId, addresses: impl Iterator<Item = u64>) -> bool {
        let addresses: Vec<u64> = addresses.collect();
        let hold = || self.machine.hold(Pid::of_this_process()).ok();
        let Some(myself) = self.myself.get_or_init(hold) else { return true };
        let is_elsewhere = |place| matches!(place, Place::On(on) if on != node);
        !myself.locate(&addresses).is_ok_and(|places| places.into_iter().any(is_elsewhere))
    }

    /// Lets nobody take from a node what an earlier look granted.
    pub fn look_again(&self, node: NodeId) {
        lock(&self.granted).remove(&node);
    }

    fn grant(&self, node: NodeId, pages: u64, relieve: impl FnOnce()) -> Option<Grant> {
        let share = || Some(self.room(node) / SHARE_OF_ROOM).filter(|share| *share >= pages);
        let share = share().or_else(|| {
            relieve();
            share()
        })?;
        Some(Grant { seen: Instant::now(), left: share.min(GRANT_PAGES_MAX) })
    }

    /// Base pages that a node can take, as far as our control groups allow them.
    fn room(&self, node: NodeId) -> u64 {
        let rooms = self.machine.rooms().unwrap_or_default();
        let on_node = rooms.get(&node).map_or(u64::MAX, |room| room.free_pages);
        let allowed = self.groups.as_ref().and_then(|groups| {
            let headroom = groups.headroom_bytes();
            headroom.inspect_err(|error| tracing::warn!(%error, "limit unknown")).ok()?
        });
        on_node.min(allowed.map_or(u64::MAX, |bytes| bytes / self.page_bytes))
    }
}
