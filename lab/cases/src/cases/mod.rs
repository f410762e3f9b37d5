//! The cases, by name.

mod access_counts;
mod agent;
mod balance_access;
mod balance_churn;
mod balance_groups;
mod balance_homes;
mod balance_postgres;
mod balance_rivals;
mod balance_service;
mod balance_surroundings;
mod balance_targets;
mod choice;
mod conformance;
mod evacuation;
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
mod migratepages;
mod names;
mod page_lists;
mod pager;
mod pager_interference;
mod pager_methods;
mod placement;
mod pool;
mod races;
mod real_programs;
mod scheduler;
mod segments;
mod shapes;
mod spread;
mod spread_postgres;
mod target_exits;
mod top;
mod torture;
mod watch;

use crate::case_outcome::CaseFn;

const ALL: [&[(&str, CaseFn)]; 44] = [
    &scheduler::CASES,
    &conformance::CASES,
    &kinds::CASES,
    &kinds_special::CASES,
    &faults::CASES,
    &target_exits::CASES,
    &races::CASES,
    &real_programs::CASES,
    &segments::CASES,
    &shapes::CASES,
    &spread::CASES,
    &spread_postgres::CASES,
    &placement::CASES,
    &choice::CASES,
    &input::CASES,
    &names::CASES,
    &files::CASES,
    &files_special::CASES,
    &migratepages::CASES,
    &lists::CASES,
    &page_lists::CASES,
    &evacuation::CASES,
    &exchange::CASES,
    &ledger::CASES,
    &hot_live::CASES,
    &hot::CASES,
    &pager::CASES,
    &pager_interference::CASES,
    &pager_methods::CASES,
    &pool::CASES,
    &access_counts::CASES,
    &balance_access::CASES,
    &balance_groups::CASES,
    &balance_homes::CASES,
    &balance_targets::CASES,
    &balance_surroundings::CASES,
    &balance_rivals::CASES,
    &balance_service::CASES,
    &agent::CASES,
    &balance_churn::CASES,
    &balance_postgres::CASES,
    &top::CASES,
    &torture::CASES,
    &watch::CASES,
];

/// Returns the case of a name.
pub fn find(name: &str) -> Option<CaseFn> {
    ALL.into_iter().flatten().find(|(known, _)| *known == name).map(|&(_, body)| body)
}
