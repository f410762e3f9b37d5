//! Where pages lie that are out of sight, and the pages that earlier migrations left behind.
//!
//! Shadow slots are as large as a chunk. An empty one takes pages that are unmapped; once they are
//! copied, it is full of pages that nobody needs, on the node that they were moved from: kept, they
//! are the destinations of the next migration to that node, at no cost but copying. The page lists
//! are last-in first-out, so that warm pages are used again first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nodeward_model::NodeId;

use crate::error::{Result, system};
use crate::sections;
use crate::sync::lock;
use crate::sys::{Advice, Mapping, Passage, Slot, Uffd};
use crate::{CHUNK_BYTES, PageSize};

/// Slots in the first block of address space; each later one has twice as many as the one before,
/// so that there are few mappings however much is left out.
const FIRST_BLOCK_SLOTS: usize = 256;

/// Sections of a block.
const SECTIONS: usize = 8;

/// Slots that are not watched, per mapping of them: a few for each lane.
const UNWATCHED_SLOTS: usize = 64;

/// How many of the last full slots are looked through for one of the lane's own section.
const LOOK_BACK: usize = 8;

/// A slot and how many pages lie in it, from its start on without a gap.
#[derive(Debug)]
pub struct Shadow {
    pub slot: Slot,
    pub pages: usize,
    /// Slots of one section share a lock in the kernel, so a lane prefers one.
    section: usize,
    /// Whether userfaultfd watches it, as it must to take pages out of sight. Pages that are fresh
    /// from the kernel come in slots that are not watched, because nobody would serve the fault.
    watched: bool,
}

/// All slots of a pager for pages of one size.
pub struct Shadows {
    uffd: Arc<Uffd>,
    size: PageSize,
    passage: Passage,
    kept_pages_max: usize,
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    empty: Vec<Shadow>,
    unwatched: Vec<Shadow>,
    full: BTreeMap<NodeId, Vec<Shadow>>,
    kept_pages: BTreeMap<NodeId, usize>,
    next_block_slots: usize,
}

impl Shadows {
    /// None yet; `kept_pages_max` base pages are kept on each node.
    pub fn new(uffd: Arc<Uffd>, passage: Passage, size: PageSize, kept_pages_max: usize) -> Self {
        let lists = Lists { next_block_slots: FIRST_BLOCK_SLOTS, ..Lists::default() };
        Self { uffd, size, passage, kept_pages_max, lists: Mutex::new(lists) }
    }

    /// An empty slot for a lane.
    pub fn empty(&self, lane: usize) -> Result<Shadow> {
        if self.passage == Passage::Remap {
            return self.unwatched(); // what is put there by mremap is never watched
        }
        let mut lists = lock(&self.lists);
        if lists.empty.is_empty() {
            let slots = lists.next_block_slots;
            lists.empty = self.block(slots)?;
            lists.next_block_slots = slots * 2;
        }
        let index = pick(&lists.empty, lane).unwrap_or(lists.empty.len() - 1);
        Ok(lists.empty.swap_remove(index))
    }

    /// An empty slot that is not watched.
    pub fn unwatched(&self) -> Result<Shadow> {
        let mut lists = lock(&self.lists);
        if lists.unwatched.is_empty() {
            let mapping = self.mapping(UNWATCHED_SLOTS)?;
            let shadow = |slot| Shadow { slot, pages: 0, section: 0, watched: false };
            lists.unwatched = mapping.into_slots(CHUNK_BYTES).into_iter().map(shadow).collect();
        }
        Ok(lists.unwatched.pop().expect("not empty"))
    }

    /// A slot with pages that are kept on a node, if there is one.
    pub fn kept(&self, lane: usize, node: NodeId) -> Option<Shadow> {
        let mut lists = lock(&self.lists);
        let full = lists.full.get_mut(&node)?;
        let index = pick(full, lane).or(full.len().checked_sub(1))?;
        let shadow = full.remove(index);
        *lists.kept_pages.entry(node).or_default() -= shadow.pages;
        Some(shadow)
    }

