//! Where a counted page is.

use nodeward_model::NodeId;

/// The place of a page, and the folio that moves with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioLocation {
    /// The address of its first page.
    pub address: u64,
    /// Its size in base pages.
    pub pages: u32,
    /// The node where it is.
    pub node: NodeId,
}
