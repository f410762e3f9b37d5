//! The address space of a pool: blocks of chunks, and the state of each page in them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use nodeward_model::NodeId;

use super::buddy_zone::ChunkNo;
use super::error::PoolError;
use super::page_states::{PageState, PageStates};
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::error::{Error, Result, system};
use crate::sections;
use crate::sync::lock;
use crate::sys::{Advice, AnonMapping, Slot, Uffd};

/// Maximum number of blocks of a pool. Each block of a kind has twice the chunks of the previous
/// one.
const BLOCKS_MAX: usize = 256;

/// Chunks in the first block of a kind: 512 MiB of address space. Each block takes at least one
/// mapping, of which a process can have some ten thousand.
const FIRST_BLOCK_CHUNKS: usize = 256;

/// Sections of a block that is registered with userfaultfd.
const SECTIONS: usize = 8;

/// Number of the most recent empty chunks among which one of the lane's own section is sought.
const EMPTY_CHUNKS_SEARCHED: usize = 8;

/// The use of a block's chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockKind {
    /// Page size of its memory.
    pub size: PageSize,
    /// Source of its memory.
    pub origin: PageOrigin,
}

/// The source of a chunk's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageOrigin {
    /// The kernel: from this node as long as it has room; `None`: as the memory policy of the
    /// thread says that touches it first.
    Node(Option<NodeId>),
    /// Regions, by migrations that take pages out. This requires registration with userfaultfd.
    Regions,
}

/// A page of a pool: its block, and its index in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageNo(u64);

struct ArenaBlock {
    mapping: Arc<AnonMapping>,
    /// The number of its first chunk.
    first_chunk: ChunkNo,
    chunks: usize,
    /// Number of consecutive chunks that share a lock in the kernel.
    section_chunks: usize,
    states: PageStates,
    /// The zone that each chunk belongs to.
    zones: Box<[AtomicU16]>,
}

/// The whole address space of a pool.
pub struct Arena {
    page_bytes: usize,
    uffd: Option<Arc<Uffd>>,
    blocks: [OnceLock<ArenaBlock>; BLOCKS_MAX],
    /// Index of the block that was found last: most addresses are in the same one.
    last_found: AtomicU32,
    empty: Mutex<EmptyChunks>,
}

#[derive(Default)]
struct EmptyChunks {
    slots: BTreeMap<BlockKind, Vec<Slot>>,
    /// Number of chunks of the next block of each kind.
    next_chunks: BTreeMap<BlockKind, usize>,
    blocks: usize,
    chunks: usize,
}

impl Arena {
    /// An arena without blocks. It can take memory of regions only if `uffd` is the userfaultfd
    /// that the regions are registered with.
    pub fn new(page_bytes: usize, uffd: Option<Arc<Uffd>>) -> Self {
        Self {
            page_bytes,
            uffd,
            blocks: [const { OnceLock::new() }; BLOCKS_MAX],
            last_found: AtomicU32::new(0),
            empty: Mutex::default(),
        }
    }

    /// Returns the size of a base page in bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the number of base pages of a chunk.
    pub fn chunk_pages(&self) -> usize {
        CHUNK_BYTES / self.page_bytes
    }

    /// Takes a chunk without pages, and its number. Prefers one of section `lane` among those given
    /// back most recently.
    pub fn take_empty(&self, kind: BlockKind, lane: usize) -> Result<(ChunkNo, Slot)> {
        let mut empty = lock(&self.empty);
        if empty.slots.get(&kind).is_none_or(Vec::is_empty) {
            self.add_block(&mut empty, kind)?;
        }
        let slots = empty.slots.entry(kind).or_default();
        let from = slots.len().saturating_sub(EMPTY_CHUNKS_SEARCHED);
        let wanted = |&index: &usize| self.is_in_section_of(self.chunk_of(&slots[index]), lane);
        let index = (from..slots.len()).rev().find(wanted).unwrap_or(slots.len() - 1);
        let slot = slots.swap_remove(index);
        Ok((self.chunk_of(&slot), slot))
    }

    /// Takes back a chunk without pages.
    pub fn give_empty(&self, kind: BlockKind, slot: Slot) {
        lock(&self.empty).slots.entry(kind).or_default().push(slot);
    }

    /// Returns the number of a chunk.
    pub fn chunk_of(&self, slot: &Slot) -> ChunkNo {
        let page = self.find(slot.address(0)).expect("slots are made here");
        self.chunk_of_page(page).0
    }

