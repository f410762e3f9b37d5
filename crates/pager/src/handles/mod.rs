//! The handles that a program holds: of a pager, of a region, of pages that are pinned, of a page
//! pool, and of all memory of the process. In a child of fork(2) they do nothing.

mod fork_handlers;
mod options;
mod own_memory;
mod page_pool;
mod pager;
mod pager_shared;
mod pin_guard;
mod placement;
mod range_list;
mod region;

pub use options::PagerOptions;
pub use own_memory::OwnMemory;
pub use page_pool::PagePool;
pub use pager::Pager;
pub use pin_guard::PinGuard;
pub use range_list::{RangeListReport, RangeStatus, RangeTarget};
pub use region::Region;
