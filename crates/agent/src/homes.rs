//! Homes as the interfaces have them: the nodes of threads, and those of memory with its pages.

use nodeward_model::{NodeId, Nodemask};
use nodeward_policy::placement::Home;

use crate::wire::{PageCounts, WireDecision, WireGroup};

/// Returns `home_pages` of the interfaces: where memory of a home belongs, with the pages there.
pub fn home_pages(home: &Home, pages: &PageCounts) -> PageCounts {
    let at = |node| (node, pages.get(&node).copied().unwrap_or_default());
    home.memory_nodes().iter().map(at).collect()
}

/// Returns the home by the fields of the interfaces. An agent that tells no `home_pages` is older
/// than this field; then memory belongs where threads do.
fn decided_home(nodes: Option<&[NodeId]>, home_pages: Option<&PageCounts>) -> Option<Home> {
    let threads: Nodemask = nodes?.iter().copied().collect();
    let memory = home_pages.map(|pages| pages.keys().copied().collect());
    Home::of_nodes(&threads, memory.as_ref().unwrap_or(&threads))
}

impl WireDecision {
    /// Returns the home of the process.
    pub fn decided_home(&self) -> Option<Home> {
        decided_home(self.home.as_deref(), self.home_pages.as_ref())
    }
}

impl WireGroup {
    /// Returns the home of the group in the last round. (The field is where it is to be.)
    pub fn decided_home(&self) -> Option<Home> {
        decided_home(self.nodes.as_deref(), self.home_pages.as_ref())
    }
}
