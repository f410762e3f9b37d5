//! The nodes that may be named on this machine.

use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::nodestring::NodestringContext;
use nodeward_model::{NodeId, Nodemask, Topology};

use crate::kernel_file;
use crate::procfs::privileges::Privileges;

/// Returns the nodes against which node strings are resolved: those of the machine, and those that
/// this process's cpuset allows.
pub fn nodestring_context(root: &Path, topology: &Topology) -> Result<NodestringContext> {
    let existing = topology.node_ids();
    let allowed = Privileges::of_this_thread(root)?.memory_nodes;
    let possible = kernel_file::read_to_string(root.join("sys/devices/system/node/possible"));
    let possible: Option<Nodemask> = possible.ok().and_then(|text| text.parse().ok());
    Ok(NodestringContext {
        allowed: allowed.unwrap_or_else(|| existing.clone()).and(&existing),
        highest_possible: possible
            .or(Some(existing.clone()))
            .and_then(|nodes| nodes.last())
            .unwrap_or(NodeId(0)),
        existing,
    })
}
