//! Which nodes may be named here.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::nodestring::Context;
use nodeward_model::{NodeId, Nodemask, Room, Topology};

use crate::procfs::privileges::Privileges;
use crate::procfs::zoneinfo;

/// How much more each node with memory can take.
pub fn rooms(root: &Path) -> Result<BTreeMap<NodeId, Room>> {
    zoneinfo::rooms(root)
}

/// What node strings on this machine are read against: its nodes, and those that our cpuset allows.
pub fn context(root: &Path, topology: &Topology) -> Result<Context> {
    let existing = topology.node_ids();
    let allowed = Privileges::of_this_thread(root)?.memory_nodes;
    let possible = fs::read_to_string(root.join("sys/devices/system/node/possible"));
    let possible: Option<Nodemask> = possible.ok().and_then(|text| text.parse().ok());
    Ok(Context {
        allowed: allowed.unwrap_or_else(|| existing.clone()).and(&existing),
        highest_possible: possible
            .or(Some(existing.clone()))
            .and_then(|nodes| nodes.last())
            .unwrap_or(NodeId(0)),
        existing,
    })
}
