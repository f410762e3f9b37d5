//! The figures of `reproduce`.

use std::time::Duration;

use clap::ValueEnum;
use nodeward_experiments::reproduce::TableResult;
use serde_json::{Value, json};

use super::rounded;

/// A figure of SPEC.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReproduceFigure {
    /// Number of rows outside of their tolerance, and of goals that are missed
    Outside,
    /// Seconds that the command takes on this machine
    Wall,
    /// The figure of one table with everything that nodeward adds
    Beyond,
}

impl ReproduceFigure {
    /// Formats the number with its unit, if it has one, as SPEC.md's checks read it. `misses` are
    /// the rows and goals that are not reached.
    pub fn value(self, results: &[TableResult], misses: &[String], took: Duration) -> Value {
        let (measured, unit) = match self {
            Self::Outside => (misses.len() as f64, None),
            Self::Wall => (took.as_secs_f64(), Some("s")),
            Self::Beyond => {
                let beyond = results.iter().find_map(|table| table.beyond.as_ref());
                let last = beyond.and_then(|beyond| beyond.steps.last());
                let ours = last.map_or(f64::NAN, |last| last.ours);
                (ours, beyond.map(|beyond| beyond.unit.symbol()))
            }
        };
        let rows: usize = results.iter().map(|table| table.rows.len()).sum();
        let mut told = json!({ "measured": rounded(measured), "rows": rows, "outside": misses });
        if let Some(unit) = unit {
            told["unit"] = json!(unit);
        }
        told
    }
}
