//! Where pages are, counted.

use std::collections::BTreeMap;

use nodeward_machine::Process;
use nodeward_model::{NodeId, Place, Range};

use crate::Result;

/// Base pages of a range of our addresses by node.
pub fn count(myself: &dyn Process, range: Range) -> Result<BTreeMap<NodeId, u64>> {
    let mut places = Vec::new();
    myself.places(range, &mut places)?;
    let mut counts = BTreeMap::new();
    for place in places {
        if let Place::On(node) = place {
            *counts.entry(node).or_default() += 1;
        }
    }
    Ok(counts)
}
