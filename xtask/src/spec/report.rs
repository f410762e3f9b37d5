//! Promised, measured, held or not: as a table for people and as JSON for programs.

use anyhow::Result;
use serde_json::{Value, json};

use super::measure::Finding;
use super::table::Promise;

/// Names the shape of the JSON; a change that readers would notice changes the number.
const SCHEMA: &str = "nodeward.spec/1";

/// A promise and what came of it.
pub struct Judged {
    pub promise: Promise,
    pub finding: Finding,
}

/// One line for each promise and a closing count.
pub fn text(all: &[Judged]) -> String {
    let header = ["id", "promised", "measured", "result"].map(str::to_owned);
    let rows: Vec<[String; 4]> = std::iter::once(header).chain(all.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (a, b, c) = (width(0), width(1), width(2));
    let mut text = String::new();
    for [id, promised, measured, result] in &rows {
        text.push_str(&format!("{id:a$}  {promised:b$}  {measured:c$}  {result}\n"));
    }
    let good = all.iter().filter(|judged| judged.finding.is_good()).count();
    text.push_str(&format!("{good} of {} promises shown\n", all.len()));
    text
}

/// The same for programs, one object with the schema and the rows.
pub fn json(all: &[Judged]) -> Result<String> {
    let rows: Vec<Value> = all.iter().map(object).collect();
    Ok(serde_json::to_string_pretty(&json!({ "schema": SCHEMA, "promises": rows }))?)
}

fn row(Judged { promise, finding }: &Judged) -> [String; 4] {
    let measured = match (measured(finding), &promise.bound.unit) {
        (Some(number), Some(unit)) => format!("{number} {unit}"),
        (Some(number), None) => number.to_string(),
        (None, _) => "-".to_owned(),
    };
    let result = match why(finding) {
        Some(why) => format!("{}: {why}", word(finding)),
        None => word(finding).to_owned(),
    };
    [promise.id.clone(), promise.bound.to_string(), measured, result]
}

fn object(Judged { promise, finding }: &Judged) -> Value {
    json!({
        "id": promise.id,
        "promise": promise.promise,
        "bound": promise.bound.to_string(),
        "unit": promise.bound.unit,
        "command": promise.command,
        "result": word(finding),
        "holds": matches!(finding, Finding::Holds { .. }),
        "measured": measured(finding),
        "why": why(finding),
        "record": record(finding),
    })
}

fn word(finding: &Finding) -> &'static str {
    match finding {
        Finding::Holds { .. } => "holds",
        Finding::Broken { .. } => "BROKEN",
        Finding::Ran { .. } => "ran (not judged)",
        Finding::Skipped { .. } => "skipped, so not shown",
        Finding::Failed { .. } => "FAILED",
    }
}

fn measured(finding: &Finding) -> Option<&serde_json::Number> {
    match finding {
        Finding::Holds { measured, .. }
        | Finding::Broken { measured, .. }
        | Finding::Ran { measured, .. } => Some(measured),
        Finding::Skipped { .. } | Finding::Failed { .. } => None,
    }
}

fn record(finding: &Finding) -> Option<&serde_json::Map<String, Value>> {
    match finding {
        Finding::Holds { record, .. }
        | Finding::Broken { record, .. }
        | Finding::Ran { record, .. } => Some(record),
        Finding::Skipped { .. } | Finding::Failed { .. } => None,
    }
}

fn why(finding: &Finding) -> Option<&str> {
    match finding {
        Finding::Skipped { why } | Finding::Failed { why } => Some(why),
        _ => None,
    }
}
