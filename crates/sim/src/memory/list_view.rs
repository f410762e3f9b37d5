//! The lists of CPUs as an observer sees them.

use nodeward_model::{CpuId, NodeId};
use nodeward_policy::pcp::Tuner;

use super::pcp_list::PcpList;
use super::physical_memory::PhysicalMemory;
use crate::hardware::MachineLayout;

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

impl PhysicalMemory {
    /// Returns the lists that were used so far, by CPU and node.
    pub fn list_views(&self, layout: &MachineLayout) -> Vec<ListView> {
        let nodes = self.zones.len();
        let view = |(place, list): (usize, &Option<PcpList>)| {
            let (list, zone) = (list.as_ref()?, &self.zones[place % nodes]);
            Some(ListView {
                cpu: layout.cpus[place / nodes].id,
                node: layout.node_ids[place % nodes],
                pages: list.count.into(),
                high: list.tuner.high(&zone.limits).into(),
                bounds: (zone.limits.high_default.into(), zone.limits.high_max.into()),
            })
        };
        self.pcp_lists.iter().enumerate().filter_map(view).collect()
    }
}
