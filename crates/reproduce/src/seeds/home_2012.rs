//! Home nodes (2012)

use crate::table::Table;

/// The table.
pub fn table() -> Table {
    Table {
        name: "2012",
        title: "Home nodes (2012)",
        about: "",
        runs: Vec::new(),
        fitted: Vec::new(),
        rows: Vec::new(),
        beyond: None,
    }
}
