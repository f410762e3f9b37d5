//! The round: observe, decide, migrate, verify.
//!
//! A move (`migrate`) is divided into units of work (`survey`), which a pool of workers takes one
//! by one (`worker_pool`). Each unit is examined, decided about, moved and accounted for
//! (`move_context`, `folio_mover`, `outcomes`). At the end everything is examined once more
//! (`verify`). A stop ends both soon (`stop_limit`). When nodes exchange pages, the directions take
//! turns (`exchange`). What arrived can be collapsed into huge pages (`collapse`). The crate
//! `balancer` repeats such moves for all processes.

#![forbid(unsafe_code)]

pub mod address_list;
mod cache_move;
mod collapse;
mod control;
mod deadline;
mod deferred_retries;
mod distinct_pages;
mod exchange;
mod folio_mover;
mod folios;
mod hold_times;
mod idle_cores;
mod kernel_walk;
mod memory_walk;
mod migrate;
mod move_context;
mod move_sums;
mod outcomes;
mod pacer;
mod page_orders;
mod passes;
mod pinned_mappings;
pub mod placement;
mod populated;
pub mod ranking;
mod report;
mod request;
pub mod residency;
mod shared_ledger;
mod shared_limit;
mod sparse;
mod sparse_search;
pub mod spread;
mod stop_limit;
mod survey;
mod time_samples;
pub mod undo;
mod verify;
mod watched;
mod worker_pool;

pub use cache_move::CacheMove;
pub use collapse::{CollapseReport, check_collapse, collapse};
pub use control::{MoveControl, StopReason};
pub use deadline::MoveDeadline;
pub use distinct_pages::DistinctPages;
pub use folio_mover::check_split;
pub use folios::locate_folios;
pub use hold_times::HoldTimes;
pub use memory_walk::MemoryView;
pub use migrate::{migrate, plan};
pub use move_sums::MoveSums;
pub use nodeward_policy::folio_plan::MoveOrder;
pub use outcomes::PageFlows;
pub use passes::{may_fit_elsewhere, migrate_in_passes};
pub use report::{MoveReport, PlanReport, ProcessPlan, ProcessReport, Residue};
pub use request::{Jobs, MoveRequest, Selection, merge_overlapping};
pub use shared_ledger::{LedgerReport, SharedLedger};
pub use time_samples::{MemoryUsers, TimePlan, plan_by_time, sample_period};
pub use watched::run_watched;
