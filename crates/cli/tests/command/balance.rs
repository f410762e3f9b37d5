//! `balance` and `explain PID` on simulated machines: the same balancer, in virtual time,
//! deterministic.

use std::process::{Command, Output};

use crate::outcome::{NODEWARD, assert_failure, success};

/// Two nodes and 48 streams, after two seconds: old enough for homes.
const MACHINE: &str = "--machine sim:home-2012 --at 2s --seed 3";

fn run(words: &str) -> Output {
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = Command::new(NODEWARD);
    command.args(words.split_whitespace());
    command.env("NODEWARD_STATE_DIR", nowhere.path()).env("NODEWARD_CONFIG", "/dev/null");
    let output = command.output().unwrap();
    let written = nowhere.path().read_dir().unwrap().count();
    let is_simulated = words.contains("sim:");
    assert!(!is_simulated || written == 0, "{words}: nothing is kept of what is no more");
    output
}

fn text(words: &str) -> String {
    success(words, run(words))
}

/// Returns each line of JSON that is a round, without the samples between rounds.
fn rounds(words: &str) -> Vec<serde_json::Value> {
    let text = text(words);
    let all = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    all.filter(|round| round["patrol"] == false).collect()
}

/// Goal: a round is a table of homes, actions, reasons and expected gains.
#[test]
fn one_round_as_a_table() {
    let words = format!("balance --dry-run {MACHINE}");
    let told = text(&words);
    insta::assert_snapshot!(told);
    assert_eq!(text(&words), told, "the same seed is the same round");
    assert!(told.contains("nothing was done"), "{told}");
    let acted = text(&format!("balance --once {MACHINE}"));
    assert!(acted.contains("brought home: "), "{acted}");
}

/// Goal: the daemon on a simulated machine writes a line for each round, the same for a seed, and
/// brings memory home.
#[test]
fn rounds_are_lines_of_json() {
    let words = format!("balance --json --for 6s {MACHINE}");
    let all = rounds(&words);
    assert_eq!(text(&words), text(&words), "the same seed is the same run");
    assert!(all.len() >= 4, "{} rounds", all.len());
    // Nothing is decided at the first sample: loads are differences between two.
    for round in &all[1..] {
        assert_eq!(round["schema"], "nodeward.balance/1");
        assert_eq!(round["processes"].as_array().map(Vec::len), Some(48), "{round}");
    }
    let away = |round: &serde_json::Value| -> u64 {
        let rows = round["processes"].as_array().unwrap();
        rows.iter().map(|row| row["numbers"]["pages_away"].as_u64().unwrap()).sum()
    };
    let most = all.iter().map(away).max().unwrap();
    let last = away(all.last().unwrap());
    assert!(most > 0 && last * 20 <= most, "{most} pages were away, {last} still are");
    let acted = all.iter().map(|round| round["moved_pages"].as_u64().unwrap()).sum::<u64>();
    assert!(acted > 0, "memory was moved");
}

/// Goal: a dry run uses the same balancer, and does nothing.
#[test]
fn a_dry_run_moves_nothing() {
    for round in rounds(&format!("balance --dry-run --json --for 4s {MACHINE}")) {
        assert_eq!((&round["acted"], &round["moved_pages"]), (&false.into(), &0.into()), "{round}");
        assert_eq!(round["nudged"], 0);
    }
}

/// Goal: only named processes are balanced; excluded ones have that as their reason.
#[test]
fn some_are_chosen() {
    let one = &rounds(&format!("balance --once --json --pid 1001 --pid 1002 {MACHINE}"))[0];
    let pids: Vec<_> = one["processes"].as_array().unwrap().iter().map(|row| &row["pid"]).collect();
    assert_eq!(pids, [1001, 1002]);
    let none = &rounds(&format!("balance --once --json --except-names stream {MACHINE}"))[0];
    for row in none["processes"].as_array().unwrap() {
        assert_eq!((&row["verdict"], &row["reason"]), (&"left".into(), &"excluded".into()));
    }
}

