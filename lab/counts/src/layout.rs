//! The file format: 64-bit little-endian words. It begins with a head, which describes the
//! machine's shape. An area for each CPU follows, then optionally two words for each frame and
//! node.
//!
//! The launcher writes the head, the counter everything else. Only the CPU itself writes its area,
//! so no locks are needed.

use std::io::{Error, ErrorKind, Result};
use std::ops::Range;

/// Bytes per word.
pub const WORD_BYTES: usize = 8;
/// Bytes per frame.
pub const FRAME_BYTES: u64 = 4096;
/// Number of slots for address spaces. Slot 0 is shared by all without a slot.
pub const SLOTS: usize = 256;
/// The slots that a program can choose. Higher ones are assigned on demand.
pub const SELECTABLE_SLOTS: Range<usize> = 1..64;

const MAGIC: u64 = u64::from_le_bytes(*b"NWCOUNTS");
const VERSION: u64 = 1;
/// Words of the head that every file has.
const FIXED: usize = 16;
/// Areas begin at multiples of this many words, the size of a page.
const ALIGN: usize = 512;
/// In place of a node: no CPU is here.
const EMPTY: u64 = u64::MAX;
/// Node ids are below this.
const NODES_MAX: u64 = 64;
/// Maximum number of CPUs or memory ranges; a file that claims more is invalid.
const LIST_MAX: u64 = 4096;
/// Physical addresses have 52 bits.
const FRAMES_MAX: u64 = 1 << 40;

/// The shape of a machine, and the parameters of counting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountsLayout {
    /// For each place of the emulator, in order: the node of its CPU, or `None` if it is empty.
    /// CPUs are numbered in this order.
    pub cpu_slots: Vec<Option<u32>>,
    /// The memory, by ascending addresses.
    pub memory: Vec<FrameRange>,
    /// The cache of each node.
    pub llc: CacheGeometry,
    /// `miss_delay_ns[from][to]`: delay of a CPU of node `from` for a miss to node `to`.
    pub miss_delay_ns: Vec<Vec<u64>>,
    /// Whether there is room for counts of single frames.
    pub per_frame: bool,
}

/// A range of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRange {
    /// The number of its first frame.
    pub first_frame: u64,
    /// The number of frames.
    pub frame_count: u64,
    /// Their node.
    pub node: u32,
}

/// Parameters of a last-level cache, shared by the CPUs of a node; its lines have 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheGeometry {
    /// Its size in bytes.
    pub bytes: u64,
    /// Its associativity.
    pub ways: u64,
}

/// Positions of the control words.
pub const CONTROL: ControlWords = ControlWords { writer: 8, counting: 9, epoch: 10 };

/// Positions of the words that change while the machine runs, besides counts.
#[derive(Clone, Copy, Debug)]
pub struct ControlWords {
    /// Not 0 once a counter writes: the interface version of the emulator.
    pub writer: usize,
    /// 1 while accesses are counted.
    pub counting: usize,
    /// Number of zeroings. An area with another number counts as zero.
    pub epoch: usize,
}

/// The words of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuArea {
    /// The first word: the epoch of its counts.
    pub start: usize,
    columns: usize,
}

impl CpuArea {
    /// Words before the counts: the epoch, queries to the emulator, nanoseconds of delay.
    const HEAD: usize = 4;

    /// Returns the word with the number of queries to the emulator for a translation.
    pub fn lookups(&self) -> usize {
        self.start + 1
    }

    /// Returns the word with the nanoseconds that the CPU was delayed.
    pub fn held_ns(&self) -> usize {
        self.start + 2
    }

    /// Returns the first of the two words, accesses and misses, of a slot and a column (a node id,
    /// or the last column for memory that belongs to no node).
    pub fn cell(&self, slot: usize, column: usize) -> usize {
        self.start + Self::HEAD + (slot * self.columns + column) * 2
    }

    /// Returns all words that hold numbers, without the epoch.
    pub fn counts(&self) -> Range<usize> {
        self.start + 1..self.cell(SLOTS, 0)
    }
}

impl CountsLayout {
    /// Returns the limit of node ids: all are below it.
    pub fn nodes(&self) -> usize {
        let of_cpus = self.cpu_slots.iter().flatten().copied();
        let of_memory = self.memory.iter().map(|frames| frames.node);
        of_cpus.chain(of_memory).max().map_or(0, |id| id as usize + 1)
    }

    /// Returns the number of columns: one per node, and one for memory that belongs to no node.
    pub fn columns(&self) -> usize {
        self.nodes() + 1
    }

