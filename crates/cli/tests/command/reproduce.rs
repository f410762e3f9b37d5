//! `nodeward reproduce`: each row is within its tolerance, and the documentation is current.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::outcome::{NODEWARD, is_long};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

fn run(words: &[&str]) -> Output {
    Command::new(NODEWARD).args(["reproduce", "--quiet"]).args(words).output().unwrap()
}

/// Returns the tables of a command, and the exit code that tells whether all are within.
fn tables(words: &[&str]) -> (Vec<Value>, Option<i32>) {
    let output = run(&[words, &["--json"]].concat());
    let stderr = String::from_utf8(output.stderr).unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{stderr}"));
    (json["tables"].as_array().unwrap().clone(), output.status.code())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn rows<'a>(table: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    table["rows"].as_array().unwrap().iter().filter(move |row| text(row, "kind") == kind)
}

fn is_predicted(row: &Value) -> bool {
    text(row, "basis") == "predicted"
}

/// Goal: figures of each seed are within 15 %, shares and tails within a factor of 2 and in the
/// right direction, hold-outs within 25 % or explained; every goal beyond the seeds is reached.
#[test]
fn every_row_of_a_table_is_within_its_tolerance() {
    assert_within(&["2017"]);
}

/// Goal: so are all tables, and the page with all of it in docs/ is current. One run for all of it:
/// it takes a minute.
#[test]
fn every_row_is_within_its_tolerance_and_the_page_is_current() {
    if !is_long() {
        println!("skipped: it takes a minute; `make test-long` runs this");
        return;
    }
    let docs = tempfile::tempdir().unwrap();
    assert_within(&["--docs", docs.path().to_str().unwrap()]);
    current(docs.path());
}

/// Checks all rows of the tables that a command computes.
fn assert_within(words: &[&str]) {
    let (tables, code) = tables(words);
    assert!(!tables.is_empty());
    for table in &tables {
        let name = text(table, "name");
        for row in table["rows"].as_array().unwrap() {
            assert_ne!(text(row, "verdict"), "outside", "{name}: {row:#}");
            assert!(text(row, "why").len() > 20, "{name}: a row says why: {row:#}");
            assert!(!text(row, "counter").is_empty(), "{name}: a row has a counter: {row:#}");
        }
        let beyond = &table["beyond"];
        assert!(beyond.is_null() || beyond["reached"] == true, "{name}: {beyond:#}");
        fitted_fairly(table);
    }
    assert_eq!(code, Some(0));
}

/// Checks that fewer parameters were fitted than there are rows, that each calibrated row names one
/// of them, and that each seed has a headline without fitted parameters.
fn fitted_fairly(table: &Value) {
    let name = text(table, "name");
    let all = table["rows"].as_array().unwrap();
    let fitted = table["fitted"].as_array().unwrap();
    assert!(fitted.len() < all.len(), "{name}: {} fitted for {} rows", fitted.len(), all.len());
    for row in all.iter().filter(|row| !is_predicted(row)) {
        let parameter = text(&row["basis"], "calibrated");
        let named = fitted.iter().any(|fitted| text(fitted, "parameter") == parameter);
        assert!(named, "{name}: no fitted parameter {parameter:?} of {row:#}");
    }
    let headlines = rows(table, "headline").count();
    assert!(headlines == 0 || rows(table, "headline").any(is_predicted), "{name}: no prediction");
    assert!(rows(table, "hold-out").all(is_predicted), "{name}: a hold-out is fitted");
}

/// Checks that the files of the documentation are those that the command writes.
fn current(written: &Path) {
    for entry in fs::read_dir(written).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let committed = fs::read_to_string(Path::new(DOCS).join(name)).unwrap_or_default();
        let is_current = committed == fs::read_to_string(&path).unwrap();
        assert!(is_current, "docs/{name} is old: `nodeward reproduce --docs docs` writes it anew");
    }
}

/// Goal: an unknown table is refused with the known ones.
#[test]
fn an_unknown_table_is_refused() {
    let output = run(&["2024"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("2004") && stderr.contains("pcp"), "{stderr}");
}

/// Goal: a figure of one table requires that table's name.
#[test]
fn a_figure_of_one_table_needs_its_name() {
    let output = run(&["--figure", "beyond"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--figure beyond"), "{stderr}");
}