/// Goal: each new decision is reported once on standard error, unless --quiet is given.
#[test]
fn decisions_are_told() {
    let told = |more: &str| {
        let output = run(&format!("balance --for 5s {more} {MACHINE}"));
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let lines = told("");
    let first = lines.lines().filter(|line| line.starts_with("stream (1000): at home on "));
    assert_eq!(first.count(), 1, "{lines}");
    assert_eq!(told("--quiet"), "");
}

/// Goal: the decision about a process is explained in words, with its numbers.
#[test]
fn a_process_is_explained() {
    let words = "explain 1003 --machine sim:home-2012 --at 2s --seed 3";
    insta::assert_snapshot!(text(words));
    let json: serde_json::Value = serde_json::from_str(&text(&format!("{words} --json"))).unwrap();
    assert_eq!(json["processes"][0]["pid"], 1003, "{json}");
    assert_eq!(json["reasons"].as_array().map(Vec::len), Some(0));
    let both = text("explain 1003 1004 pinned --machine sim:home-2012 --at 2s");
    assert!(both.contains("process 1004 (stream)") && both.contains("\npinned\n"), "{both}");
}

/// Goal: a name that no process has is told, as it may be misspelled; the round is made.
#[test]
fn an_absent_name_is_told() {
    let words = "balance --dry-run --interval 100ms --name no-such-name";
    let output = run(words);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("no process is called 'no-such-name' now"), "{told}");
    assert!(success(words, output).contains("0 processes looked into"));
}

/// Goal: missing subjects and contradictory options are refused with their codes.
#[test]
fn what_cannot_be_balanced() {
    for (words, code, told) in [
        ("explain 7 --machine sim:home-2012", 5, "process 7 is gone"),
        ("explain nonsense", 2, "'nonsense' is neither a process id nor a reason"),
        ("explain pined", 2, "(did you mean 'pinned'?)"),
        ("explain pinned --machine sim:home-2012", 2, "name a PID"),
        ("explain 4194304", 5, "process 4194304 is gone"),
        ("balance --machine sim:nope", 2, "no such scenario"),
        ("balance --once --for 1s", 2, "--for"),
        ("balance --seed 1", 2, "--machine"),
        ("balance --rivals fight", 2, "stand-back"),
        ("balance --scheduler cfs", 2, "neither nudge nor bpf"),
        ("balance --pin --scheduler bpf --once", 2, "balance.scheduler = bpf"),
        ("balance --interval 1ms", 2, "balance.interval"),
        ("balance --user nobody-of-this-name", 2, "is no user"),
        ("balance --cgroup /no/such/group", 2, "no/such/group"),
        ("balance --samples /no/such/pipe", 2, "'/no/such/pipe' cannot be used"),
        ("balance --samples Cargo.toml", 2, "give a pipe"),
        ("balance --samples - --machine sim:home-2012", 2, "--machine"),
    ] {
        let output = run(words);
        assert_failure(words, &output, code, &[told]);
        assert!(output.stdout.is_empty(), "{words}");
    }
}

/// Goal: a process has a line at once, and of what comes within a minute the last one, with how
/// many were left out; `--verbose` has all of them.
#[test]
fn a_process_has_a_line_a_minute() {
    let lines = |options: &str| -> Vec<String> {
        let words =
            format!("balance --machine sim:balance-choked --set time=60s --for 55s {options}");
        let told = String::from_utf8(run(&words).stderr).unwrap();
        told.lines().filter(|line| line.starts_with("steady (1000)")).map(str::to_owned).collect()
    };
    let (few, all) = (lines(""), lines("--verbose"));
    assert!(all.len() > 2, "{all:?}");
    let left_out = match all.len() - 2 {
        1 => "a line before this was left out".to_owned(),
        more => format!("{more} lines before this were left out"),
    };
    let last = format!("{} ({left_out})", all[all.len() - 1]);
    assert_eq!(few, [all[0].clone(), last]);
}

/// Goal: what is on a node that is kept empty gets its home elsewhere and leaves; a node that is
/// not here, and all that there are, are refused.
#[test]
fn a_node_is_kept_empty() {
    let words = format!("balance --json --for 3s {MACHINE} --keep-empty 1");
    let rounds = rounds(&words);
    let rows = |round: &serde_json::Value| round["processes"].as_array().unwrap().clone();
    let homes: Vec<_> = rounds.iter().flat_map(rows).map(|row| row["home"].clone()).collect();
    let on = |node: u32| serde_json::json!({ "node": node });
    assert!(homes.contains(&on(0)) && !homes.contains(&on(1)), "{homes:?}");
    let memory: Vec<_> =
        rounds.iter().flat_map(rows).map(|row| row["memory_reason"].clone()).collect();
    assert!(memory.iter().any(|reason| reason == "kept-empty"), "{memory:?}");
    for (nodes, told) in [
        ("7", "balance.keep-empty names node 7; the nodes here are 0-1"),
        ("0-1", "balance.keep-empty leaves no node with CPUs (0-1)"),
        ("x", "'x' is neither nodes such as 1 or 2-3,5 nor none"),
    ] {
        let words = format!("balance --once {MACHINE} --keep-empty {nodes}");
        let output = run(&words);
        assert_failure(&words, &output, 2, &[told]);
        assert!(output.stdout.is_empty(), "{words}");
    }
}
