//! The round: observe, decide, migrate, verify.
//!
//! A move (`migrate`) is divided into units of work (`survey`), which a pool of workers takes one
//! by one (`crew`). Each unit is examined, decided about, moved and accounted for (`work`, `drive`,
//! `tally`). At the end everything is examined once more (`verify`). When nodes exchange pages, the
//! directions take turns (`exchange`). `balance` repeats such rounds for all processes.

#![forbid(unsafe_code)]

pub mod balance;
mod census;
mod crew;
mod drive;
mod exchange;
mod fit;
mod folios;
mod journal;
mod leftovers;
pub mod list;
mod live;
mod migrate;
mod pace;
pub mod ranking;
mod report;
mod request;
pub mod residency;
mod survey;
mod tally;
pub mod undo;
mod verify;
mod work;

pub use census::Census;
pub use fit::Fitting;
pub use folios::folios;
pub use journal::{Journal, JournalReport};
pub use live::Live;
pub use migrate::{migrate, plan};
pub use nodeward_policy::plan::Order;
pub use report::{MoveReport, PlanReport, ProcessPlan, ProcessReport, Residue};
pub use request::{Jobs, MoveRequest, Selection};
