//! Reads /proc/zoneinfo: the free memory of each node, and the kernel's reserve of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nodeward_machine::{Error, Result};
use nodeward_model::{NodeHeadroom, NodeId};

use crate::kernel_file;

/// Returns the headroom of every node with memory.
pub fn headroom(root: &Path) -> Result<BTreeMap<NodeId, NodeHeadroom>> {
    read(root).map(|text| parse(&text))
}

/// Returns the path of the file under `root`.
pub(super) fn path(root: &Path) -> PathBuf {
    root.join("proc/zoneinfo")
}

pub(super) fn read(root: &Path) -> Result<String> {
    let path = path(root);
    kernel_file::read_to_string(&path).map_err(|source| Error::Read { path, source })
}

/// Parses the file. A zone has `pages free N` first, then the watermarks below which the kernel
/// reclaims (`high` is the highest), then `protection: (N, ...)`: pages kept for allocations that
/// can use no other zone. The first zone of a node that has pages also has the counts of the whole
/// node.
fn parse(text: &str) -> BTreeMap<NodeId, NodeHeadroom> {
    let mut headroom: BTreeMap<NodeId, NodeHeadroom> = BTreeMap::new();
    let mut room = &mut NodeHeadroom::default();
    let (mut free, mut high) = (0, 0);
    for line in text.lines() {
        if let Some(node) = node_of(line) {
            room = headroom.entry(node).or_default();
            continue;
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["nr_inactive_file", pages] => room.inactive_file_pages += number(pages),
            ["pages", "free", pages] => free = number(pages),
            ["high", pages] => high = number(pages),
            ["protection:", ref kept @ ..] => {
                let kept = kept.iter().map(|pages| number(pages)).max().unwrap_or(0);
                room.free_pages += free.saturating_sub(high + kept);
            }
            _ => {}
        }
    }
    headroom
}

/// Returns the node of the first line of a zone.
fn node_of(line: &str) -> Option<NodeId> {
    let node = line.strip_prefix("Node ")?.split(',').next()?.parse();
    Some(NodeId(node.unwrap_or(0)))
}

/// Parses a number with punctuation around it; 0 if there is none.
fn number(word: &str) -> u64 {
    word.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format of Linux 6.12, on two nodes, shortened.
    const TEXT: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 72
      nr_inactive_file 1000
      nr_active_file 500
  pages free     3776
        boost    0
        min      190
        low      237
        high     284
        spanned  4095
        protection: (0, 936, 936, 936, 936)
      nr_free_pages 3776
  pagesets
    cpu: 0
              count:    0
              high:     14
Node 0, zone    DMA32
  pages free     236420
        high     18085
        protection: (0, 0, 0, 0, 0)
Node 1, zone      DMA
  pages free     0
        high     0
        protection: (0, 0, 0, 0, 0)
Node 1, zone    DMA32
  per-node stats
      nr_inactive_file 20
  pages free     100
        high     2282
        protection: (0, 0, 0, 0, 0)
";

    #[test]
    fn what_is_reserved_is_no_headroom() {
        let headroom = parse(TEXT);
        let free_pages = (3776 - 284 - 936) + (236_420 - 18_085);
        assert_eq!(headroom[&NodeId(0)], NodeHeadroom { free_pages, inactive_file_pages: 1000 });
        assert_eq!(headroom[&NodeId(1)], NodeHeadroom { free_pages: 0, inactive_file_pages: 20 });
    }

    #[test]
    fn this_kernel_writes_it_so() {
        let headroom = headroom(Path::new("/")).unwrap();
        assert!(
            headroom.values().any(|room| room.free_pages + room.inactive_file_pages > 0),
            "{headroom:?}"
        );
    }
}
