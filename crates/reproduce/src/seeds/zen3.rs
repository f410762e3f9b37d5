//! Figures of others, never fitted

use crate::table::Table;

/// The table.
pub fn table() -> Table {
    Table {
        name: "zen3",
        title: "Figures of others, never fitted",
        about: "",
        runs: Vec::new(),
        fitted: Vec::new(),
        rows: Vec::new(),
        beyond: None,
    }
}
