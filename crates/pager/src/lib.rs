//! Memory of this process that moves between nodes while it is in use.
//!
//! A [`Region`] is memory that a program gives us to manage. Its pages are taken out of sight with
//! userfaultfd, copied by threads near the destination, and brought back where they were; threads
//! that touch them meanwhile wait for that batch. No write is lost.

#[allow(unsafe_code, reason = "the room that maps memory and speaks to userfaultfd")]
mod sys;

mod copier;
mod error;
mod options;
mod pager;
mod probe;
mod region;
mod report;
mod road;

pub use copier::{Copier, Memcpy};
pub use error::{Error, Result};
pub use options::{
    Budget, Cancel, ForkRule, Migration, Mode, PageSize, PagerOptions, Placement, Progress,
    RegionOptions, Supply,
};
pub use pager::Pager;
pub use probe::{Capabilities, Faults, Shortfall};
pub use region::{PinGuard, Region};
pub use report::{Report, Spent};
pub use road::Road;
