//! `nodeward sim scaling`, and its page.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::outcome::{NODEWARD, is_long};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

fn run(words: &[&str]) -> Output {
    Command::new(NODEWARD).args(["sim", "scaling", "--quiet"]).args(words).output().unwrap()
}

/// Goal: two points of a curve, as the page has them, with the command of each.
#[test]
fn points_are_those_of_the_page() {
    let output = run(&["base", "--counts", "4,1,1", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = told["curves"][0]["points"].as_array().unwrap();
    assert_eq!(points.iter().map(|point| &point["count"]).collect::<Vec<_>>(), [1, 4]);
    let page = fs::read_to_string(Path::new(DOCS).join("scaling.md")).unwrap();
    for point in points {
        let row = format!(
            "| {} | {:.1} | {:.2} |",
            point["count"],
            point["gb_per_s"].as_f64().unwrap(),
            point["times_first"].as_f64().unwrap()
        );
        assert!(page.contains(&row), "{row}");
    }
    let command = points[1]["command"].as_str().unwrap();
    assert!(command.contains("--jobs 4 --set machine.batch=512"), "{command}");
}

/// Goal: the page is what the command writes.
#[test]
fn the_page_is_current() {
    if !is_long() {
        println!("skipped: it takes half a minute; `make test-long` runs this");
        return;
    }
    let docs = tempfile::tempdir().unwrap();
    let output = run(&["--docs", docs.path().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    for name in ["scaling.md", "scaling.svg"] {
        let written = fs::read_to_string(docs.path().join(name)).unwrap();
        let committed = fs::read_to_string(Path::new(DOCS).join(name)).unwrap_or_default();
        assert!(written == committed, "docs/{name} is old: `nodeward sim scaling --docs docs`");
    }
}

/// Goal: an unknown curve is refused with the known ones.
#[test]
fn an_unknown_curve_is_refused() {
    let output = run(&["mmap-lock"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("lru-lock") && stderr.contains("packed"), "{stderr}");
}
