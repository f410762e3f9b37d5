//! Checks that a node has room before fresh pages are taken from it. The kernel itself would take
//! them from another node, or kill a process, rather than refuse.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use nodeward_linux::Linux;
use nodeward_linux::cgroup::MemoryGroups;
use nodeward_machine::{Machine, Process};
use nodeward_model::{NodeHeadroom, NodeId, Nodemask, PageLocation, Pid};

use crate::sync::lock;

/// Maximum base pages granted by one look: 256 MiB of 4 KiB pages, which take about 100 ms.
const GRANT_PAGES_MAX: u64 = 65_536;
/// Validity of a grant, and the shortest time between two looks unless a grant is used up. Short,
/// because other programs allocate as well.
const GRANT_VALID_FOR: Duration = Duration::from_millis(100);
/// A grant is at most this fraction (1/4) of the room, for the same reason.
const HEADROOM_SHARE: u64 = 4;
/// Pages that small calls may take before a look has granted some, 16 MiB of 4 KiB pages: they
/// leave looking to another thread, and take about as many in the 10 ms that it may need. A node
/// that has less room than that is short of memory, and then the last look says so.
const TRUSTED_PAGES: u64 = 4096;

/// The room on each node, looked at from time to time.
pub struct Headroom {
    machine: Linux,
    /// This process, opened at the first use; `None` if it cannot be read.
    myself: OnceLock<Option<Arc<dyn Process>>>,
    page_bytes: u64,
    /// `None` if the control groups cannot be read.
    groups: Option<MemoryGroups>,
    /// What was found on each node with memory.
    grants: Vec<Grant>,
    /// Held by the thread that looks.
    looking: Mutex<()>,
    opened_at: Instant,
    /// A small call needs a look that another thread makes.
    is_look_wanted: AtomicBool,
}

