//! Per-CPU page lists that size themselves (2023)

use crate::table::Table;

/// The table.
pub fn table() -> Table {
    Table {
        name: "pcp",
        title: "Per-CPU page lists that size themselves (2023)",
        about: "",
        runs: Vec::new(),
        fitted: Vec::new(),
        rows: Vec::new(),
        beyond: None,
    }
}
