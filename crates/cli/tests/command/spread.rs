//! `spread` on simulated machines, and input that it refuses.

use std::process::Output;

use serde_json::{Value, json};

use crate::outcome::{assert_failure, run_simulated, success};

fn run(words: &str) -> Output {
    run_simulated(&format!("spread {words}"))
}

fn text(words: &str) -> String {
    success(words, run(words))
}

fn json(words: &str) -> Value {
    serde_json::from_str(&text(&format!("{words} --json"))).unwrap()
}

/// Checks the code, that standard output is empty, and that one line on stderr has these words.
fn assert_refused(words: &str, code: i32, told: &[&str]) {
    let output = run(words);
    let stderr = assert_failure(words, &output, code, told);
    assert!(output.stdout.is_empty(), "{words}");
    assert_eq!(stderr.lines().count(), 1, "{words}: {stderr}");
}

/// Goal: half of a process's memory on node 1 goes to node 0, and the report has all of it before
/// and after; a dry run tells the same and moves nothing.
#[test]
fn a_process_on_one_node() {
    let words = "--machine sim:two-socket 1000 0,1 --jobs 2 --quiet";
    let told = text(words);
    let (account, time) = told.split_once("moved 128 MiB in ").expect("it moved");
    insta::assert_snapshot!(account);
    assert!(time.contains(", 2 workers)"), "{time}");
    assert_eq!(text(words), told, "the same on every host");
    insta::assert_snapshot!(text("--machine sim:two-socket 1000 0,1 --dry-run"));
}

/// Goal: weights divide what there is: 256 MiB are 65,536 pages, three quarters 49,152.
#[test]
fn weights_and_several_processes() {
    let words = "--machine sim:two-socket 1000 1001 0,1 --weights 3,1 --quiet";
    let report = json(words);
    let expected = json!({
        "weights": {"0": 3, "1": 1},
        "block_bytes": 2 << 20,
        "mappings": 2,
        "uneven": 2,
        "before_pages": {"1": 131_072},
        "planned_pages": {"0": 98_304, "1": 32_768},
        "after_pages": {"0": 98_304, "1": 32_768},
    });
    assert_eq!(report["spread"], expected, "{report}");
    assert_eq!(report["account"]["moved"], 98_304, "{report}");
    let plan = json(&format!("{words} --dry-run"));
    let moves = json!([{"from": 1, "to": 0, "pages": 49_152}]);
    assert_eq!(plan["processes"][0]["moves"], moves, "{plan}");
    assert_eq!(plan["spread"]["planned_pages"], expected["planned_pages"], "{plan}");
    assert_eq!(plan["spread"]["after_pages"], Value::Null, "{plan}");
    // The order of the nodes is that of the weights.
    let turned = json("--machine sim:two-socket 1000 1,0 --weights 3,1 --quiet");
    assert_eq!(turned["spread"]["after_pages"], json!({"0": 16_384, "1": 49_152}), "{turned}");
}

/// Goal: what is smaller than half a block does not move: the mapping is one block of 1 GiB.
#[test]
fn a_block_larger_than_the_memory() {
    let report = json("--machine sim:two-socket 1000 0,1 --block 1GiB --quiet");
    assert_eq!(report["account"], json!({"moved": 0, "already_there": 0, "skipped": {}}));
    assert_eq!(report["spread"]["uneven"], 0, "{report}");
}

/// Goal: kinds are told apart.
#[test]
fn only_some_kinds() {
    let report = json("--machine sim:two-socket 1000 0,1 --only shared,huge --quiet");
    assert_eq!(report["spread"]["mappings"], 0, "{report}");
}

/// Goal: weights that do not fit the nodes are refused.
#[test]
fn wrong_weights() {
    let words = "--machine sim:two-socket 1000 0,1 --weights";
    assert_refused(&format!("{words} 1"), 2, &["--weights has 1 numbers, for 2 nodes (0-1)"]);
    assert_refused(&format!("{words} 1,2,3"), 2, &["--weights has 3 numbers"]);
    assert_refused(&format!("{words} 1,0"), 2, &["the weight of node 1 is 0"]);
    assert_refused(&format!("{words} 0,0"), 2, &["the weight of node 0 is 0"]);
    for odd in ["x", "-1,1", "1.5,1", "4294967296,1", "1,,1"] {
        let words = format!("{words}={odd}");
        assert_failure(&words, &run(&words), 2, &["--weights"]);
    }
}

/// Goal: a block is whole pages, and not absurdly large.
#[test]
fn wrong_blocks() {
    let words = "--machine sim:two-socket 1000 0,1 --block";
    for odd in ["0", "1", "4095", "6KiB", "1MB"] {
        assert_refused(&format!("{words} {odd}"), 2, &["--block is", "a multiple", "4.00 KiB"]);
    }
    assert_refused(&format!("{words} 65GiB"), 2, &["--block must be 64.0 GiB or less"]);
    for odd in ["x", "-1", "99999999999999999999"] {
        let words = format!("{words}={odd}");
        assert_failure(&words, &run(&words), 2, &["--block"]);
    }
}

/// Goal: of nodes that cannot be spread over, one line says why.
#[test]
fn wrong_nodes() {
    let sim = "--machine sim:two-socket";
    assert_refused(&format!("{sim} 1000 1"), 2, &["node 1 alone", "nodeward move"]);
    assert_refused(&format!("{sim} 1000 1,1"), 2, &["node 1 alone"]);
    assert_refused(&format!("{sim} 1000 0,7"), 2, &["NODES is '0,7'", "nodes here are 0-1"]);
    assert_refused(&format!("{sim} 1000 x"), 2, &["NODES is 'x'"]);
    let memoryless = "--machine sim:memoryless 1000 0,1";
    assert_refused(memoryless, 2, &["NODES names 1, which has no memory", "0,2"]);
}

/// Goal: a process that is missing, not named, or not one is reported.
#[test]
fn wrong_processes() {
    let sim = "--machine sim:two-socket";
    assert_refused(&format!("{sim} 0,1"), 2, &["no process is named"]);
    assert_refused(&format!("{sim} 7 0,1"), 5, &["process 7 is gone"]);
    assert_refused(&format!("{sim} 1000 7 0,1"), 5, &["process 7 is gone"]);
    assert_refused(&format!("{sim} x 0,1"), 2, &["is not a process id"]);
    for word in ["--name", "--cgroup"] {
        let words = format!("{sim} {word} x 0,1");
        assert_failure(&words, &run(&words), 2, &[word, "--machine"]);
    }
    let words = "";
    assert_failure(words, &run(words), 2, &["PID... NODES"]);
}
