//! The lists of CPUs as an observer sees them.

use nodeward_model::{CpuId, NodeId};
use nodeward_policy::pcp::Tuner;

use crate::world::World;

/// The list of free pages that a CPU keeps in front of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListView {
    /// The CPU.
    pub cpu: CpuId,
    /// The node of the pages.
    pub node: NodeId,
    /// Pages in the list.
    pub pages: u64,
    /// Maximum number of pages to keep, as its tuner has set it now.
    pub high: u64,
    /// Least and greatest value that a tuner may set.
    pub bounds: (u64, u64),
}

impl World {
    /// Returns the lists that were used so far, by CPU and node.
    pub fn lists(&self) -> Vec<ListView> {
        let nodes = self.memory.zones.len();
        let view = |(place, list): (usize, &Option<super::pcp_list::PcpList>)| {
            let (list, zone) = (list.as_ref()?, &self.memory.zones[place % nodes]);
            Some(ListView {
                cpu: self.layout.cpus[place / nodes].id,
                node: self.layout.node_ids[place % nodes],
                pages: list.count.into(),
                high: list.tuner.high(&zone.limits).into(),
                bounds: (zone.limits.high_default.into(), zone.limits.high_max.into()),
            })
        };
        self.memory.pcp_lists.iter().enumerate().filter_map(view).collect()
    }
}
