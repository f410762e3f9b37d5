//! Other allocators as contenders.

use crate::peers::{AllocatedBlock, Allocator, Jemalloc, Mimalloc};

use super::workload::{AllocatedRun, AllocatorWorkload, PassLoad, RunAllocator};
use crate::Error;

/// Returns mimalloc as a contender.
pub fn mimalloc(load: PassLoad) -> Box<dyn AllocatorWorkload> {
    Box::new(PeerAllocator(load, Mimalloc))
}

/// Returns jemalloc as a contender.
pub fn jemalloc(load: PassLoad) -> Box<dyn AllocatorWorkload> {
    Box::new(PeerAllocator(load, Jemalloc))
}

struct PeerAllocator<A>(PassLoad, A);

impl<A: Allocator + Send + Sync> RunAllocator for PeerAllocator<A> {
    type Run<'a>
        = AllocatedBlock<A>
    where
        A: 'a;

    fn load(&self) -> PassLoad {
        self.0
    }

    fn allocate(&self) -> Result<AllocatedBlock<A>, Error> {
        let bytes = self.0.run_bytes();
        AllocatedBlock::new(bytes, self.0.zeroed).ok_or(Error::NoBlock { bytes: bytes as u64 })
    }
}

impl<A: Allocator> AllocatedRun for AllocatedBlock<A> {
    fn content(&mut self) -> &mut [u8] {
        self
    }
}
