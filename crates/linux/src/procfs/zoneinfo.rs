//! /proc/zoneinfo: how much each node can give before the kernel begins to reclaim.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

/// What is read of one zone, in pages.
#[derive(Clone, Copy, Debug)]
struct Zone {
    node: NodeId,
    free: u64,
    /// Below this the kernel reclaims.
    low: u64,
    /// What is kept for allocations that can use no higher zone.
    protection: u64,
}

impl Zone {
    fn of(node: u32) -> Self {
        Self { node: NodeId(node), free: 0, low: 0, protection: 0 }
    }

    fn room(self) -> u64 {
        self.free.saturating_sub(self.low).saturating_sub(self.protection)
    }
}

/// Pages by node that can be taken before the kernel reclaims: those above the low watermark of
/// each zone and above what a zone keeps for others. Pages that CPUs have on their own lists do not
/// count, as they do not for the kernel.
pub fn room_pages(text: &str) -> BTreeMap<NodeId, u64> {
    let mut room = BTreeMap::new();
    for zone in zones(text) {
        *room.entry(zone.node).or_default() += zone.room();
    }
    room
}

fn zones(text: &str) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Node ") {
            let number = rest.split(',').next().and_then(|number| number.parse().ok());
            zones.extend(number.map(Zone::of));
        } else if let Some(zone) = zones.last_mut() {
            enter(zone, line.trim());
        }
    }
    zones
}

fn enter(zone: &mut Zone, line: &str) {
    let number = |text: &str| text.trim().parse().ok();
    if let Some(pages) = line.strip_prefix("pages free").and_then(number) {
        zone.free = pages;
    } else if let Some(pages) = line.strip_prefix("low ").and_then(number) {
        zone.low = pages;
    } else if let Some(list) = line.strip_prefix("protection: (") {
        let last = list.trim_end_matches(')').rsplit(',').next();
        zone.protection = last.and_then(number).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a guest with two nodes, kernel 6.12; zones without pages are left out.
    const TEXT: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 0
  pages free     3712
        boost    0
        min      86
        low      107
        high     128
        promo    149
        spanned  4095
        protection: (0, 1955, 1955, 1955, 1955)
      nr_free_pages 3712
  pagesets
    cpu: 0
              count: 0
              high:  0
Node 0, zone    DMA32
  pages free     15000
        boost    0
        min      11251
        low      14063
        high     16875
        protection: (0, 0, 0, 0, 0)
  pagesets
    cpu: 0
              count: 5043
              high:  14063
              batch: 63
Node 1, zone   Normal
  pages free     100
        min      5700
        low      7125
        protection: (0, 0, 0, 0, 0)
";

    #[test]
    fn room_is_what_is_above_the_watermarks() {
        // 3712 - 107 - 1955 = 1650 and 15000 - 14063 = 937; node 1 is below its watermark.
        let expected = [(NodeId(0), 1650 + 937), (NodeId(1), 0)];
        assert_eq!(room_pages(TEXT), expected.into());
    }

    #[test]
    fn odd_text_is_no_room() {
        for text in ["", "pages free 7", "Node x, zone DMA\n pages free 7", "Node 0\n low\n"] {
            assert_eq!(room_pages(text).values().sum::<u64>(), 0, "{text}");
        }
    }
}
