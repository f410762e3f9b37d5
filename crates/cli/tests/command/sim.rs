//! `nodeward sim` on the command line.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::outcome::{NODEWARD, assert_failure, success};

/// Two nodes of two CPUs; a program streams through the memory of the other node, and is killed.
const SMALL: &str = r#"
about = "Small"
distances = [[10, 20], [20, 10]]
time = "100ms"
sample = "5ms"

[[node]]
id = 0
cpus = "0-1"
memory = "1GiB"

[[node]]
id = 1
cpus = "2-3"
memory = "1GiB"

[[workload]]
name = "stream"
kind = "triad"
processes = 2
memory = "4MiB"
nodes = "0"
place = "bind:1"

[[action]]
at = "50ms"
workload = "stream"
do = "kill"
"#;

fn run(words: &[&str]) -> Output {
    Command::new(NODEWARD).args(["sim", "--quiet"]).args(words).output().unwrap()
}

fn text_of(words: &[&str]) -> String {
    success(words, run(words))
}

fn json_of(words: &[&str]) -> Value {
    serde_json::from_str(&text_of(&[words, &["--json"]].concat())).unwrap()
}

fn assert_refused(words: &[&str], told: &[&str]) {
    let output = run(words);
    assert_failure(words, &output, 2, told);
    assert!(output.stdout.is_empty(), "{words:?}");
}