/// The result of the last look at a node.
struct Grant {
    node: NodeId,
    /// Time of the look, in milliseconds since the room is watched; `NEVER` before the first.
    looked_at_ms: AtomicU64,
    /// Base pages granted that are not taken yet.
    left_pages: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Grant {
    /// Takes pages, if as many are left.
    fn take(&self, pages: u64) -> bool {
        let take = |left: u64| left.checked_sub(pages);
        self.left_pages.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Returns whether the last look was so long ago that the next is due.
    fn is_due(&self, now_ms: u64) -> bool {
        let looked_at_ms = self.looked_at_ms.load(Ordering::Relaxed);
        let valid_ms = GRANT_VALID_FOR.as_millis() as u64;
        looked_at_ms == NEVER || now_ms.saturating_sub(looked_at_ms) >= valid_ms
    }
}

impl Headroom {
    /// Opens the room checks of a machine with memory on these nodes.
    pub fn new(machine: Linux, nodes: &Nodemask) -> Self {
        let grant = |node| Grant {
            node,
            looked_at_ms: AtomicU64::new(NEVER),
            left_pages: AtomicU64::new(TRUSTED_PAGES),
        };
        Self {
            page_bytes: machine.page_bytes(),
            machine,
            myself: OnceLock::new(),
            groups: MemoryGroups::find(Path::new("/")).ok(),
            grants: nodes.iter().map(grant).collect(),
            looking: Mutex::default(),
            opened_at: Instant::now(),
            is_look_wanted: AtomicBool::new(false),
        }
    }

    /// Returns whether a node, and our control groups, have room for `pages` fresh base pages, and
    /// books them. If there is no room, first calls `relieve` to free some. Looks at most once in
    /// 100 ms, unless what was granted is used up.
    pub fn reserve(&self, node: NodeId, pages: usize, relieve: impl FnOnce()) -> bool {
        let pages = pages as u64;
        let Some(grant) = self.grant_of(node) else { return self.has_room(node, pages) };
        let is_granted = || !grant.is_due(self.now_ms()) && grant.take(pages);
        if is_granted() {
            return true;
        }
        let _looking = lock(&self.looking);
        if is_granted() {
            return true;
        }
        self.look(grant);
        grant.take(pages) || {
            relieve();
            self.look(grant);
            grant.take(pages)
        }
    }

    /// As [`Self::reserve`], for a few pages: reads no file. What is left of the last grant,
    /// however old, is enough; [`Self::takes_wanted_look`] tells another thread to look again. A
    /// `false` means that it is not known whether there is room.
    pub fn reserve_few(&self, node: NodeId, pages: usize) -> bool {
        let Some(grant) = self.grant_of(node) else { return false };
        let is_due = grant.is_due(self.now_ms());
        if is_due {
            let old = grant.left_pages.load(Ordering::Relaxed);
            // What others have taken meanwhile is not known.
            let trusted = old.min(TRUSTED_PAGES);
            let swap = (Ordering::Relaxed, Ordering::Relaxed);
            grant.left_pages.compare_exchange(old, trusted, swap.0, swap.1).ok();
            self.is_look_wanted.store(true, Ordering::Relaxed);
        }
        grant.take(pages as u64)
    }

    /// Returns whether a small call needs a look. The caller makes sure that [`Self::look_again`]
    /// is called soon, on another thread.
    pub fn takes_wanted_look(&self) -> bool {
        self.is_look_wanted.load(Ordering::Relaxed)
            && self.is_look_wanted.swap(false, Ordering::Relaxed)
    }

    /// Looks at the nodes whose last look is too old.
    pub fn look_again(&self) {
        let _looking = lock(&self.looking);
        let now_ms = self.now_ms();
        self.grants.iter().filter(|grant| grant.is_due(now_ms)).for_each(|grant| {
            self.look(grant);
        });
    }

    /// Returns whether a node has room for this many base pages now. Looks at most once in 100 ms,
    /// unless they are more than was granted.
    pub fn has_room(&self, node: NodeId, pages: u64) -> bool {
        let granted = self.grant_of(node).filter(|grant| !grant.is_due(self.now_ms()));
        granted.is_some_and(|grant| grant.take(pages)) || {
            let _looking = lock(&self.looking);
            let found = self.grant_of(node).map(|grant| self.look(grant));
            found.unwrap_or_else(|| self.headroom_pages(node)) >= pages
        }
    }

    fn grant_of(&self, node: NodeId) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.node == node)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened_at.elapsed().as_millis()).unwrap_or(NEVER - 1)
    }

    /// Grants a share of the room that a node has now. Returns all of it, in base pages.
    fn look(&self, grant: &Grant) -> u64 {
        let room = self.headroom_pages(grant.node);
        grant.left_pages.store((room / HEADROOM_SHARE).min(GRANT_PAGES_MAX), Ordering::Relaxed);
        grant.looked_at_ms.store(self.now_ms(), Ordering::Relaxed);
        room
    }

    /// Returns whether pages of ours are all on a node; true if the kernel does not tell.
    pub fn are_on_node(&self, node: NodeId, addresses: impl Iterator<Item = u64>) -> bool {
        let addresses: Vec<u64> = addresses.collect();
        let hold = || self.machine.open_process(Pid::of_this_process()).ok();
        let Some(myself) = self.myself.get_or_init(hold) else { return true };
        let is_elsewhere = |place| matches!(place, PageLocation::On(on) if on != node);
        !myself.locate(&addresses).is_ok_and(|places| places.into_iter().any(is_elsewhere))
    }

    /// Revokes what an earlier look at a node granted.
    pub fn invalidate(&self, node: NodeId) {
        if let Some(grant) = self.grant_of(node) {
            grant.left_pages.store(0, Ordering::Relaxed);
            grant.looked_at_ms.store(NEVER, Ordering::Relaxed);
        }
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

    /// Goal: few pages are granted without a look, up to the trusted 256, and then not until
    /// another thread has looked; what a look granted long ago is trusted for as many.
    #[test]
    fn few_pages_need_no_look() {
        let (machine, node) = (Linux::open(), NodeId(0));
        let headroom = Headroom::new(machine, &Nodemask::from_iter([node]));
        let grant = headroom.grant_of(node).unwrap();
        assert!((0..64).all(|_| headroom.reserve_few(node, 64)), "64 times 64 are 4096");
        assert_eq!(grant.looked_at_ms.load(Ordering::Relaxed), NEVER, "nobody has looked");
        assert!(!headroom.reserve_few(node, 1) && headroom.takes_wanted_look());
        assert!(!headroom.takes_wanted_look(), "one thread looks");
        headroom.look_again();
        assert!(grant.looked_at_ms.load(Ordering::Relaxed) != NEVER);
        grant.left_pages.store(10_000, Ordering::Relaxed);
        assert!(headroom.reserve_few(node, 1));
        assert_eq!(grant.left_pages.load(Ordering::Relaxed), 9_999);
        grant.looked_at_ms.store(NEVER, Ordering::Relaxed); // too long ago
        assert!(headroom.reserve_few(node, 1) && headroom.takes_wanted_look());
        assert_eq!(grant.left_pages.load(Ordering::Relaxed), 4095);
        assert!(!headroom.reserve_few(NodeId(1), 1), "of a node without memory nothing is known");
    }

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
