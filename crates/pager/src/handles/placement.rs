//! Checks the nodes of a placement that the program asks for.

use super::pager_shared::PagerShared;
use crate::error::{Error, Result};
use crate::region::Placement;

/// Refuses nodes without memory that this process may use.
pub(super) fn check(pager: &PagerShared, placement: &Placement) -> Result<()> {
    let usable = pager.usable_nodes();
    let unknown = match placement {
        Placement::Local => None,
        // The number is the caller's: it may be too large for any node mask.
        Placement::Node(node) => Some(*node).filter(|&node| !usable.contains(node)),
        Placement::Interleaved(nodes) if nodes.is_empty() => {
            return Err(Error::BadOption {
                problem: "interleaving over no node".to_owned(),
                remedy: "name at least one".to_owned(),
            });
        }
        Placement::Interleaved(nodes) => nodes.without(usable).first(),
    };
    unknown.map_or(Ok(()), |node| Err(Error::UnknownNode { node }))
}