    /// Returns whether a chunk is in the section that a lane prefers.
    pub fn is_in_section_of(&self, chunk: ChunkNo, lane: usize) -> bool {
        let block = self.block_of_chunk(chunk);
        (chunk - block.first_chunk) as usize / block.section_chunks == lane % SECTIONS
    }

    /// Returns the page at index `page` of a chunk.
    pub fn page(&self, chunk: ChunkNo, page: usize) -> PageNo {
        let (index, block) = self.indexed_block_of_chunk(chunk);
        let first = (chunk - block.first_chunk) as usize * self.chunk_pages();
        PageNo((index as u64) << 48 | (first + page) as u64)
    }

    /// Returns the chunk of a page, and the page's index in it.
    pub fn chunk_of_page(&self, page: PageNo) -> (ChunkNo, usize) {
        let chunk = page.index() / self.chunk_pages();
        (self.block(page).first_chunk + chunk as ChunkNo, page.index() % self.chunk_pages())
    }

    /// Returns the address of a page.
    pub fn address(&self, page: PageNo) -> NonNull<u8> {
        let start = self.block(page).mapping.start() as usize + page.index() * self.page_bytes;
        NonNull::new(start as *mut u8).expect("nothing is mapped at zero")
    }

    /// Returns the page that begins at an address.
    pub fn page_at(&self, start: NonNull<u8>) -> std::result::Result<PageNo, PoolError> {
        let address = start.as_ptr() as u64;
        let page = self.find(address).ok_or(PoolError::NotOurs { address })?;
        match address.is_multiple_of(self.page_bytes as u64) {
            true => Ok(page),
            false => Err(PoolError::NotAStart { address }),
        }
    }

    /// Returns the mapping of `pages` pages, and their byte range in it.
    pub fn bytes_of_pages(&self, first: PageNo, pages: usize) -> (&AnonMapping, Range<usize>) {
        let start = first.index() * self.page_bytes;
        (&self.block(first).mapping, start..start + pages * self.page_bytes)
    }

    /// Returns the zone of a page that is in memory.
    pub fn zone_of(&self, page: PageNo) -> usize {
        let chunk = page.index() / self.chunk_pages();
        usize::from(self.block(page).zones[chunk].load(Ordering::Relaxed))
    }

    /// Records the zone of a chunk.
    pub fn set_zone(&self, chunk: ChunkNo, zone: usize) {
        let block = self.block_of_chunk(chunk);
        let index = (chunk - block.first_chunk) as usize;
        block.zones[index].store(zone as u16, Ordering::Relaxed);
    }

    /// Sets the state of a page. Only the owner of the page may call this.
    pub fn set(&self, page: PageNo, state: PageState) {
        self.block(page).states.set(page.index(), state);
    }

    /// Returns whether a page is in this state.
    pub fn has_state(&self, page: PageNo, state: PageState) -> bool {
        self.block(page).states.has_state(page.index(), state)
    }

    /// Sets the state of `pages` pages.
    pub fn set_all(&self, first: PageNo, pages: usize, state: PageState) {
        self.block(first).states.set_all(first.index()..first.index() + pages, state);
    }

    /// Turns an allocated run into a listed one, or returns why it cannot be freed.
    pub fn begin_free(&self, page: PageNo, order: u32) -> std::result::Result<(), PoolError> {
        let address = || self.address(page).as_ptr() as u64;
        self.block(page).states.begin_free(page.index(), order, address)
    }

    fn find(&self, address: u64) -> Option<PageNo> {
        let last_found = self.last_found.load(Ordering::Relaxed) as usize;
        let inside = |index: usize| {
            let block = self.blocks[index].get()?;
            let offset = address.checked_sub(block.mapping.start())? as usize;
            let page = offset / self.page_bytes;
            (page < block.states.len()).then_some(PageNo((index as u64) << 48 | page as u64))
        };
        inside(last_found).or_else(|| {
            let made = (0..BLOCKS_MAX).take_while(|&index| self.blocks[index].get().is_some());
            let found = made.filter_map(inside).next()?;
            self.last_found.store(found.block() as u32, Ordering::Relaxed);
            Some(found)
        })
    }

    fn block(&self, page: PageNo) -> &ArenaBlock {
        self.blocks[page.block()].get().expect("pages are made of blocks")
    }

    fn block_of_chunk(&self, chunk: ChunkNo) -> &ArenaBlock {
        self.indexed_block_of_chunk(chunk).1
    }

