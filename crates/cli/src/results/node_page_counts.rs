//! Number of pages by node.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

/// Base pages by node.
pub type NodePageCounts = BTreeMap<NodeId, u64>;
