//! `nodeward sim swarm` on the command line.

use std::process::{Command, Output};

use serde_json::Value;

use crate::outcome::{NODEWARD, assert_failure};

/// A bug that is found on one of the first seeds.
const BUG: &str = "lose-page";

fn run(words: &[&str]) -> Output {
    Command::new(NODEWARD).arg("sim").args(words).arg("--quiet").output().unwrap()
}

/// Runs a command that ends with this code. Returns its output.
fn told(code: i32, words: &[&str]) -> String {
    let output = run(words);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the same as JSON, without the wall time.
fn json(code: i32, words: &[&str]) -> Value {
    let mut json: Value = serde_json::from_str(&told(code, words)).unwrap();
    assert!(json.as_object_mut().unwrap().remove("wall_ns").unwrap().is_u64());
    json
}

/// Goal: the report of a swarm is the same whatever the number of workers.
#[test]
fn a_swarm_is_the_same_with_any_number_of_workers() {
    let one = json(0, &["swarm", "--seeds", "8", "--jobs", "1", "--json"]);
    assert_eq!(one, json(0, &["swarm", "--seeds", "8", "--jobs", "3", "--json"]));
    assert_eq!((&one["schema"], &one["cases"]), (&"nodeward.swarm/1".into(), &8.into()));
    assert_eq!(one["findings"], Value::Array(Vec::new()));
    assert!(one["happened"]["events"].as_u64().unwrap() > 0);
}

/// Goal: a finding with a planted bug ends with code 9, and the printed command reproduces it.
#[test]
fn a_finding_is_found_again_by_its_line() {
    let all = json(9, &["swarm", "--seeds", "20", "--bug", BUG, "--json"]);
    let finding = &all["findings"][0];
    let replay = finding["replay"].as_str().unwrap();
    let words: Vec<&str> = replay.split(' ').collect();
    assert_eq!(words[..3], ["nodeward", "sim", "swarm"]);
    let again = json(9, &[&words[2..], &["--json"]].concat());
    assert_eq!(&again["findings"][0], finding);
    let text = told(9, &words[2..]);
    assert!(text.contains(&format!("\n    {replay}\n")), "{text}");
}

/// Goal: the scenario of a seed can be simulated from a file.
#[test]
fn a_printed_case_is_a_scenario() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("case.toml");
    let text = told(0, &["swarm", "--seed", "7", "--print"]);
    assert!(text.starts_with("# seed 7 of the swarm"), "{text}");
    std::fs::write(&path, text).unwrap();
    let report = told(0, &[path.to_str().unwrap(), "--json"]);
    assert!(serde_json::from_str::<Value>(&report).unwrap().is_object());
}

/// Goal: one seed and a range of them contradict each other.
#[test]
fn contradictions_are_refused() {
    let stderr = |output: Output| String::from_utf8(output.stderr).unwrap();
    let output = run(&["swarm", "--seed", "7", "--seeds", "9"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(output).contains("--seeds"));
}

/// Goal: no check passes that ran nothing: a series of no seeds is refused, and so is one beyond
/// the largest number.
#[test]
fn seeds_that_name_nothing() {
    const LARGEST: &str = "18446744073709551615";
    for words in [["--seeds", "0"], ["--seed", LARGEST], ["--from", LARGEST]] {
        let output = run(&["swarm", words[0], words[1]]);
        assert_failure(words, &output, 2, &[words[0], "is not in"]);
    }
}
