//! Memory that was spread, by node.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodeward_model::NodeId;
use nodeward_model::units::format_bytes;
use nodeward_policy::spread::Weights;
use serde_json::{Value, json};

use super::account::nodes_text;
use crate::results::{MovedNodes, NodePageCounts};

/// The memory that is spread, as it was found.
pub struct SpreadReport {
    /// The nodes.
    pub weights: Weights,
    /// Size of the blocks that stay together, in bytes.
    pub block_bytes: u64,
    /// Number of mappings and segments with pages in memory.
    pub mappings: usize,
    /// Those of them of which pages move.
    pub uneven: usize,
    /// The pages by node.
    pub nodes: MovedNodes,
}

impl SpreadReport {
    /// Formats it for people, with the pages that moved, or were to, by the node they are on now;
    /// `None` if that is not known.
    pub fn text(&self, sent: Option<&NodePageCounts>, page_bytes: u64) -> String {
        let after = sent.map(|sent| self.nodes.after(sent));
        self.heading() + &nodes_text(&self.nodes.before, after.as_ref(), page_bytes)
    }

    /// Formats the plan for people.
    pub fn plan_text(&self, page_bytes: u64) -> String {
        self.heading() + &nodes_text(&self.nodes.before, Some(&self.nodes.planned), page_bytes)
    }

    /// Formats it for programs; see [`Self::text`].
    pub fn json(&self, sent: Option<&NodePageCounts>) -> Value {
        let weights: BTreeMap<NodeId, u32> = self.weights.iter().collect();
        json!({
            "weights": weights,
            "block_bytes": self.block_bytes,
            "mappings": self.mappings,
            "uneven": self.uneven,
            "before_pages": self.nodes.before,
            "planned_pages": self.nodes.planned,
            "after_pages": sent.map(|sent| self.nodes.after(sent)),
        })
    }

    fn heading(&self) -> String {
        let weights: Vec<_> = self.weights.iter().collect();
        let is_equal = weights.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let mut text = "spread over nodes".to_owned();
        for (node, weight) in weights {
            let _ = match is_equal {
                true => write!(text, " {node}"),
                false => write!(text, " {node} (weight {weight})"),
            };
        }
        let (uneven, mappings) = (self.uneven, self.mappings);
        let block = format_bytes(self.block_bytes);
        let _ = writeln!(text, ", in blocks of {block}: {uneven} of {mappings} mappings");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pages: &[(u32, u64)]) -> NodePageCounts {
        pages.iter().map(|&(node, pages)| (NodeId(node), pages)).collect()
    }

    /// Goal: after a move each node has what stayed there and what arrived; without a last look
    /// that is not known. 65,536 pages of 4 KiB are 256 MiB.
    #[test]
    fn what_stayed_counts_too() {
        let report = SpreadReport {
            weights: Weights::new([(NodeId(0), 3), (NodeId(1), 1)]).unwrap(),
            block_bytes: 2 << 20,
            mappings: 3,
            uneven: 1,
            nodes: MovedNodes::new(
                counts(&[(1, 65_536)]),
                &counts(&[(1, 49_152)]),
                &counts(&[(0, 49_152)]),
            ),
        };
        // 152 pages were refused, and are where they were.
        let sent = counts(&[(0, 49_000), (1, 152)]);
        insta::assert_snapshot!(report.text(Some(&sent), 4096) + &report.text(None, 4096));
        let json = report.json(Some(&sent));
        assert_eq!(json["after_pages"], json!({"0": 49_000, "1": 16_536}));
        assert_eq!(report.json(None)["after_pages"], Value::Null);
    }
}
