//! Maps physical addresses to frames and nodes.

use nodeward_lab_counts::{FRAME_BYTES, Shape};

/// The form in which the emulator reports physical addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Guest physical addresses.
    AsTheGuest,
    /// As in QEMU before 8: the start of the node's block, in the order of the blocks, plus the
    /// offset in the memory of all nodes. Blocks come in the order of the nodes, so the start of a
    /// node's memory counts twice. A device's memory may be reported as that of a node.
    ByBlock,
}

/// The position of a frame in the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The row among all frames; for memory that belongs to no node, a number beyond all rows.
    pub row: u64,
    /// The column of counts: the node, or the column for memory that belongs to no node.
    pub column: usize,
}

/// First number of frames outside all nodes.
const OUTSIDE: u64 = 1 << 40;

/// A map of the machine's memory.
#[derive(Debug)]
pub struct Places {
    parts: Vec<Part>,
    outside_column: usize,
}

#[derive(Debug)]
struct Part {
    first: u64,
    end: u64,
    row: u64,
    column: usize,
}

impl Places {
    /// Creates the map of a machine, for one form of addresses.
    pub fn new(shape: &Shape, telling: Telling) -> Self {
        let mut row = 0;
        let mut node_start = (None, 0);
        let mut parts = Vec::new();
        for memory in &shape.memory {
            if node_start.0 != Some(memory.node) {
                node_start = (Some(memory.node), row);
            }
            let first = match telling {
                Telling::AsTheGuest => memory.first,
                Telling::ByBlock => node_start.1 + row,
            };
            let (end, column) = (first + memory.count, memory.node as usize);
            parts.push(Part { first, end, row, column });
            row += memory.count;
        }
        Self { parts, outside_column: shape.nodes() }
    }

    /// Returns the place of a physical address.
    pub fn of(&self, address: u64) -> Place {
        let frame = address / FRAME_BYTES;
        let part = self.parts.iter().find(|part| (part.first..part.end).contains(&frame));
        match part {
            Some(part) => Place { row: part.row + frame - part.first, column: part.column },
            None => Place { row: OUTSIDE | frame, column: self.outside_column },
        }
    }
}

/// Returns whether a row is that of a frame.
pub fn is_frame(row: u64) -> bool {
    row < OUTSIDE
}

#[cfg(test)]
mod tests {
    use nodeward_lab_counts::{Frames, Llc};

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Nodes of 2, 1 and 1 GiB. The hole for devices begins at 3 GiB, memory continues at 4 GiB.
    fn shape() -> Shape {
        let frames = |mib| mib * MIB / FRAME_BYTES;
        Shape {
            places: vec![Some(0), Some(1), Some(3)],
            memory: vec![
                Frames { first: 0, count: frames(2048), node: 0 },
                Frames { first: frames(2048), count: frames(1024), node: 1 },
                Frames { first: frames(4096), count: frames(1024), node: 3 },
            ],
            llc: Llc { bytes: 1 << 20, ways: 8 },
            price_ns: Vec::new(),
            per_frame: false,
        }
    }

    /// Goal: a guest address is found on its node, and not in a hole.
    #[test]
    fn addresses_of_the_guest() {
        let places = Places::new(&shape(), Telling::AsTheGuest);
        let row = |mib| mib * MIB / FRAME_BYTES;
        assert_eq!(places.of(0), Place { row: 0, column: 0 });
        assert_eq!(places.of(2048 * MIB), Place { row: row(2048), column: 1 });
        assert_eq!(places.of(4096 * MIB + 5000), Place { row: row(3072) + 1, column: 3 });
        let outside = places.of(3072 * MIB);
        assert!(!is_frame(outside.row));
        assert_eq!(outside.column, 4);
    }

    /// Goal: an address by block is found in the same row: node i of size m begins at twice the
    /// memory before it.
    #[test]
    fn addresses_by_block() {
        let places = Places::new(&shape(), Telling::ByBlock);
        let row = |mib| mib * MIB / FRAME_BYTES;
        assert_eq!(places.of(2047 * MIB), Place { row: row(2047), column: 0 });
        assert_eq!(places.of(4096 * MIB), Place { row: row(2048), column: 1 }); // 2 x 2048
        assert_eq!(places.of(6144 * MIB), Place { row: row(3072), column: 3 }); // 2 x 3072
        assert_eq!(places.of(7167 * MIB), Place { row: row(4095), column: 3 });
        assert!(!is_frame(places.of(2048 * MIB).row));
        assert!(!is_frame(places.of(7168 * MIB).row));
    }

    /// Goal: a node whose memory is split by the hole for devices is still one block.
    #[test]
    fn a_split_node_is_one_block() {
        let mut shape = shape();
        shape.memory[1] = Frames { first: 0x80000, count: 0x40000, node: 1 };
        shape.memory[2] = Frames { first: 0x100000, count: 0x40000, node: 1 };
        let places = Places::new(&shape, Telling::ByBlock);
        // The node begins after 0x80000 frames, the part above the hole after 0xc0000.
        let above = places.of((0x80000 + 0xc0000) * FRAME_BYTES);
        assert_eq!(above, Place { row: 0xc0000, column: 1 });
        assert_eq!(Places::new(&shape, Telling::AsTheGuest).of(0x100000 * FRAME_BYTES).column, 1);
    }
}
