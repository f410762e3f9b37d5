//! The nodes of the charts: which have a colour of their own.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_model::NodeId;

use super::blocks::legend;
use super::markup::Element;
use crate::results::observation::{ByNode, WatchReport, sum};

/// As many colours as colour-blind people can tell apart. They are `n0` to `n6` of the style sheet.
const COLOURS: [&str; 7] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6"];
/// The colour of all other nodes together.
const REST: &str = "rest";

/// Nodes with a colour of their own in ascending order, and the others, which share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bands {
    own: Vec<NodeId>,
    others: usize,
}

impl Bands {
    /// Returns those of an observation: of many nodes the ones with most memory in use have a
    /// colour.
    pub fn of(seen: &WatchReport) -> Self {
        let mut most: BTreeMap<NodeId, u64> =
            seen.topology.nodes.keys().map(|&node| (node, 0)).collect();
        for (&node, &bytes) in seen.moments.iter().flat_map(|moment| &moment.node_used_bytes) {
            let most = most.entry(node).or_default();
            *most = bytes.max(*most);
        }
        let all = most.len();
        let mut own: Vec<_> = most.into_iter().collect();
        own.sort_by_key(|&(node, bytes)| (Reverse(bytes), node));
        own.truncate(COLOURS.len());
        let mut own: Vec<NodeId> = own.into_iter().map(|(node, _)| node).collect();
        own.sort_unstable();
        Self { others: all - own.len(), own }
    }

    /// Returns a value for each band, in the order of the bands.
    pub fn values(&self, by_node: &ByNode) -> Vec<u64> {
        let on = |node: &NodeId| by_node.get(node).copied().unwrap_or(0);
        let own: Vec<u64> = self.own.iter().map(on).collect();
        let rest = sum(by_node).saturating_sub(own.iter().sum());
        own.into_iter().chain((self.others > 0).then_some(rest)).collect()
    }

    /// Returns the names of the bands, each with the class that colours it.
    pub fn names(&self) -> Vec<(String, &'static str)> {
        let own = self.own.iter().map(|node| format!("node {node}")).zip(COLOURS);
        let others = (self.others > 0).then(|| (format!("{} other nodes", self.others), REST));
        own.chain(others).collect()
    }

    /// Formats the legend.
    pub fn legend(&self) -> Element {
        legend(&self.names())
    }
}