    fn indexed_block_of_chunk(&self, chunk: ChunkNo) -> (usize, &ArenaBlock) {
        let blocks = self.blocks.iter().map_while(OnceLock::get).enumerate();
        let mut with_it = blocks.filter(|(_, block)| {
            chunk.checked_sub(block.first_chunk).is_some_and(|i| (i as usize) < block.chunks)
        });
        with_it.next().expect("chunks are made of blocks")
    }

    fn add_block(&self, empty: &mut EmptyChunks, kind: BlockKind) -> Result<()> {
        let mut chunks = *empty.next_chunks.entry(kind).or_insert(FIRST_BLOCK_CHUNKS);
        let mapping = loop {
            match map_block(chunks, kind) {
                // RLIMIT_AS may allow less.
                Err(_) if chunks > SECTIONS => chunks /= 2,
                made => break made?,
            }
        };
        let sections = match kind.origin {
            PageOrigin::Regions => self.register_block(&mapping)?,
            PageOrigin::Node(_) => 1,
        };
        let pages = chunks * self.chunk_pages();
        let block = ArenaBlock {
            first_chunk: empty.chunks as ChunkNo,
            chunks,
            section_chunks: chunks / sections,
            states: PageStates::all_absent(pages),
            zones: (0..chunks).map(|_| AtomicU16::new(0)).collect(),
            mapping: Arc::new(mapping),
        };
        let mut slots: Vec<(usize, Slot)> =
            AnonMapping::slots(&block.mapping, CHUNK_BYTES).into_iter().enumerate().collect();
        // So that sections alternate, and low addresses come first.
        slots.sort_by_key(|(index, _)| std::cmp::Reverse(index % block.section_chunks));
        let entry = self.blocks.get(empty.blocks).ok_or_else(out_of_blocks)?;
        entry.set(block).ok().expect("blocks are added one after the other");
        empty.blocks += 1;
        empty.chunks += chunks;
        empty.next_chunks.insert(kind, chunks * 2);
        empty.slots.entry(kind).or_default().extend(slots.into_iter().map(|(_, slot)| slot));
        Ok(())
    }

    /// Registers a block with userfaultfd, and returns its number of sections.
    fn register_block(&self, mapping: &AnonMapping) -> Result<usize> {
        let uffd = self.uffd.as_ref().expect("a pool without pager has no memory of regions");
        let sections = sections::split(mapping, SECTIONS);
        mapping.advise(0..mapping.bytes(), Advice::Discard).map_err(system("madvise"))?;
        let (start, bytes) = (mapping.start(), mapping.bytes() as u64);
        uffd.register(start, bytes).map_err(|e| system("UFFDIO_REGISTER")(e.into()))?;
        Ok(sections)
    }
}

impl PageNo {
    fn block(self) -> usize {
        (self.0 >> 48) as usize
    }

    fn index(self) -> usize {
        (self.0 & ((1 << 48) - 1)) as usize
    }
}

fn map_block(chunks: usize, kind: BlockKind) -> Result<AnonMapping> {
    let mapping =
        AnonMapping::reserve(chunks * CHUNK_BYTES, CHUNK_BYTES).map_err(system("mmap"))?;
    let whole = 0..mapping.bytes();
    let advice = match kind.size {
        PageSize::Base => Advice::BasePages,
        PageSize::Huge => Advice::HugePages,
    };
    mapping.advise(whole.clone(), advice).ok(); // fails on kernels without huge pages
    // Merged pages (KSM) can be put back only by a copy, and pages of a pool are meant to be
    // written to. A later prctl(PR_SET_MEMORY_MERGE) of the program may undo this; nothing can
    // prevent that.
    mapping.advise(whole.clone(), Advice::Unmergeable).ok(); // fails on kernels without KSM
    mapping.advise(whole.clone(), Advice::DontFork).map_err(system("madvise"))?;
    if let PageOrigin::Node(Some(node)) = kind.origin {
        mapping.prefer_node(whole.clone(), node).map_err(system("mbind"))?;
    }
    // If all memory is locked (MCL_FUTURE), mmap has populated the pages, which are counted
    // nowhere.
    mapping.advise(whole, Advice::Discard).map_err(system("madvise"))?;
    Ok(mapping)
}

fn out_of_blocks() -> Error {
    system("mmap")(std::io::ErrorKind::OutOfMemory.into())
}
