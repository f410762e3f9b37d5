//! Maps physical addresses to frames and nodes.

use nodeward_lab_counts::{CountsLayout, FRAME_BYTES};

/// The form in which the emulator reports physical addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhysicalAddressKind {
    /// Guest physical addresses.
    GuestPhysical,
    /// As in QEMU before 8: the start of the node's block, in the order of the blocks, plus the
    /// offset in the memory of all nodes. Blocks come in the order of the nodes, so the start of a
    /// node's memory counts twice. A device's memory may be reported as that of a node.
    RamBlock,
}

/// The position of a frame in the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLocation {
    /// The row among all frames; for memory that belongs to no node, a number beyond all rows.
    pub row: u64,
    /// The column of counts: the node, or the column for memory that belongs to no node.
    pub column: usize,
}

/// First number of frames outside all nodes.
const NON_NODE_ROWS: u64 = 1 << 40;

/// A map of the machine's memory.
#[derive(Debug)]
pub struct PhysicalMemoryMap {
    ranges: Vec<NodeRange>,
    non_node_column: usize,
}

#[derive(Debug)]
struct NodeRange {
    first: u64,
    end: u64,
    row: u64,
    column: usize,
}

impl PhysicalMemoryMap {
    /// Creates the map of a machine, for one form of addresses.
    pub fn new(shape: &CountsLayout, telling: PhysicalAddressKind) -> Self {
        let mut row = 0;
        let mut node_start = (None, 0);
        let mut parts = Vec::new();
        for memory in &shape.memory {
            if node_start.0 != Some(memory.node) {
                node_start = (Some(memory.node), row);
            }
            let first = match telling {
                PhysicalAddressKind::GuestPhysical => memory.first_frame,
                PhysicalAddressKind::RamBlock => node_start.1 + row,
            };
            let (end, column) = (first + memory.frame_count, memory.node as usize);
            parts.push(NodeRange { first, end, row, column });
            row += memory.frame_count;
        }
        Self { ranges: parts, non_node_column: shape.nodes() }
    }

    /// Returns the place of a physical address.
    pub fn locate(&self, address: u64) -> FrameLocation {
        let frame = address / FRAME_BYTES;
        let part = self.ranges.iter().find(|part| (part.first..part.end).contains(&frame));
        match part {
            Some(part) => FrameLocation { row: part.row + frame - part.first, column: part.column },
            None => FrameLocation { row: NON_NODE_ROWS | frame, column: self.non_node_column },
        }
    }
}

/// Returns whether a row is that of a frame.
pub fn is_node_row(row: u64) -> bool {
    row < NON_NODE_ROWS
}

#[cfg(test)]
mod tests {
    use nodeward_lab_counts::{CacheGeometry, FrameRange};

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Nodes of 2, 1 and 1 GiB. The hole for devices begins at 3 GiB, memory continues at 4 GiB.
    fn shape() -> CountsLayout {
        let frames = |mib| mib * MIB / FRAME_BYTES;
        CountsLayout {
            cpu_slots: vec![Some(0), Some(1), Some(3)],
            memory: vec![
                FrameRange { first_frame: 0, frame_count: frames(2048), node: 0 },
                FrameRange { first_frame: frames(2048), frame_count: frames(1024), node: 1 },
                FrameRange { first_frame: frames(4096), frame_count: frames(1024), node: 3 },
            ],
            llc: CacheGeometry { bytes: 1 << 20, ways: 8 },
            miss_delay_ns: Vec::new(),
            per_frame: false,
        }
    }

    /// Goal: a guest address is found on its node, and not in a hole.
    #[test]
    fn addresses_of_the_guest() {
        let places = PhysicalMemoryMap::new(&shape(), PhysicalAddressKind::GuestPhysical);
        let row = |mib| mib * MIB / FRAME_BYTES;
        assert_eq!(places.locate(0), FrameLocation { row: 0, column: 0 });
        assert_eq!(places.locate(2048 * MIB), FrameLocation { row: row(2048), column: 1 });
        assert_eq!(
            places.locate(4096 * MIB + 5000),
            FrameLocation { row: row(3072) + 1, column: 3 }
        );
        let outside = places.locate(3072 * MIB);
        assert!(!is_node_row(outside.row));
        assert_eq!(outside.column, 4);
    }

    /// Goal: an address by block is found in the same row: node i of size m begins at twice the
    /// memory before it.
    #[test]
    fn addresses_by_block() {
        let places = PhysicalMemoryMap::new(&shape(), PhysicalAddressKind::RamBlock);
        let row = |mib| mib * MIB / FRAME_BYTES;
        assert_eq!(places.locate(2047 * MIB), FrameLocation { row: row(2047), column: 0 });
        // 2 x 2048.
        assert_eq!(places.locate(4096 * MIB), FrameLocation { row: row(2048), column: 1 });
        // 2 x 3072.
        assert_eq!(places.locate(6144 * MIB), FrameLocation { row: row(3072), column: 3 });
        assert_eq!(places.locate(7167 * MIB), FrameLocation { row: row(4095), column: 3 });
        assert!(!is_node_row(places.locate(2048 * MIB).row));
        assert!(!is_node_row(places.locate(7168 * MIB).row));
    }

    /// Goal: a node whose memory is split by the hole for devices is still one block.
    #[test]
    fn a_split_node_is_one_block() {
        let mut shape = shape();
        shape.memory[1] = FrameRange { first_frame: 0x80000, frame_count: 0x40000, node: 1 };
        shape.memory[2] = FrameRange { first_frame: 0x100000, frame_count: 0x40000, node: 1 };
        let places = PhysicalMemoryMap::new(&shape, PhysicalAddressKind::RamBlock);
        // The node begins after 0x80000 frames, the part above the hole after 0xc0000.
        let above = places.locate((0x80000 + 0xc0000) * FRAME_BYTES);
        assert_eq!(above, FrameLocation { row: 0xc0000, column: 1 });
        assert_eq!(
            PhysicalMemoryMap::new(&shape, PhysicalAddressKind::GuestPhysical)
                .locate(0x100000 * FRAME_BYTES)
                .column,
            1
        );
    }
}
