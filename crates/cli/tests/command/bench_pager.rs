//! `nodeward bench pager` on whatever machine this runs: it measures, or says why it cannot.

use std::cell::Cell;
use std::process::{Command, Output};

use nodeward_linux::test_wait::rounds;
use serde_json::Value;

use crate::outcome::{NODEWARD, assert_failure};

fn run(words: &[&str]) -> Output {
    Command::new(NODEWARD).args(["bench", "pager", "--quiet"]).args(words).output().unwrap()
}

/// Returns the output, or `None` where a machine cannot measure it and says so.
fn measured(words: &[&str]) -> Option<String> {
    let output = run(words);
    let stderr = String::from_utf8(output.stderr).unwrap();
    if output.status.code() == Some(3) {
        assert!(stderr.contains("userfaultfd"), "{stderr}");
        eprintln!("skipped: {stderr}");
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{words:?}: {stderr}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn assert_refused(words: &[&str], told: &str) {
    assert_failure(words, &run(words), 2, &[told]);
}

/// Goal: the small table has a ratio in each cell, a picture is drawn, and nothing is lost.
#[test]
fn the_small_table() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("pager.svg");
    let words = ["--smoke", "--only", "4k", "--lanes", "1", "--json", "--svg"];
    let Some(text) = measured(&[&words[..], &[svg.to_str().unwrap()]].concat()) else { return };
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["schema"], "nodeward.bench-pager/1");
    let row = &report["rows"][0];
    let cells = row["cells"].as_array().unwrap();
    let columns: Vec<_> = cells.iter().map(|cell| cell["column"].as_str().unwrap()).collect();
    match row["road"].as_str().unwrap() {
        "kernel" => assert_eq!(columns, ["recycled-writer", "recycled-alone"]),
        _ => assert_eq!(columns, ["one-way", "recycled-writer", "recycled-alone"]),
    }
    for cell in cells {
        assert!(cell["ratio"].as_f64().unwrap() > 0.0, "{cell}");
        assert!(cell["moved_bytes"].as_u64().unwrap() > 0, "{cell}");
    }
    assert_eq!(row["findings"]["lost_writes"], 0, "{}", row["findings"]);
    assert_eq!(row["findings"]["torn_reads"], 0, "{}", row["findings"]);
    assert!(std::fs::read_to_string(svg).unwrap().contains("nodeward bench pager"));
}

/// Goal: a soak of 64 MiB, moved in parts of 16 MiB in ways that a seed decides, loses no word.
#[test]
fn a_small_soak() {
    let words = ["--soak", "64MiB", "--size", "16MiB", "--seed", "7", "--json"];
    let written = Cell::new(0);
    for _ in rounds(1, "threads write while pages move", || written.get() > 0) {
        let Some(text) = measured(&words) else { return };
        let soak = &serde_json::from_str::<Value>(&text).unwrap()["soak"];
        assert!(soak["moved_bytes"].as_u64().unwrap() >= 64 << 20, "{soak}");
        written.set(soak["pages_written"].as_u64().unwrap());
        assert_eq!((&soak["findings"]["lost_writes"], &soak["seed"]), (&0.into(), &7.into()));
    }
}

/// Goal: a figure is one line of JSON with its number.
#[test]
fn one_figure() {
    let Some(text) = measured(&["--smoke", "--figure", "4k-recycled-alone-1"]) else { return };
    assert_eq!(text.lines().count(), 1);
    let figure: Value = serde_json::from_str(&text).unwrap();
    assert!(figure["measured"].as_f64().unwrap() > 0.0, "{figure}");
}

/// Goal: invalid values are refused with valid ones.
#[test]
fn nonsense_is_refused() {
    assert_refused(&["--size", "1MiB"], "--size must be at least 8.00 MiB");
    assert_refused(&["--size", "1000TiB"], "or less");
    assert_refused(&["--from", "63"], "node 63 has no memory; nodes with memory are");
    assert_refused(&["--only", "8k"], "expected 4k or 2m");
    assert_refused(&["--figure", "4k-warp"], "recycled-writer-N");
    assert_refused(&["--lanes", "0"], "0 is not in 1..=1024");
}
