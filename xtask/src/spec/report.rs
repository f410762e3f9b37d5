//! Promised value, measured value and verdict: as a table for people and as JSON for programs.

use anyhow::Result;
use serde_json::{Map, Number, Value, json};

use super::measure::{PromiseResult, PromiseVerdict};
use super::table::Promise;

/// The version of the JSON; it changes with every change that readers would notice.
const SCHEMA: &str = "nodeward.spec/1";
const NOT_PROMISED: &str = "not-promised-here";

/// A promise and its result.
pub struct MeasuredPromise {
    pub promise: Promise,
    pub result: PromiseResult,
}

/// Formats one line for each promise and a closing count.
pub fn text(all: &[MeasuredPromise]) -> String {
    let header = ["id", "promised", "measured", "result"].map(str::to_owned);
    let rows: Vec<[String; 4]> = std::iter::once(header).chain(all.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (a, b, c) = (width(0), width(1), width(2));
    let mut text = String::new();
    for [id, promised, measured, result] in &rows {
        text.push_str(&format!("{id:a$}  {promised:b$}  {measured:c$}  {result}\n"));
    }
    let good = all.iter().filter(|judged| judged.result.is_good()).count();
    let elsewhere = all.iter().filter(|judged| status(&judged.result) == NOT_PROMISED).count();
    text.push_str(&format!("{} of {} promises shown", good - elsewhere, all.len()));
    if elsewhere > 0 {
        text.push_str(&format!(", {elsewhere} not promised for this host"));
    }
    text.push('\n');
    text
}

/// Formats the same for programs, as one object with the schema and the rows.
pub fn json(all: &[MeasuredPromise]) -> Result<String> {
    let rows: Vec<Value> = all.iter().map(object).collect();
    Ok(serde_json::to_string_pretty(&json!({ "schema": SCHEMA, "promises": rows }))?)
}

fn row(MeasuredPromise { promise, result: finding }: &MeasuredPromise) -> [String; 4] {
    let measured = match (measured(finding), &promise.bound.unit) {
        (Some(number), Some(unit)) => format!("{number} {unit}"),
        (Some(number), None) => number.to_string(),
        (None, _) => "-".to_owned(),
    };
    let result = match why(finding) {
        Some(why) => format!("{}: {why}", status(finding)),
        None => status(finding).to_owned(),
    };
    let promised = match &promise.memcpy {
        Some(limit) => format!("{} if memcpy {limit}", promise.bound),
        None => promise.bound.to_string(),
    };
    [promise.id.clone(), promised, measured, result]
}

fn object(MeasuredPromise { promise, result: finding }: &MeasuredPromise) -> Value {
    json!({
        "id": promise.id,
        "promise": promise.promise,
        "bound": promise.bound.to_string(),
        "memcpy": promise.memcpy.as_ref().map(ToString::to_string),
        "unit": promise.bound.unit,
        "command": promise.command,
        "result": status(finding),
        "holds": matches!(finding, PromiseResult::Measured { verdict: PromiseVerdict::Holds, .. }),
        "measured": measured(finding),
        "why": why(finding),
        "record": record(finding),
    })
}

fn status(finding: &PromiseResult) -> &'static str {
    match finding {
        PromiseResult::Measured { verdict: PromiseVerdict::Holds, .. } => "holds",
        PromiseResult::Measured { verdict: PromiseVerdict::Broken, .. } => "broken",
        PromiseResult::Measured { verdict: PromiseVerdict::NotPromised { .. }, .. } => NOT_PROMISED,
        PromiseResult::Measured { verdict: PromiseVerdict::NotJudged, .. } => "not-judged",
        PromiseResult::Skipped { .. } => "skipped",
        PromiseResult::Failed { .. } => "failed",
    }
}

fn measured(finding: &PromiseResult) -> Option<&Number> {
    match finding {
        PromiseResult::Measured { number, .. } => Some(number),
        PromiseResult::Skipped { .. } | PromiseResult::Failed { .. } => None,
    }
}

fn record(finding: &PromiseResult) -> Option<&Map<String, Value>> {
    match finding {
        PromiseResult::Measured { record, .. } => Some(record),
        PromiseResult::Skipped { .. } | PromiseResult::Failed { .. } => None,
    }
}

fn why(finding: &PromiseResult) -> Option<&str> {
    match finding {
        PromiseResult::Skipped { why }
        | PromiseResult::Failed { why }
        | PromiseResult::Measured { verdict: PromiseVerdict::NotPromised { why }, .. } => Some(why),
        PromiseResult::Measured { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::table::parse;

    /// One promise measured at 2 ms against `< 3 ms`, and one that could not run.
    fn judged() -> Vec<MeasuredPromise> {
        let text =
            "| id | promise | bound | command |\n| a.b | p | < 3 ms | c |\n| a.c | q | > 1 | d |";
        let measured = PromiseResult::Measured {
            verdict: PromiseVerdict::Holds,
            number: Number::from(2),
            record: Map::new(),
        };
        let skipped = PromiseResult::Skipped { why: "one node".to_owned() };
        let promises = parse(text).unwrap().into_iter();
        let pair = |(promise, finding)| MeasuredPromise { promise, result: finding };
        promises.zip([measured, skipped]).map(pair).collect()
    }

    #[test]
    fn people_see_promised_beside_measured() {
        let want = "id   promised  measured  result\n\
                    a.b  < 3 ms    2 ms      holds\n\
                    a.c  > 1       -         skipped: one node\n\
                    1 of 2 promises shown\n";
        assert_eq!(text(&judged()), want);
    }

    /// Goal: a promise that does not apply to this host is neither held nor broken, and its number
    /// is shown.
    #[test]
    fn a_promise_for_other_hosts_is_told_apart() {
        let text = "| id | promise | bound | command |\n| a.b | p | > 1 if memcpy < 10 GB/s | c |";
        let number = Number::from_f64(0.5).unwrap();
        let finding =
            PromiseResult::Measured { verdict: PromiseVerdict::Broken, number, record: Map::new() };
        let finding = finding.for_host(Some("memcpy does 18 GB/s here".to_owned()));
        assert!(finding.is_good());
        let judged = [MeasuredPromise { promise: parse(text).unwrap().remove(0), result: finding }];
        let want = "id   promised                 measured  result\n\
                    a.b  > 1 if memcpy < 10 GB/s  0.5       not-promised-here: memcpy does 18 GB/s \
                    here\n\
                    0 of 1 promises shown, 1 not promised for this host\n";
        assert_eq!(super::text(&judged), want);
        let value: Value = serde_json::from_str(&json(&judged).unwrap()).unwrap();
        assert_eq!(value["promises"][0]["holds"], false);
        assert_eq!(value["promises"][0]["memcpy"], "< 10 GB/s");
    }

    #[test]
    fn programs_see_the_schema_and_the_same_results() {
        let value: Value = serde_json::from_str(&json(&judged()).unwrap()).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!(value["promises"][0]["measured"], 2);
        assert_eq!(value["promises"][0]["holds"], true);
        assert_eq!(value["promises"][1]["result"], "skipped");
        assert_eq!(value["promises"][1]["why"], "one node");
    }
}
