//! The round: observe, decide, migrate, verify.
//!
//! A move is cut into units of work (`survey`); a crew of workers takes them one by one
//! (`crew`); each unit is looked at, decided about, moved and accounted for (`migrate`,
//! `drive`); at the end everything is looked at once more (`verify`).

#![forbid(unsafe_code)]

mod crew;
mod drive;
mod fit;
mod live;
mod migrate;
mod pace;
pub mod ranking;
mod report;
mod request;
pub mod residency;
mod survey;
mod verify;

pub use fit::Fitting;
pub use live::Live;
pub use migrate::{migrate, plan};
pub use report::{MoveReport, PlanReport, ProcessPlan, ProcessReport, Residue};
pub use request::{Jobs, MoveRequest, Selection};