    /// Takes back a slot whose pages, all on `node`, nobody needs. They are kept within the bound,
    /// or freed.
    pub fn give(&self, shadow: Shadow, node: Option<NodeId>) {
        let not_kept = match node {
            Some(node) if shadow.pages > 0 => self.keep(shadow, node),
            _ => Some(shadow),
        };
        if let Some(mut shadow) = not_kept {
            if shadow.pages > 0 {
                shadow.clear();
            }
            self.give_empty(shadow);
        }
    }

    fn give_empty(&self, shadow: Shadow) {
        if shadow.slot.is_lost() {
            // With its mapping, which must not be unmapped: there may be something else in it.
            return std::mem::forget(shadow);
        }
        let mut lists = lock(&self.lists);
        let list = if shadow.watched { &mut lists.empty } else { &mut lists.unwatched };
        list.push(shadow);
    }

    /// Frees what is kept; returns how many base pages.
    pub fn free_kept(&self) -> usize {
        let full = {
            let mut lists = lock(&self.lists);
            lists.kept_pages.clear();
            std::mem::take(&mut lists.full)
        };
        let mut freed = 0;
        for mut shadow in full.into_values().flatten() {
            freed += shadow.pages;
            shadow.clear();
            self.give_empty(shadow);
        }
        freed
    }

    /// Keeps a slot with pages; returns it if that would be too many. The count and the list change
    /// together, because [`Shadows::free_kept`] may come at any time.
    fn keep(&self, shadow: Shadow, node: NodeId) -> Option<Shadow> {
        let mut lists = lock(&self.lists);
        let kept = lists.kept_pages.entry(node).or_default();
        if *kept + shadow.pages > self.kept_pages_max {
            return Some(shadow);
        }
        *kept += shadow.pages;
        lists.full.entry(node).or_default().push(shadow);
        None
    }

    fn block(&self, slots: usize) -> Result<Vec<Shadow>> {
        let mapping = self.mapping(slots)?;
        let sections = sections::split(&mapping, SECTIONS);
        mapping.advise(0..mapping.bytes(), Advice::Discard).map_err(system("madvise"))?;
        let (start, bytes) = (mapping.start(), mapping.bytes() as u64);
        self.uffd.register(start, bytes).map_err(|e| system("UFFDIO_REGISTER")(e.into()))?;
        let in_section = slots / sections;
        let shadow =
            |(index, slot)| Shadow { slot, pages: 0, section: index / in_section, watched: true };
        let slots = mapping.into_slots(CHUNK_BYTES).into_iter().enumerate();
        let mut shadows: Vec<(usize, Shadow)> =
            slots.map(|(index, slot)| (index % in_section, shadow((index, slot)))).collect();
        shadows.sort_by_key(|(place, _)| *place); // so that sections take turns
        Ok(shadows.into_iter().map(|(_, shadow)| shadow).collect())
    }

    fn mapping(&self, slots: usize) -> Result<Mapping> {
        let mapping = Mapping::reserve(slots * CHUNK_BYTES, CHUNK_BYTES).map_err(system("mmap"))?;
        let whole = 0..mapping.bytes();
        let advice = match self.size {
            PageSize::Base => Advice::BasePages,
            PageSize::Huge => Advice::HugePages,
        };
        mapping.advise(whole.clone(), advice).ok(); // kernels without huge pages do not know it
        mapping.advise(whole, Advice::DontFork).map_err(system("madvise"))?;
        Ok(mapping)
    }
}

/// The last slot of the lane's section, among the last few.
fn pick(shadows: &[Shadow], lane: usize) -> Option<usize> {
    let wanted = lane % SECTIONS;
    let from = shadows.len().saturating_sub(LOOK_BACK);
    (from..shadows.len()).rev().find(|&index| shadows[index].section == wanted)
}

impl Shadow {
    /// Whether its pages have just come from the kernel.
    pub fn is_fresh(&self) -> bool {
        !self.watched
    }

    /// Frees the pages.
    pub fn clear(&mut self) {
        self.keep(0, 0);
    }

    /// Frees all but the first pages.
    pub fn keep(&mut self, pages: usize, page_bytes: usize) {
        let rest = pages * page_bytes..CHUNK_BYTES;
        self.slot.discard(rest).expect("the slot is mapped and not locked");
        self.pages = pages;
    }
}
