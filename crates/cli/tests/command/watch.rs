//! `nodeward watch` as a command: its rounds, its refusals, and what it does where the kernel lets
//! it load no program. What it counts is tested in the lab.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use rustix::process::geteuid;
use serde_json::Value;

use crate::outcome::{NODEWARD, assert_failure, success};

const TWO_ROUNDS: &str = "watch --rounds 2 --interval 100ms --json";

fn run(words: &str) -> Output {
    Command::new(NODEWARD).args(words.split_whitespace()).output().unwrap()
}

fn rounds(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the keys of an object, in order.
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Goal: each round is an object with all fields, whatever counts; only the last one says that the
/// time is over, and the total is at least as long as the last interval.
#[test]
fn each_round_is_an_object() {
    let rounds = rounds(&success(TWO_ROUNDS, run(TWO_ROUNDS)));
    let [first, last] = &rounds[..] else { panic!("{rounds:?}") };
    for round in [first, last] {
        assert_eq!(round["schema"], "nodeward.watch/1");
        let facts = ["ended", "interval", "not_told", "page_bytes", "pids", "round", "schema"];
        assert_eq!(keys(round), [&facts[..], &["source", "time_unix_ms", "total"]].concat());
        assert_eq!(keys(&round["total"]), ["lost", "movers", "time_ns"]);
        assert_eq!(keys(&round["total"]["lost"]), ["callers", "holds", "runs", "starts"]);
        assert!(["bpf", "vmstat"].contains(&round["source"].as_str().unwrap()), "{round}");
    }
    assert_eq!((&first["ended"], &last["ended"]), (&Value::Null, &"time".into()));
    assert_eq!((&first["round"], &last["round"]), (&1.into(), &2.into()));
    let ns = |period: &str| last[period]["time_ns"].as_u64().unwrap();
    assert!(ns("total") >= ns("interval") + 100_000_000, "{last}");
}

/// Goal: a trace is a list of events, complete at the end; where it cannot be written, nothing
/// begins.
#[test]
fn rounds_as_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("movers.json");
    let words = format!("{TWO_ROUNDS} --perfetto {}", file.display());
    success(&words, run(&words));
    let events: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(events[0]["args"]["name"], "nodeward watch");
    assert!(
        events[1..].iter().all(|event| event["ph"] == "C" && event["ts"].is_u64()),
        "{events:?}"
    );
    let words = format!("{TWO_ROUNDS} --perfetto {}/none/movers.json", folder.path().display());
    let refused = run(&words);
    assert_failure(&words, &refused, 2, &["cannot write", "none/movers.json"]);
    assert_eq!(refused.stdout, b"", "{words}");
}

/// Goal: text has a heading, a line for each interval, and the sum.
#[test]
fn rounds_as_text() {
    let words = "watch --for 250ms --interval 100ms";
    let text = success(words, run(words));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].trim_start().starts_with("TIME  MOVER"), "{text}");
    assert!(lines.iter().any(|line| line.starts_with("in ")), "{text}");
    assert!(lines.last().unwrap().starts_with("    all  "), "{text}");
}

/// Goal: what cannot be done is refused at once, with its code and what to do.
#[test]
fn what_cannot_be_watched_is_refused() {
    for (words, code, text) in [
        ("watch --interval 1ms", 2, "give 100ms to 3600s"),
        ("watch --rounds 0", 2, "1.."),
        ("watch --for 0s", 2, "a time such as"),
        ("watch --for 1s --rounds 1", 2, "cannot be used with"),
        ("watch --system 1", 2, "cannot be used with"),
        ("watch four", 2, "four"),
        ("watch 4194304", 5, "process 4194304 is gone"),
    ] {
        let refused = run(words);
        assert_failure(words, &refused, code, &[text]);
        assert_eq!(refused.stdout, b"", "{words}");
    }
}

/// Goal: a user without capabilities gets what /proc/vmstat has, and one line that says what is
/// missing and what to do. Single processes are refused for the lack of the privilege.
#[test]
fn without_capabilities_counters_are_told() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can become a user without capabilities");
        return;
    }
    let as_nobody = |words: &str| {
        let mut command = Command::new(NODEWARD);
        command.args(words.split_whitespace()).uid(65534).gid(65534).output().unwrap()
    };
    let output = as_nobody(TWO_ROUNDS);
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("only /proc/vmstat can be read: "), "{told}");
    let rounds = rounds(&success(TWO_ROUNDS, output));
    assert_eq!(rounds[1]["source"], "vmstat");
    assert!(told.contains(rounds[1]["not_told"][0]["why"].as_str().unwrap()), "{told}");
    // Without BTF that is told first, and no privilege is missing.
    if told.contains("not permitted") {
        let refused = as_nobody("watch 1");
        assert_failure("watch 1", &refused, 4, &["single processes", "CAP_BPF and CAP_PERFMON"]);
    }
}

/// Goal: in a container, root has no right to load programs: it gets the counters, too. In a pid
/// namespace, the kernel would not know its pids: they are refused.
#[test]
fn in_a_container_counters_are_told() {
    let contained = |namespaces: &[&str], words: &str| {
        let mut command = Command::new("unshare");
        command.args(namespaces).arg(NODEWARD).args(words.split_whitespace());
        command
            .stdin(Stdio::null())
            .output()
            .ok()
            .filter(|it| !String::from_utf8_lossy(&it.stderr).contains("unshare"))
    };
    let Some(output) = contained(&["--user", "--map-root-user"], TWO_ROUNDS) else {
        eprintln!("skipped: no namespaces can be made here");
        return;
    };
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(told.contains("only /proc/vmstat can be read: "), "{told}");
    assert_eq!(rounds(&success(TWO_ROUNDS, output))[1]["source"], "vmstat");
    let new_pids = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let Some(refused) = contained(&new_pids, "watch 1") else { return };
    assert_failure("watch 1", &refused, 3, &["in a pid namespace", "name none"]);
}