    /// Returns the node of each CPU.
    pub fn cpu_nodes(&self) -> Vec<u32> {
        self.cpu_slots.iter().flatten().copied().collect()
    }

    /// Returns the number of frames of the memory.
    pub fn frame_count(&self) -> u64 {
        self.memory.iter().map(|frames| frames.frame_count).sum()
    }

    /// Returns the index of a frame among all, and its node.
    pub fn row(&self, frame: u64) -> Option<(u64, u32)> {
        let mut before = 0;
        for part in &self.memory {
            if (part.first_frame..part.first_frame + part.frame_count).contains(&frame) {
                return Some((before + frame - part.first_frame, part.node));
            }
            before += part.frame_count;
        }
        None
    }

    /// Returns the word with the address space of a slot: its CR3, or 0.
    pub fn space_word(&self, slot: usize) -> usize {
        FIXED + self.cpu_slots.len() + 3 * self.memory.len() + self.nodes() * self.nodes() + slot
    }

    /// Returns the word that is 1 if a slot's accesses are also counted by frame.
    pub fn by_frame_word(&self, slot: usize) -> usize {
        self.space_word(SLOTS) + slot
    }

    /// Returns the words of a CPU.
    pub fn area(&self, cpu: usize) -> CpuArea {
        let head = self.by_frame_word(SLOTS).next_multiple_of(ALIGN);
        let mut area = CpuArea { start: 0, columns: self.columns() };
        let each = area.cell(SLOTS, 0).next_multiple_of(ALIGN);
        area.start = head + cpu * each;
        area
    }

    /// Returns the first word of the frames' counts.
    pub fn frames_start(&self) -> usize {
        self.area(self.cpu_nodes().len()).start
    }

    /// Returns the first of the two words, accesses and misses, of a frame (by row) and the
    /// accessing node.
    pub fn frame_cell(&self, row: u64, node: usize) -> usize {
        self.frames_start() + (row as usize * self.nodes() + node) * 2
    }

    /// Returns the length of the file in bytes: a power of two, as a device's memory must be.
    pub fn file_bytes(&self) -> u64 {
        let frames = if self.per_frame { self.frame_count() } else { 0 };
        let words = self.frame_cell(frames, 0);
        (words * WORD_BYTES).next_power_of_two() as u64
    }

