//! Goal: the program does what scripts rely on: two lines of JSON, exit code 0 when nothing was
//! lost, an end by time or by signal, and messages instead of panics for impossible requests.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn load(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodeward-load"));
    command.args(line.split_whitespace());
    command
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check(line: &str) -> (Value, Value) {
    let output = load(line).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    let [ready, done]: [Value; 2] = lines(&output).try_into().unwrap();
    assert_eq!((&ready["ready"], &done["mismatches"]), (&Value::Bool(true), &Value::from(0)));
    assert_eq!(ready["pid"], done["pid"]);
    (ready, done)
}

#[test]
fn every_kind_is_written_and_checked() {
    for kind in ["heap", "anonymous", "thp", "shared", "file", "page-cache", "stack", "mlocked"] {
        let (ready, done) = check(&format!("--kind {kind} --size 4MiB --seconds 0.1"));
        let pages = ready["pages"].as_u64().unwrap();
        assert_eq!(pages * ready["page_bytes"].as_u64().unwrap(), 4 << 20, "{kind}");
        assert!(done["writes"].as_u64().unwrap() > 0, "{kind}");
        assert!(done["checks"].as_u64().unwrap() >= pages, "{kind}");
    }
}

#[test]
fn what_is_not_hot_is_checked_once() {
    let (ready, done) = check("--size 4MiB --hot 1MiB --seconds 0.1");
    let addresses = |name: &str| {
        let (start, end) = ready[name].as_str().unwrap().split_once('-').unwrap();
        [start, end].map(|text| u64::from_str_radix(text, 16).unwrap())
    };
    let ([start, end], [hot, after]) = (addresses("range"), addresses("hot"));
    // 4 MiB less 1 MiB, half of it on each side.
    assert_eq!((hot - start, after - hot, end - after), (3 << 19, 1 << 20, 3 << 19));
    assert!(done["checks"].as_u64().unwrap() >= ready["pages"].as_u64().unwrap());
}

#[test]
fn memory_comes_from_the_node_and_is_measured() {
    let (_, done) = check("--node 0 --size 8MiB --threads 2 --probe --seconds 0.5");
    let probe = &done["probe"];
    let count = |what: &str| probe[what]["count"].as_u64().unwrap();
    assert!(count("touches") > 0);
    assert!(count("waits") + count("preemptions") + count("noise") <= count("touches"));
}

#[test]
fn races_pins_and_children_keep_the_memory_whole() {
    let (ready, done) = check(
        "--size 4MiB --race unmap,discard,grow,fork --race-size 64KiB --fork 2 --pin 20 \
         --seconds 0.3",
    );
    assert_eq!(ready["pinned"], 20);
    assert_eq!(ready["children"].as_array().unwrap().len(), 2);
    assert!(done["races"].as_u64().unwrap() >= 4);
}

#[test]
fn no_writers_means_one_check_at_the_end() {
    let (ready, done) = check("--size 1MiB --threads 0 --seconds 0.05");
    assert_eq!((&done["checks"], &done["writes"]), (&ready["pages"], &Value::from(0)));
}

#[test]
fn exec_keeps_the_pid() {
    let mut child = load("--size 1MiB --exec-after 0.05").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let (first, second) = (next(), next());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let last = next();
    assert_eq!([&first["ready"], &second["ready"], &last["done"]], [&Value::Bool(true); 3]);
    assert_eq!((&first["pid"], &second["pid"]), (&last["pid"], &last["pid"]));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_signal_ends_it_in_order() {
    let mut child = load("--size 1MiB").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let done: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(done["done"], true);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_is_impossible_is_said() {
    for (line, words) in [
        ("--node 1023", "choose another --node"),
        ("--kind stack --size 1GiB", "lower --size"),
        ("--size 1MiB --pin 1000", "--pin asks for more"),
    ] {
        let output = load(line).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{line}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{line}");
    }
}
