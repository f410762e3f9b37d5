//! The comparison for programs.

use serde_json::{Value, json};

use crate::run::RunResult;
use crate::settings::CompareSettings;
use crate::table::CompareTable;

/// Formats settings, rows, and every run with its time series.
pub fn json(settings: &CompareSettings, table: &CompareTable, outcomes: &[RunResult]) -> Value {
    json!({
        "schema": "nodeward.lab-compare/1",
        "kernel": settings.kernel.to_string(),
        "repeats": settings.repeats,
        "size_bytes": settings.size_bytes,
        "passes": settings.passes,
        "llc_bytes": settings.llc_bytes,
        "price_ns": settings.miss_delay_ns,
        "rows": table.rows,
        "runs": outcomes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::sample;

    /// Goal: the schema is named, figures have their names, and an event that never happened is
    /// null.
    #[test]
    fn the_schema() {
        let (settings, table) = sample();
        let value = json(&settings, &table, &[]);
        assert_eq!(value["schema"], "nodeward.lab-compare/1");
        assert_eq!(value["rows"][1]["cells"]["pages"]["most"], 262_144.0);
        assert_eq!(value["rows"][0]["cells"]["to_90_s"]["median"], Value::Null);
    }
}