/// A directory with `small.toml`, and its path.
fn small(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = file_in(directory.path(), "small.toml");
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

fn file_in(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().unwrap().to_owned()
}

/// Goal: the same seed gives the same report, whatever other output is written.
#[test]
fn a_run_with_everything() {
    let (directory, path) = small(SMALL);
    let [trace, plot] = ["t.json", "p.svg"].map(|name| file_in(directory.path(), name));
    let all =
        json_of(&[&path, "--trace", &trace, "--plot", &plot, "--seed", "7", "--check-determinism"]);
    assert_eq!(all["schema"], "nodeward.sim/1");
    assert_eq!((&all["ended"], &all["deterministic"]), (&"time".into(), &true.into()));
    let report = &all["report"];
    assert_eq!(report["virtual_ns"], 100_000_000);
    assert_eq!(report["seed"], 7);
    assert_eq!(report["memory"][0]["moment"], "first-action");
    // 2 processes of 4 MiB in pages of 4 KiB, all on node 1.
    assert_eq!(report["memory"][0]["pages"], serde_json::json!([0, 2048]));
    assert_eq!(report["workloads"][0]["local_ppm"], 0);
    assert_eq!(&json_of(&[&path, "--seed", "7"])["report"], report);
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 10);
    let picture = std::fs::read_to_string(plot).unwrap();
    roxmltree::Document::parse(&picture).unwrap();
    let text = text_of(&[&path]);
    for words in ["small: Small", "MEMORY", "before the first action (50.0 ms)", "NODE", "stream"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Goal: the command line changes the scenario before it is checked.
#[test]
fn overrides_and_limits() {
    let (_directory, path) = small(SMALL);
    let told = json_of(&[&path, "--set", "workload.stream.processes=1", "--limit", "20ms"]);
    assert_eq!(told["report"]["virtual_ns"], 20_000_000);
    assert_eq!(told["report"]["workloads"][0]["processes"], 1);
    assert_eq!(told["report"]["actions"], serde_json::json!([]), "not due yet");
    assert_refused(&[&path, "--set", "workload.stream.processes=0"], &["processes", "expected"]);
    assert_refused(&[&path, "--set", "machine.latancy=1ns"], &["latancy", "latency"]);
}

/// Goal: with a limit on wall time, a day of virtual time ends early with the report so far.
#[test]
fn an_endless_run_ends() {
    let (_directory, path) = small(SMALL);
    let told = json_of(&[&path, "--limit", "86400s", "--limit-wall", "50ms"]);
    assert_eq!(told["ended"], "wall");
    assert!(told["report"]["virtual_ns"].as_u64().unwrap() < 86_400_000_000_000);
    assert!(text_of(&[&path, "--limit", "86400s", "--limit-wall", "1ns"]).contains("--limit-wall"));
}

/// Goal: a node that the settings keep empty loses what is on it, half of which nodeward would
/// leave there otherwise: 2 processes of 4 MiB are 2048 pages. A node that the scenario has not,
/// and all that it has, are refused in one line before anything is written.
#[test]
fn a_node_is_kept_empty() {
    let load = SMALL.split_once("[[action]]").unwrap().0;
    let load = load.replace("nodes = \"0\"", "populated = true").replace("bind:1", "left:1");
    let (directory, path) = small(&load);
    let [trace, settings] = ["t.json", "s.toml"].map(|name| file_in(directory.path(), name));
    let balanced = [&path, "--limit", "6s", "--balance", "--settings", &settings];
    let pages = |kept: &str| {
        std::fs::write(&settings, format!("[balance]\nkeep-empty = '{kept}'\n")).unwrap();
        let memory = json_of(&balanced)["report"]["memory"].take();
        memory.as_array().unwrap().last().unwrap()["pages"].clone()
    };
    assert_eq!(pages("none"), serde_json::json!([1024, 1024]), "one process on each node");
    assert_eq!(pages("1"), serde_json::json!([2048, 0]));
    for (kept, told) in [
        ("7", "balance.keep-empty names node 7; the nodes here are 0-1"),
        ("0-1", "balance.keep-empty leaves no node with CPUs (0-1); name fewer nodes"),
    ] {
        std::fs::write(&settings, format!("[balance]\nkeep-empty = '{kept}'\n")).unwrap();
        assert_refused(&[&balanced[..], &["--trace", &trace]].concat(), &[told]);
        assert!(!Path::new(&trace).exists(), "{kept}");
    }
}

/// Goal: with nodeward at work on it, the report tells its rounds and the reasons of the last one,
/// by the settings that are named; the same seed gives the same run, and a trace is written.
#[test]
fn nodeward_at_work() {
    let directory = tempfile::tempdir().unwrap();
    let [trace, settings] = ["t.json", "s.toml"].map(|name| file_in(directory.path(), name));
    std::fs::write(&settings, "[balance]\nrun-time-min = '1h'\n").unwrap();
    let load = ["balance-2012", "--limit", "4s"];
    let told = json_of(&[&load[..], &["--balance", "--check-determinism"]].concat());
    assert_eq!((&told["ended"], &told["deterministic"]), (&"time".into(), &true.into()));
    let last = &told["balance"]["last"];
    assert_eq!(last["schema"], "nodeward.balance/1");
    assert!(told["balance"]["rounds"].as_u64().unwrap() >= 4, "one a second: {}", told["balance"]);
    let has_home = |row: &&Value| !row["home"].is_null();
    assert_eq!(last["processes"].as_array().unwrap().iter().filter(has_home).count(), 48);
    let local = |told: &Value| told["report"]["workloads"][0]["local_ppm"].as_u64().unwrap();
    assert!(local(&told) > local(&json_of(&load)), "more is local than without it");
    let none = json_of(&[&load[..], &["--balance", "--settings", &settings]].concat());
    assert!(none["balance"]["last"]["processes"][0]["home"].is_null(), "none has run for an hour");
    let text = text_of(&[&load[..], &["--balance", "--trace", &trace]].concat());
    for words in ["nodeward: ", " moved\n", "the last round, ", "DECISION", "memory-there"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    serde_json::from_str::<Value>(&std::fs::read_to_string(trace).unwrap()).unwrap();
}

/// Goal: Ctrl-C ends a run with the report so far, also with nodeward at work.
#[test]
fn an_interrupted_run_reports() {
    interrupted_run_reports(&[]);
    interrupted_run_reports(&["--balance"]);
}

fn interrupted_run_reports(further: &[&str]) {
    let (programs, _actions) = SMALL.split_once("[[action]]").unwrap();
    let (_directory, path) = small(programs);
    let words = ["sim", "--progress", "always", &path, "--limit", "1000s", "--json"];
    let mut child = Command::new(NODEWARD);
    let child = child.args(words).args(further).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // A tenth is done, so the run is in progress and listens to signals.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("10%") && line.contains("simulated"), "{line}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let rest = std::thread::spawn(move || lines.for_each(drop)); // beside stdout: both are pipes
    let output = child.wait_with_output().unwrap();
    rest.join().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["ended"], "stopped");
    assert!(told["report"]["virtual_ns"].as_u64().unwrap() >= 100_000_000_000);
}

/// Goal: the file selects sections; an unknown one is refused with the known ones.
#[test]
fn the_file_says_what_is_told() {
    let (_directory, path) = small(&format!("report = [\"nodes\"]\n{SMALL}"));
    let text = text_of(&[&path]);
    assert!(text.contains("NODE") && !text.contains("WORKLOAD"), "{text}");
    let (_directory, path) = small(&format!("report = [\"weather\"]\n{SMALL}"));
    assert_refused(
        &[&path],
        &["small.toml:1: 'weather' is no part of a report; expected one of memory, workloads"],
    );
}

/// Goal: every figure that SPEC.md uses is one line of JSON.
#[test]
fn figures() {
    let (_directory, path) = small(SMALL);
    for figure in ["speed", "allocations", "bytes-per-page"] {
        let text = text_of(&[&path, "--limit", "10ms", "--figure", figure]);
        let told: Value = serde_json::from_str(&text).unwrap();
        assert!(told["measured"].as_f64().unwrap() > 0.0, "{text}");
        assert_eq!(told["faulted_pages"], 2048, "two times 4 MiB");
    }
}

/// Goal: all built-in scenarios are listed with their purpose.
#[test]
fn the_list() {
    let text = text_of(&["--list"]);
    let told = json_of(&["--list"]);
    let scenarios = told["scenarios"].as_array().unwrap();
    assert!(scenarios.len() >= 11, "{text}");
    assert_eq!(text.lines().count(), scenarios.len());
    assert!(scenarios.iter().all(|one| !one["about"].as_str().unwrap().is_empty()));
}

/// Goal: invalid input, and paths that cannot be read or written, are reported before anything
/// runs.
#[test]
fn misuse() {
    let (directory, path) = small(SMALL);
    let nowhere = file_in(directory.path(), "not/there");
    let both = file_in(directory.path(), "both");
    let table: [(&[&str], &[&str]); 16] = [
        (&[], &["SCENARIO"]),
        (&["nope"], &["nope: no such scenario", "cpuless"]),
        (&["/"], &["/: cannot be read", "directory"]),
        (&[&path, "--trace", &both, "--plot", &both], &["--trace and --plot", "same file"]),
        (&[&path, "--limit", "0s"], &["is zero, not a time"]),
        (&[&path, "--limit", "86401s"], &["expected 86400 s or less"]),
        (&[&path, "--limit-wall", "soon"], &["is not a time"]),
        (&[&path, "--set", "time"], &["expected KEY=VALUE"]),
        (&[&path, "--seed", "-1"], &["--seed"]),
        (&[&path, "--trace-max", "1MiB"], &["--trace <FILE>"]),
        (&[&path, "--limit-wall", "1s", "--check-determinism"], &["cannot be used with"]),
        (&[&path, "--list"], &["cannot be used with"]),
        (&[&path, "--settings", &nowhere], &["--balance"]),
        (&[&path, "--balance", "--settings", &nowhere], &["cannot read", "not/there"]),
        (&[&path, "--figure", "beauty"], &["speed", "bytes-per-page"]),
        (&["--figure", "speed"], &["SCENARIO is missing", "--list"]),
    ];
    for (words, told) in table {
        assert_refused(words, told);
    }
    for option in ["--trace", "--plot"] {
        assert_refused(&[&path, option, &nowhere], &["cannot write", "not/there"]);
    }
}

/// Goal: what a scenario says about itself cannot write a second line, nor colours.
#[test]
fn an_about_is_one_line() {
    let (_directory, path) = small(&SMALL.replace("Small", r"one\ntwo\u001b[31m"));
    let output = run(&[&path]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().next().unwrap().ends_with(r": one\x0atwo\x1b[31m"), "{text}");
}

/// Goal: an error in a file is reported with its line.
#[test]
fn a_faulty_file() {
    let (_directory, path) = small(&SMALL.replace("cpus = \"2-3\"", "cpus = \"1-3\""));
    assert_refused(&[&path], &["small.toml:", "expected"]);
    let (_directory, path) = small("time = ");
    assert_refused(&[&path], &["small.toml:1"]);
    let (_directory, path) = small("");
    assert_refused(&[&path], &["small.toml", "expected"]);
}
