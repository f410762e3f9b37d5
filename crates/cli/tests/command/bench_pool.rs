//! `nodeward bench pool` on whatever machine this runs.

use std::process::{Command, Output};

use serde_json::Value;

use crate::outcome::{NODEWARD, assert_failure, success};

fn run(words: &[&str]) -> Output {
    Command::new(NODEWARD).args(["bench", "pool", "--quiet"]).args(words).output().unwrap()
}

fn measured(words: &[&str]) -> String {
    success(words, run(words))
}

fn assert_refused(words: &[&str], told: &str) {
    assert_failure(words, &run(words), 2, &[told]);
}

/// Goal: the small table has all contenders in each group, zeroed memory is zero, a picture is
/// drawn.
#[test]
fn the_small_table() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("pool.svg");
    let words = ["--smoke", "--bytes", "2MiB", "--threads", "2", "--json", "--svg"];
    let text = measured(&[&words[..], &[svg.to_str().unwrap()]].concat());
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["schema"], "nodeward.bench-pool/1");
    let report = &told["report"];
    let missing = report["not_built_in"].as_array().unwrap().len();
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2 * 2 * (6 - missing), "two orders, zeroed and not");
    for cell in cells {
        assert!(cell["bytes_per_s"].as_u64().unwrap() > 0, "{cell}");
        assert!(cell["latency"]["count"].as_u64().unwrap() > 0, "{cell}");
        assert_eq!(cell["dirty_bytes"], 0, "{cell}");
    }
    let timelines = report["courses"].as_array().unwrap();
    assert_eq!(timelines.len(), 3, "one for each tuning");
    for timeline in timelines {
        assert_eq!(timeline["busy"].as_array().unwrap().len(), 10, "{timeline}");
        assert!(timeline["peak_held_bytes"].as_u64().unwrap() > 0, "{timeline}");
    }
    assert!(std::fs::read_to_string(svg).unwrap().contains("nodeward bench pool"));
}

/// Goal: a figure is one line of JSON with its number.
#[test]
fn one_figure() {
    for name in ["vs-kernel", "held"] {
        let text = measured(&["--smoke", "--figure", name]);
        assert_eq!(text.lines().count(), 1);
        let figure: Value = serde_json::from_str(&text).unwrap();
        assert!(figure["measured"].as_f64().unwrap() > 0.0, "{figure}");
    }
}

/// Goal: invalid values are refused with valid ones.
#[test]
fn nonsense_is_refused() {
    assert_refused(&["--bytes", "1MiB"], "--bytes must be at least 2.00 MiB");
    assert_refused(&["--bytes", "1000TiB"], "or less");
    assert_refused(&["--only", "malloc"], "mimalloc, jemalloc, pool-fixed");
    assert_refused(&["--figure", "warp"], "zone-visits-depth");
    assert_refused(&["--threads", "0"], "0 is not in 1..=1024");
    assert_refused(&["--orders", "10"], "10 is not in 0..=9");
}
