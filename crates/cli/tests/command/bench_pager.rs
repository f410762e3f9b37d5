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
        if row["road"] == "move" {
            assert!(cell["bare"]["ratio"].as_f64().unwrap() > 0.0, "{cell}");
        }
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

/// Goal: the limits of this machine are printed, each call for each number of threads, and the sums
/// of those of a migration; bad numbers are refused.
#[test]
fn limits() {
    let run = |words: &[&str]| {
        let words = ["bench", "limits", "--quiet"].iter().chain(words);
        Command::new(NODEWARD).args(words).output().unwrap()
    };
    let small = ["--size", "8MiB", "--threads", "1,2", "--rounds", "1"];
    let output = run(&small);
    if output.status.code() == Some(3) {
        let why = String::from_utf8(output.stderr).unwrap();
        assert!(why.contains("userfaultfd"), "{why}");
        return eprintln!("skipped: {why}");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    for line in ["2 threads", "UFFDIO_COPY", "to a fresh page", "to a recycled page"] {
        assert!(text.contains(line), "{text}");
    }
    let json = run(&[&small[..], &["--json"]].concat()).stdout;
    let told: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(told["schema"], "nodeward.bench-limits/1");
    let cells = told["cells"].as_array().unwrap();
    assert!(cells.len() >= 2 * 6, "{told}");
    assert!(cells.iter().all(|cell| cell["page_ns"].as_f64().unwrap() > 0.0), "{told}");
    assert_failure(["limits"], &run(&["--threads", "0"]), 2, &["--threads"]);
}