    /// Returns the head of a file without counts; counting is on.
    pub fn encode_header(&self) -> Vec<u8> {
        let nodes = self.nodes();
        let mut words = vec![MAGIC, VERSION, self.cpu_slots.len() as u64, nodes as u64];
        words.extend([self.memory.len() as u64, self.llc.bytes, self.llc.ways]);
        words.push(u64::from(self.per_frame));
        words.resize(FIXED, 0);
        words[CONTROL.counting] = 1;
        words.extend(self.cpu_slots.iter().map(|node| node.map_or(EMPTY, u64::from)));
        for part in &self.memory {
            words.extend([part.first_frame, part.frame_count, u64::from(part.node)]);
        }
        let delay = |from: usize, to: usize| self.miss_delay_ns.get(from)?.get(to).copied();
        let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
        words.extend(pairs.map(|(from, to)| delay(from, to).unwrap_or(0)));
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Reads the shape from a file's head; `read` returns a range of its words.
    ///
    /// # Errors
    /// Those of `read`, and `InvalidData` if it is not a file of counts.
    pub fn decode_header(mut read: impl FnMut(Range<usize>) -> Result<Vec<u64>>) -> Result<Self> {
        let fixed = read(0..FIXED)?;
        let [magic, version, places, nodes, memory, bytes, ways, per_frame] = fixed[..8] else {
            return Err(garbage("a head that is too short"));
        };
        if magic != MAGIC || version != VERSION {
            return Err(garbage("no counts, or those of another version of the lab"));
        }
        if places > LIST_MAX || memory > LIST_MAX || nodes > NODES_MAX {
            return Err(garbage("a machine that is too large"));
        }
        let [places, nodes, memory] = [places, nodes, memory].map(|number| number as usize);
        let lists = read(FIXED..FIXED + places + 3 * memory + nodes * nodes)?;
        let (places, lists) = lists.split_at(places);
        let (memory, delay_ns) = lists.split_at(3 * memory);
        let shape = Self {
            cpu_slots: places.iter().map(|&node| u32::try_from(node).ok()).collect(),
            memory: memory.chunks_exact(3).map(parse_range).collect::<Result<_>>()?,
            llc: CacheGeometry { bytes, ways },
            miss_delay_ns: delay_ns.chunks_exact(nodes.max(1)).map(<[u64]>::to_vec).collect(),
            per_frame: per_frame == 1,
        };
        if shape.nodes() != nodes {
            return Err(garbage("nodes that are not there"));
        }
        Ok(shape)
    }
}

fn parse_range(words: &[u64]) -> Result<FrameRange> {
    match (words, u32::try_from(words[2])) {
        (&[first, count, _], Ok(node)) if first.max(count) < FRAMES_MAX => {
            Ok(FrameRange { first_frame: first, frame_count: count, node })
        }
        _ => Err(garbage("memory that makes no sense")),
    }
}

fn garbage(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the file of counts holds {what}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(bytes: &[u8]) -> Vec<u64> {
        let (words, rest) = bytes.as_chunks();
        assert_eq!(rest, []);
        words.iter().copied().map(u64::from_le_bytes).collect()
    }

    fn decoded(words: &[u64]) -> Result<CountsLayout> {
        CountsLayout::decode_header(|range| {
            let found = words.get(range).map(<[u64]>::to_vec);
            found.ok_or_else(|| ErrorKind::UnexpectedEof.into())
        })
    }

    /// Two nodes, 0 and 2, the memory of the second in two parts; an empty place in the middle.
    fn shape(per_frame: bool) -> CountsLayout {
        CountsLayout {
            cpu_slots: vec![Some(0), None, Some(2)],
            memory: vec![
                FrameRange { first_frame: 0, frame_count: 512, node: 0 },
                FrameRange { first_frame: 512, frame_count: 256, node: 2 },
                FrameRange { first_frame: 4096, frame_count: 256, node: 2 },
            ],
            llc: CacheGeometry { bytes: 1 << 20, ways: 8 },
            miss_delay_ns: vec![vec![0, 0, 7], vec![0; 3], vec![9, 0, 0]],
            per_frame,
        }
    }

    /// Goal: the counter and the readers understand the head that the launcher writes.
    #[test]
    fn a_head_is_read_as_it_was_written() {
        for per_frame in [false, true] {
            assert_eq!(
                decoded(&words(&shape(per_frame).encode_header())).unwrap(),
                shape(per_frame)
            );
        }
    }

    /// Goal: no word has two meanings, and all are within the file.
    #[test]
    fn areas_do_not_overlap() {
        let shape = shape(true);
        assert_eq!(shape.encode_header().len(), shape.space_word(0) * WORD_BYTES);
        assert!(shape.by_frame_word(SLOTS) <= shape.area(0).start);
        // 256 slots of 3 nodes and one column more, two words each, behind 4 words.
        assert_eq!(shape.area(0).counts().end - shape.area(0).start, 256 * 4 * 2 + 4);
        assert!(shape.area(0).counts().end <= shape.area(1).start);
        assert!(shape.area(1).counts().end <= shape.frames_start());
        // 1024 frames, three nodes, two words.
        let end = shape.frame_cell(1024, 0);
        assert_eq!(end - shape.frames_start(), 1024 * 3 * 2);
        assert!((end * WORD_BYTES) as u64 <= shape.file_bytes());
        assert!(shape.file_bytes().is_power_of_two());
    }

    /// Goal: a frame is found where its node's memory continues after a hole, and not in the hole.
    #[test]
    fn frames_have_rows_across_holes() {
        let rows = [0, 511, 512, 767, 768, 4095, 4096, 4351, 4352].map(|f| shape(true).row(f));
        let expected = [
            Some((0, 0)),
            Some((511, 0)),
            Some((512, 2)),
            Some((767, 2)), // 512 + 256 - 1
            None,
            None,
            Some((768, 2)),
            Some((1023, 2)), // 512 + 256 + 256 - 1
            None,
        ];
        assert_eq!(rows, expected);
    }

    /// Goal: any other file is refused, without a panic of the reader.
    #[test]
    fn garbage_is_refused() {
        let good = words(&shape(true).encode_header());
        for (at, value) in [(0, 1), (1, 9), (2, 1 << 40), (3, 65), (3, 2), (4, 5000), (19, 1 << 63)]
        {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(decoded(&bad).is_err(), "word {at} = {value}");
        }
        assert!(decoded(&good[..20]).is_err());
    }

    proptest! {
        /// Goal: no invalid head makes the reader panic.
        #[test]
        fn any_word_may_be_wrong(at in 0..40_usize, value: u64) {
            let mut head = words(&shape(true).encode_header());
            head[at % 30] = value;
            let _ = decoded(&head);
        }
    }
}
