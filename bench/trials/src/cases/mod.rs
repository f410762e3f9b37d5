//! The cases, by name.

mod balance_churn;
mod balance_homes;
mod balance_service;
mod balance_surroundings;
mod balance_targets;
mod choice;
mod conformance;
mod counted;
mod drop_in;
mod ends;
mod exchange;
mod faults;
mod files;
mod files_special;
mod hot;
mod hot_live;
mod input;
mod kinds;
mod kinds_special;
mod ledger;
mod lists;
mod names;
mod pager;
mod pager_meddling;
mod pager_ways;
mod pool;
mod races;
mod segments;
mod torture;

use crate::Body;

const ALL: [&[(&str, Body)]; 29] = [
    &conformance::CASES,
    &kinds::CASES,
    &kinds_special::CASES,
    &faults::CASES,
    &ends::CASES,
    &races::CASES,
    &segments::CASES,
    &choice::CASES,
    &input::CASES,
    &names::CASES,
    &files::CASES,
    &files_special::CASES,
    &drop_in::CASES,
    &lists::CASES,
    &exchange::CASES,
    &ledger::CASES,
    &hot_live::CASES,
    &hot::CASES,
    &pager::CASES,
    &pager_meddling::CASES,
    &pager_ways::CASES,
    &pool::CASES,
    &counted::CASES,
    &balance_homes::CASES,
    &balance_targets::CASES,
    &balance_surroundings::CASES,
    &balance_service::CASES,
    &balance_churn::CASES,
    &torture::CASES,
];

/// Returns the case of a name.
pub fn find(name: &str) -> Option<Body> {
    ALL.into_iter().flatten().find(|(known, _)| *known == name).map(|&(_, body)| body)
}
