//! `show` and `move` on simulated machines.

use crate::outcome::{assert_failure, run_simulated as run, success};

fn text(words: &str) -> String {
    success(words, run(words))
}

/// Checks the code, that standard output is empty, and that stderr has these words.
fn assert_refused(words: &str, code: i32, told: &[&str]) {
    let output = run(words);
    assert_failure(words, &output, code, told);
    assert!(output.stdout.is_empty(), "{words}");
}

/// Goal: a simulated machine is shown like a real one.
#[test]
fn the_machine_and_its_processes() {
    insta::assert_snapshot!(text("show --machine sim:two-socket"));
}

/// Goal: residency of a process is reported as on a real kernel; the same seed samples the same
/// pages.
#[test]
fn one_process() {
    let words = "show --machine sim:two-socket 1001 --seed 1";
    insta::assert_snapshot!(text(words));
    assert_eq!(text(words), text(words));
}

/// Goal: in its first nanosecond no memory is populated; a scenario's key can be set.
#[test]
fn time_and_keys_are_chosen() {
    let words = "show --machine sim:two-socket --at 1ns --set workload.stream.processes=2 --json";
    let shown: serde_json::Value = serde_json::from_str(&text(words)).unwrap();
    let pages = |index: usize| shown["processes"][index]["pages"].as_object().map(|p| p.len());
    assert_eq!((pages(0), pages(1), pages(2)), (Some(0), Some(0), None), "{shown}");
    assert_eq!(shown["machine"]["nodes"].as_array().map(Vec::len), Some(2));
}

/// Goal: the mover moves a process in virtual time, with the same report on every host.
#[test]
fn a_move() {
    let words = "move --machine sim:two-socket 1000 1 0 --jobs 2 --quiet";
    let told = text(words);
    let (account, time) = told.split_once("moved 256 MiB in ").expect("it moved");
    insta::assert_snapshot!(account);
    assert!(time.contains(", 2 workers)"), "{time}");
    let json: serde_json::Value = serde_json::from_str(&text(&format!("{words} --json"))).unwrap();
    // 256 MiB in pages of 4 KiB.
    assert_eq!(json["account"]["moved"], 65_536, "{json}");
    assert_eq!(text(words), told);
}

/// Goal: a dry run reports a move without making it.
#[test]
fn a_plan() {
    insta::assert_snapshot!(text("move --machine sim:two-socket 1000 1 0 --dry-run"));
}

/// Goal: missing machines, keys, processes and nodes have different errors.
#[test]
fn what_is_not_there() {
    assert_refused("show --machine sim:nope", 2, &["nope", "no such scenario", "cpuless"]);
    assert_refused("show --machine sim:", 2, &["expected sim:SCENARIO"]);
    assert_refused("show --machine two-socket", 2, &["expected sim:SCENARIO"]);
    assert_refused("show --machine sim:two-socket 7", 5, &["process 7 is gone"]);
    assert_refused("move --machine sim:two-socket 7 1 0", 5, &["process 7 is gone"]);
    assert_refused(
        "move --machine sim:two-socket 1000 1 5",
        2,
        &["TO is '5'", "nodes here are 0-1"],
    );
    let key = "--set machine.latenci=1ns";
    assert_refused(&format!("show --machine sim:two-socket {key}"), 2, &[key, "latency"]);
    assert_refused("show --machine sim:two-socket --set machine.latency", 2, &["KEY=VALUE"]);
    assert_refused("show --machine sim:two-socket --at soon", 2, &["--at"]);
}

/// Goal: operations that need a kernel are refused, and options of simulated machines require one.
#[test]
fn what_does_not_go_together() {
    let sim = "move --machine sim:two-socket";
    assert_refused(&format!("{sim} --name x 1 0"), 2, &["--name", "--machine"]);
    assert_refused(&format!("{sim} --cgroup x 1 0"), 2, &["--cgroup", "--machine"]);
    assert_refused(&format!("{sim} --file x 0"), 2, &["--file", "--machine"]);
    assert_refused(&format!("{sim} 1000 --hot damon"), 2, &["--hot", "--machine"]);
    assert_refused("show --machine sim:two-socket --window 1s", 2, &["--window", "--machine"]);
    assert_refused("show --at 1s", 2, &["--machine"]);
    assert_refused("show --seed 3", 2, &["--seed", "PID"]);
    assert_refused("move --seed 3 1 0 1", 2, &["--machine"]);
}
