//! Migration by hardware counters (2004)

use crate::table::Table;

/// The table.
pub fn table() -> Table {
    Table {
        name: "2004",
        title: "Migration by hardware counters (2004)",
        about: "",
        runs: Vec::new(),
        fitted: Vec::new(),
        rows: Vec::new(),
        beyond: None,
    }
}
