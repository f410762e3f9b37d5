//! Decoded code by address, as much as a bound permits.

use std::collections::HashMap;

use crate::code_block::CodeBlock;

/// Blocks of each generation. A block has at most 24 effects of 88 bytes, 8 MiB for 4096 blocks; in
/// the code of this crate's tests it has 6, which makes 2 MiB.
const GENERATION_BLOCKS: usize = 2048;
/// Uses of a block after which the block is due to be compared with the code.
const USES_BETWEEN_CHECKS: u32 = 64;

#[derive(Debug)]
struct CachedBlock {
    block: CodeBlock,
    uses: u32,
}

/// Blocks in two generations: when the young one is full, the old one is dropped and the young one
/// becomes old. What is used from the old one becomes young again.
#[derive(Debug, Default)]
pub struct BlockCache {
    young: HashMap<u64, CachedBlock>,
    old: HashMap<u64, CachedBlock>,
}

impl BlockCache {
    /// Counts a use of the block at an address. Returns it, and whether it is due to be compared.
    pub fn use_block(&mut self, pc: u64) -> Option<(&CodeBlock, bool)> {
        if let Some(cached) = self.old.remove(&pc) {
            self.insert_cached(pc, cached);
        }
        let cached = self.young.get_mut(&pc)?;
        cached.uses = (cached.uses + 1) % USES_BETWEEN_CHECKS;
        Some((&cached.block, cached.uses == 0))
    }

    /// Returns the block at an address that was just used or inserted.
    pub fn get(&self, pc: u64) -> Option<&CodeBlock> {
        self.young.get(&pc).map(|cached| &cached.block)
    }

    /// Keeps a decoded block for the next sample at `pc`.
    pub fn insert(&mut self, pc: u64, block: CodeBlock) {
        self.insert_cached(pc, CachedBlock { block, uses: 0 });
    }

    /// Drops all blocks.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// Returns the number of blocks.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    fn insert_cached(&mut self, pc: u64, cached: CachedBlock) {
        if self.young.len() >= GENERATION_BLOCKS {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(pc, cached);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction_set::InstructionSet;
    use crate::{Architecture, CodeReader};

    /// A process without code.
    struct Unmapped;

    impl CodeReader for Unmapped {
        fn read(&mut self, _: u64, _: &mut [u8]) -> usize {
            0
        }
    }

    fn empty_block() -> CodeBlock {
        let mut set = InstructionSet::new(Architecture::Aarch64);
        CodeBlock::decode(&mut set, &mut Unmapped, 0)
    }

    /// Goal: however many addresses there are, 4096 blocks are kept at most, and one that is used
    /// again and again stays.
    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let mut cache = BlockCache::default();
        for pc in 0..20_000 {
            cache.insert(pc, empty_block());
            assert!(cache.use_block(0).is_some(), "at {pc}");
            assert!(cache.len() <= 4096, "{} at {pc}", cache.len());
        }
        assert!(cache.use_block(1).is_none());
        cache.clear();
        assert_eq!(cache.len(), 0);
    }

    /// Goal: each 64th use of a block is one at which it is compared.
    #[test]
    fn a_block_is_due_now_and_then() {
        let mut cache = BlockCache::default();
        cache.insert(7, empty_block());
        let due = (1..=200).filter(|_| cache.use_block(7).unwrap().1).count();
        // 200 / 64 = 3.1
        assert_eq!(due, 3);
    }
}
