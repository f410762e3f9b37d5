//! The tables, in the order of importance of their seeds.

use crate::reproduce::figure_table::DocumentTable;

mod counters_2004;
mod home_2012;
mod move_figures;
mod parallel_2017;
mod pcp_2023;
mod tlb_2023;
mod zen3;

/// The names of the tables, in this order.
pub const NAMES: [&str; 6] = ["2017", "tlb", "2012", "2004", "pcp", "zen3"];

/// Returns all tables.
pub fn all() -> Vec<DocumentTable> {
    vec![
        parallel_2017::table(),
        tlb_2023::table(),
        home_2012::table(),
        counters_2004::table(),
        pcp_2023::table(),
        zen3::table(),
    ]
}
