//! Which process is whose child.

use std::collections::BTreeMap;

use crate::ids::SpaceId;

/// The parent of each child, and the child of each parent.
#[derive(Debug, Default)]
pub struct ForkRelations {
    /// Parent by child.
    pub parents: BTreeMap<SpaceId, SpaceId>,
    /// Child by parent. A parent has at most one child at a time.
    pub children: BTreeMap<SpaceId, SpaceId>,
}
