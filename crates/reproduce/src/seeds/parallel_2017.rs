//! Parallel page migration (2017)

use crate::table::Table;

/// The table.
pub fn table() -> Table {
    Table {
        name: "2017",
        title: "Parallel page migration (2017)",
        about: "",
        runs: Vec::new(),
        fitted: Vec::new(),
        rows: Vec::new(),
        beyond: None,
    }
}
