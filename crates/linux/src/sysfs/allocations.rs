//! Reads on which nodes pages were allocated, and for threads on which.

use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::NodeId;

use super::NODE_DIR;
use super::files::{Dir, ReadBuffer};

/// Base pages that were allocated on a node since the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAllocations {
    /// For threads that ran on the node.
    pub local_pages: u64,
    /// For threads that ran elsewhere.
    pub other_pages: u64,
}

/// Returns the allocations on a node. Cost: one file.
///
/// # Errors
/// If the node has no file with these numbers.
pub fn node_allocations(root: &Path, node: NodeId) -> Result<NodeAllocations> {
    let dir = Dir::open(root.join(NODE_DIR))?;
    let (mut buffer, name) = (ReadBuffer::default(), format!("node{node}/numastat"));
    let file = dir.require(&name, &mut buffer)?;
    Ok(parse(file.text))
}

/// Parses lines `NAME NUMBER`.
fn parse(text: &str) -> NodeAllocations {
    let mut found = NodeAllocations::default();
    for (name, number) in text.lines().filter_map(|line| line.split_once(' ')) {
        let pages = number.trim().parse().unwrap_or(0);
        match name {
            "local_node" => found.local_pages = pages,
            "other_node" => found.other_pages = pages,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the two counts are told apart, and nonsense counts nothing.
    #[test]
    fn local_and_other_pages() {
        let text = "numa_hit 9\nnuma_miss 1\nlocal_node 700\nother_node 33\n";
        assert_eq!(parse(text), NodeAllocations { local_pages: 700, other_pages: 33 });
        assert_eq!(parse("local_node many\nother_node\n"), NodeAllocations::default());
        assert!(node_allocations(Path::new("/nowhere"), NodeId(0)).is_err());
    }
}
