//! Maps page frame numbers to nodes and folios: the fastest way to read the residency of many
//! pages.
//!
//! The kernel shows frame numbers in pagemap to CAP_SYS_ADMIN only. The node of a frame is read
//! from the memory blocks in sysfs. The node of a frame in a block that two nodes share is not
//! known; such pages are queried one by one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use nodeward_model::NodeId;

use crate::kernel_file;
use crate::pagemap::{self, PAGE_TABLE_PAGES};
use crate::sys::{AreaAdvice, AreaBacking, MappedArea};

/// Data about page frames, loaded at the first use: reading a few pages needs none.
#[derive(Debug)]
pub struct LazyFrameMap {
    page_bytes: u64,
    map: OnceLock<Option<FrameMap>>,
}

impl LazyFrameMap {
    /// Returns a value with nothing loaded.
    pub fn new(page_bytes: u64) -> Self {
        Self { page_bytes, map: OnceLock::new() }
    }

    /// Returns the data; `None` if this process may not read frame numbers.
    pub fn get(&self) -> Option<&FrameMap> {
        self.map.get_or_init(|| FrameMap::open(Path::new("/"), self.page_bytes)).as_ref()
    }
}

/// Data about page frames.
#[derive(Debug)]
pub struct FrameMap {
    blocks: Vec<MemoryBlock>,
    block_shift: u32,
    /// The frame of the zero page; `None` if it could not be found.
    zero_frame: Option<u64>,
    flags: Option<File>,
}

impl FrameMap {
    /// Reads the memory blocks (a power of two in size) under `root`. `None` if this process may
    /// not read frame numbers, or the kernel has no memory blocks.
    pub fn open(root: &Path, page_bytes: u64) -> Option<Self> {
        let [one, other] = zero_page_frames(page_bytes)?;
        let zero_frame = (one == other).then_some(one);
        let system = root.join("sys/devices/system");
        let block_bytes =
            kernel_file::read_to_string(system.join("memory/block_size_bytes")).ok()?;
        let block_bytes = u64::from_str_radix(block_bytes.trim(), 16).ok()?;
        let blocks = blocks(&system.join("node")).ok()?;
        let flags = File::open(root.join("proc/kpageflags")).ok();
        let block_shift = (block_bytes / page_bytes).checked_ilog2()?;
        (!blocks.is_empty()).then_some(Self { blocks, block_shift, zero_frame, flags })
    }

    /// Returns the node of a frame; `None` if only a query of the page can tell.
    pub fn node(&self, frame: u64) -> Option<NodeId> {
        let block = usize::try_from(frame >> self.block_shift).ok()?;
        match self.blocks.get(block)? {
            MemoryBlock::Node(node) => Some(*node),
            MemoryBlock::Unknown | MemoryBlock::SeveralNodes => None,
        }
    }

    /// Returns one past the last frame of the last memory block.
    pub fn end(&self) -> u64 {
        (self.blocks.len() as u64) << self.block_shift
    }

    /// Returns true if this is the zero page that all untouched memory shares; `None` if only a
    /// query of the page can tell.
    pub fn is_zero(&self, frame: u64) -> Option<bool> {
        self.zero_frame.map(|zero| frame == zero)
    }

    /// Returns true if a frame is a tail page of a folio, or a page of zeros.
    pub fn is_in_folio(&self, frame: u64) -> bool {
        self.flags(frame, 1).first().is_some_and(|flags| flags.is_tail() || flags.is_zero())
    }

    /// Returns true if the frames of a whole page table, from this one on, are one folio. A folio
    /// begins at a multiple of its size, so a folio that holds the middle frame and does not begin
    /// there holds all of them.
    pub fn is_page_table_folio(&self, first: u64) -> bool {
        let middle = first + PAGE_TABLE_PAGES as u64 / 2;
        first.is_multiple_of(PAGE_TABLE_PAGES as u64)
            && self
                .flags(middle, 1)
                .first()
                .is_some_and(|flags| flags.is_tail() && !flags.is_zero())
    }

    /// Returns the kernel's flags of `count` frames from `first` on; empty if they cannot be read.
    pub fn flags(&self, first: u64, count: usize) -> Vec<FrameFlags> {
        let mut bytes = vec![0; count * 8];
        let read = self.flags.as_ref().map(|file| file.read_exact_at(&mut bytes, first * 8));
        match read {
            Some(Ok(())) => bytes.chunks_exact(8).map(FrameFlags::from_bytes).collect(),
            Some(Err(_)) | None => Vec::new(),
        }
    }
}

/// The flags of one frame (`Documentation/admin-guide/mm/pagemap.rst` of the kernel).
#[derive(Clone, Copy, Debug)]
pub struct FrameFlags(u64);

