//! `nodeward run`: the environment of the program, and its exit codes.

use std::process::{Command, Output};

use crate::outcome::NODEWARD;

fn run(words: &[&str]) -> Output {
    Command::new(NODEWARD).arg("run").args(words).output().unwrap()
}

fn told(words: &[&str], code: i32) -> (String, String) {
    let output = run(words);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    (stdout, stderr)
}

/// Returns a node with CPUs and memory that we may use.
fn home() -> String {
    let (nodes, _) = told(&["sh", "-c", "cat /proc/self/numa_maps"], 0);
    let at = nodes.split_whitespace().find_map(|word| word.strip_prefix("prefer:"));
    at.map_or_else(|| "0".to_owned(), str::to_owned)
}

/// Goal: codes are those of env(1): the program's own, 127 if there is none, 126 if it cannot be
/// started, 125 for an invalid home.
#[test]
fn exit_codes() {
    assert_eq!(told(&["sh", "-c", "exit 7"], 7).1, "");
    assert_eq!(told(&["--", "sh", "-c", "exit 0", "--pin"], 0).1, "");
    assert!(told(&["/no/such/program"], 127).1.contains("/no/such/program"));
    assert!(told(&["no-such-program-of-this-name"], 127).1.contains("cannot start"));
    assert!(told(&["/etc/passwd"], 126).1.contains("/etc/passwd"));
    assert!(told(&["--home", "4095", "true"], 125).1.contains("no node 4095; nodes here are"));
    assert!(told(&["--home", "here", "true"], 2).1.contains("nor auto"));
    let missing = told(&["--home", "netdev:nowhere", "true"], 125).1;
    assert!(missing.contains("there is no device netdev:nowhere"), "{missing}");
    assert!(told(&["--home", "near:here", "true"], 2).1.contains("'here' is no device"));
    assert!(told(&[], 2).1.contains("COMMAND"));
    assert_eq!(told(&["sh", "-c", "exit $1", "-", "9"], 9).1, "", "its options are its own");
    assert_eq!(run(&["sh", "-c", "kill -9 $$"]).status.code(), None, "signals are its own");
}

/// Goal: settings that keep nodes empty hold for a home that nodeward chooses, and are checked
/// against the machine first, in one line; a home that is named is the person's own choice.
#[test]
fn nodes_that_are_kept_empty() {
    let run = |nodes: &str, words: &[&str]| {
        let mut command = Command::new(NODEWARD);
        command.arg("run").args(words).env("NODEWARD_BALANCE_KEEP_EMPTY", nodes);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for words in [&["true"][..], &["--home", "auto", "true"]] {
        let (code, told) = run("1000", words);
        assert_eq!((code, told.lines().count()), (Some(125), 1), "{told}");
        let refused = "nodeward: balance.keep-empty names node 1000; the nodes here are";
        assert!(told.starts_with(refused), "{told}");
    }
    assert_eq!(run("1000", &["--home", &home(), "true"]), (Some(0), String::new()));
    assert_eq!(run("none", &["true"]), (Some(0), String::new()));
}

/// Goal: an option that `run` does not have is not taken for the program's name; a program whose
/// name looks like one follows `--`.
#[test]
fn unknown_options() {
    let (_, told_why) = told(&["--node", "0", "true"], 2);
    assert!(told_why.contains("'--node'"), "{told_why}");
    assert!(told(&["-x", "true"], 2).1.contains("'-x'"));
    assert!(told(&["--", "--node"], 127).1.contains("cannot start --node"));
}

fn allowed(status: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

/// Goal: without --pin the program may run on the same CPUs as before; with it, on its home's CPUs.
#[test]
fn threads() {
    let before = allowed(&std::fs::read_to_string("/proc/self/status").unwrap());
    let home = home();
    let (free, _) = told(&["--home", &home, "cat", "/proc/self/status"], 0);
    assert_eq!(allowed(&free), before);
    let (pinned, _) = told(&["--home", &home, "--pin", "cat", "/proc/self/status"], 0);
    let path = format!("/sys/devices/system/node/node{home}/cpulist");
    let Ok(cpus) = std::fs::read_to_string(path) else {
        eprintln!("skipped: this kernel tells of no nodes");
        return;
    };
    type Cpus = nodeward_model::Cpumask;
    let expected = cpus.trim().parse::<Cpus>().unwrap().and(&before.parse::<Cpus>().unwrap());
    assert_eq!(allowed(&pinned).parse::<Cpus>().unwrap(), expected);
}

/// Goal: its memory prefers its home, and so does that of programs that it starts.
#[test]
fn memory() {
    if !std::path::Path::new("/proc/self/numa_maps").exists() {
        eprintln!("skipped: this kernel knows no nodes");
        return;
    }
    let home = home();
    for words in
        [&["cat", "/proc/self/numa_maps"][..], &["sh", "-c", "cat /proc/self/numa_maps; :"]]
    {
        let (maps, _) = told(&[&["--home", &home][..], words].concat(), 0);
        let prefers = |line: &&str| line.contains(&format!(" prefer:{home}"));
        assert!(maps.lines().all(|line| prefers(&line)), "{maps}");
    }
}

/// Goal: without a home, only the kernel's balancing is kept away: memory is where it would be, and
/// the program may run where it might, both as programs that it starts; a home that is named, or
/// --pin, is given all the same.
#[test]
fn without_the_kernels_balancing() {
    if !std::path::Path::new("/proc/self/numa_maps").exists() {
        eprintln!("skipped: this kernel knows no nodes");
        return;
    }
    let home = home();
    let policies = |words: &[&str]| {
        let all = [&["--no-kernel-balancing"][..], words].concat();
        let (maps, _) = told(&all, 0);
        let policy = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
        maps.lines().map(policy).collect::<std::collections::BTreeSet<_>>()
    };
    let only = |policy: &str| [policy.to_owned()].into();
    assert_eq!(policies(&["cat", "/proc/self/numa_maps"]), only("local"));
    assert_eq!(policies(&["sh", "-c", "cat /proc/self/numa_maps; :"]), only("local"));
    let prefers = format!("prefer:{home}");
    assert_eq!(policies(&["--home", &home, "cat", "/proc/self/numa_maps"]), only(&prefers));
    let before = allowed(&std::fs::read_to_string("/proc/self/status").unwrap());
    let (free, _) = told(&["--no-kernel-balancing", "cat", "/proc/self/status"], 0);
    assert_eq!(allowed(&free), before);
    assert_eq!(told(&["--no-kernel-balancing", "sh", "-c", "exit 7"], 7).1, "");
}

/// Goal: words after the program are its own, whatever they look like.
#[test]
fn arguments_are_the_programs() {
    assert_eq!(told(&["echo", "--home", "9", "-h"], 0).0, "--home 9 -h\n");
    assert_eq!(told(&["--", "echo", "--pin"], 0).0, "--pin\n");
}
