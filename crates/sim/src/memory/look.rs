//! What the lists of CPUs look like from outside.

use nodeward_model::{CpuId, NodeId};
use nodeward_policy::pcp::Tuner;

use crate::world::World;

/// The list of free pages that a CPU has in front of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListView {
    /// Whose.
    pub cpu: CpuId,
    /// Of which node's pages.
    pub node: NodeId,
    /// Pages in it.
    pub pages: u64,
    /// What it keeps at most, as its tuner has it now.
    pub high: u64,
    /// What a tuner may choose, from the least to the most.
    pub bounds: (u64, u64),
}

impl World {
    /// The lists that were used so far, by CPU and node.
    pub fn lists(&self) -> Vec<ListView> {
        let nodes = self.memory.zones.len();
        let view = |(place, list): (usize, &Option<super::list::List>)| {
            let (list, zone) = (list.as_ref()?, &self.memory.zones[place % nodes]);
            Some(ListView {
                cpu: self.layout.cpus[place / nodes].id,
                node: self.layout.node_ids[place % nodes],
                pages: list.count.into(),
                high: list.tuner.high(&zone.limits).into(),
                bounds: (zone.limits.high_default.into(), zone.limits.high_max.into()),
            })
        };
        self.memory.lists.iter().enumerate().filter_map(view).collect()
    }
}
