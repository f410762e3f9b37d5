//! Pages that the kernel moves.

use std::io;
use std::ops::Range;

use nodeward_linux::policy;
use nodeward_model::NodeId;

use crate::sys::{Advice, Mapping};
use crate::{CHUNK_BYTES, Error, Migration, Placement, Report, Result};

/// Moves addresses.
pub fn migrate(_range: nodeward_model::Range, _to: NodeId, _how: &Migration<'_>) -> Result<Report> {
    Err(Error::Closing)
}

/// Brings missing pages into memory, on a thread of its own because the memory policy is one of
/// threads.
pub fn commit(mapping: &Mapping, range: Range<usize>, placement: &Placement) -> io::Result<()> {
    let populate = |part: Range<usize>, node: Option<NodeId>| {
        node.map_or(Ok(()), policy::prefer_memory)?;
        mapping.advise(part, Advice::Populate)
    };
    let by_chunk = || {
        let chunks = range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES);
        for chunk in chunks {
            let start = (chunk * CHUNK_BYTES).max(range.start);
            let end = ((chunk + 1) * CHUNK_BYTES).min(range.end);
            populate(start..end, placement.node_of_chunk(chunk))?;
        }
        Ok(())
    };
    match placement {
        Placement::Local => mapping.advise(range, Advice::Populate),
        _ => std::thread::scope(|scope| scope.spawn(by_chunk).join().expect("does not panic")),
    }
}
