//! Other allocators as contenders.

use nodeward_peers::{Allocator, Block, Jemalloc, Mimalloc};

use super::source::{Load, Run, Source, Taker};
use crate::Error;

/// Returns mimalloc as a contender.
pub fn mimalloc(load: Load) -> Box<dyn Taker> {
    Box::new(Peer(load, Mimalloc))
}

/// Returns jemalloc as a contender.
pub fn jemalloc(load: Load) -> Box<dyn Taker> {
    Box::new(Peer(load, Jemalloc))
}

struct Peer<A>(Load, A);

impl<A: Allocator + Send + Sync> Source for Peer<A> {
    type Run<'a>
        = Block<A>
    where
        A: 'a;

    fn load(&self) -> Load {
        self.0
    }

    fn take(&self) -> Result<Block<A>, Error> {
        let bytes = self.0.run_bytes();
        Block::new(bytes, self.0.zeroed).ok_or(Error::NoBlock { bytes: bytes as u64 })
    }
}

impl<A: Allocator> Run for Block<A> {
    fn content(&mut self) -> &mut [u8] {
        self
    }
}
