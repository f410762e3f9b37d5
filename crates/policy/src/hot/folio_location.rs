//! The location of a counted page.

use nodeward_model::NodeId;

/// The place of a page, and the folio that moves with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioLocation {
    /// The address of its first page.
    pub address: u64,
    /// The size of the folio in base pages.
    pub pages: u32,
    /// The node where it is.
    pub node: NodeId,
}
