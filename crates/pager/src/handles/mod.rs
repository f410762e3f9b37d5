//! The handles that a program holds: of a pager, of a region and of pages that are pinned.

mod fork_handlers;
mod options;
mod pager;
mod pin_guard;
mod placement;
mod region;

pub use options::PagerOptions;
pub use pager::Pager;
pub use pin_guard::PinGuard;
pub use region::Region;