impl FrameFlags {
    fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.try_into().map_or(0, u64::from_ne_bytes))
    }

    /// Returns true for a tail page: inside a folio, not its first page.
    pub fn is_tail(self) -> bool {
        self.0 >> 16 & 1 == 1
    }

    /// Returns true for a page of zeros, base or huge.
    pub fn is_zero(self) -> bool {
        self.0 >> 24 & 1 == 1
    }
}

/// The node of the frames in one memory block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryBlock {
    Unknown,
    Node(NodeId),
    SeveralNodes,
}

/// Reads the node of each memory block: `nodeN` has a link `memoryM` for each of its blocks.
fn blocks(nodes: &Path) -> io::Result<Vec<MemoryBlock>> {
    let mut blocks = Vec::new();
    for (node, folder) in numbered(nodes, "node")? {
        for (block, _) in numbered(&folder, "memory")? {
            assign_block(&mut blocks, block as usize, NodeId(node));
        }
    }
    Ok(blocks)
}

fn assign_block(blocks: &mut Vec<MemoryBlock>, block: usize, node: NodeId) {
    if blocks.len() <= block {
        blocks.resize(block + 1, MemoryBlock::Unknown);
    }
    blocks[block] = match blocks[block] {
        MemoryBlock::Unknown => MemoryBlock::Node(node),
        MemoryBlock::Node(_) | MemoryBlock::SeveralNodes => MemoryBlock::SeveralNodes,
    };
}

/// Returns the entries of a directory whose names are `prefix` and a number.
fn numbered(folder: &Path, prefix: &str) -> io::Result<Vec<(u32, std::path::PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok());
        found.extend(number.map(|number| (number, entry.path())));
    }
    Ok(found)
}

/// Returns the frames of two pages of this process that were only read. Both are the shared zero
/// page, unless something filled them (mlockall(2) does), and then they differ. `None` if this
/// process may not read frame numbers. (The pages are a new mapping, because heap memory may have
/// been written by an earlier owner.)
fn zero_page_frames(page_bytes: u64) -> Option<[u64; 2]> {
    let page = usize::try_from(page_bytes).ok()?;
    let area = MappedArea::map(2 * page, AreaBacking::Anonymous).ok()?;
    // A kernel without huge pages refuses this, and has no huge zero page either.
    let _ = area.advise(AreaAdvice::BasePages);
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    let frame = |index: usize| {
        std::hint::black_box(area.words()[index * page / 8].load(Ordering::Relaxed));
        let address = area.address() + (index * page) as u64;
        pagemap::entry(&pagemap, address, page_bytes).ok()?.frame()
    };
    Some([frame(0)?, frame(1)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes with 128 MiB blocks; both share block 2, and block 4 belongs to none.
    fn two_nodes() -> FrameMap {
        let mut blocks = Vec::new();
        for (block, node) in [(0, 0), (1, 0), (2, 0), (2, 1), (3, 1), (5, 1)] {
            assign_block(&mut blocks, block, NodeId(node));
        }
        FrameMap { blocks, block_shift: 15, zero_frame: Some(7), flags: None }
    }

    #[test]
    fn a_frame_belongs_to_the_node_of_its_block() {
        let frames = two_nodes();
        assert_eq!(frames.node(0), Some(NodeId(0)));
        assert_eq!(frames.node(2 * 32768 - 1), Some(NodeId(0)));
        assert_eq!(frames.node(3 * 32768), Some(NodeId(1)));
        assert_eq!(frames.node(5 * 32768 + 1), Some(NodeId(1)));
    }

    #[test]
    fn shared_and_missing_blocks_tell_nothing() {
        let frames = two_nodes();
        for frame in [2 * 32768, 4 * 32768, 6 * 32768, u64::MAX] {
            assert_eq!(frames.node(frame), None, "frame {frame}");
        }
    }

    /// Goal: the zero page is found whatever the heap held before. A recycled heap block must not
    /// be taken for it: its frame would then count as unmovable in any process that gets it.
    #[test]
    fn the_page_of_zeros_is_not_a_recycled_page() {
        const MIB: usize = 1 << 20;
        // When this is freed, the C library starts to recycle blocks of up to its size.
        drop(std::hint::black_box(vec![1_u8; 16 * MIB]));
        let written = std::hint::black_box([(); 8].map(|()| vec![1_u8; MIB]));
        let _between = vec![1_u8; 4096];
        drop(written);
        let page_bytes = rustix::param::page_size() as u64;
        let Some(frames) = FrameMap::open(Path::new("/"), page_bytes) else {
            return println!("skipped: frame numbers are hidden from us");
        };
        let zero = frames.zero_frame.expect("untouched pages are the page of zeros");
        match frames.flags(zero, 1).first() {
            Some(flags) => assert!(flags.is_zero(), "{zero:#x} is not the page of zeros"),
            None => println!("skipped: flags of frames are hidden from us"),
        }
    }
}
