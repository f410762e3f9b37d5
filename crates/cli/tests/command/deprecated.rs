//! Old names of options and settings: they work, and are reported once.

use std::process::{Command, Output};

use crate::outcome::{NODEWARD, assert_failure, success};

const ONCE: &str = "balance --once --machine sim:home-2012 --at 2s --seed 3";

fn run(words: &str, settings: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.toml");
    std::fs::write(&path, settings).unwrap();
    let mut command = Command::new(NODEWARD);
    command.args(words.split_whitespace()).env("NODEWARD_CONFIG", &path);
    command.env("NODEWARD_STATE_DIR", folder.path()).output().unwrap()
}

fn warnings(output: &Output) -> Vec<String> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let found = stderr.lines().filter(|line| line.contains("deprecated"));
    found.map(str::to_owned).collect()
}

/// Goal: an old option, and an old key in a file, do what the new ones do; each is reported once.
#[test]
fn old_names_work_and_are_reported_once() {
    let new = run(&format!("{ONCE} --cpu-budget 5ms"), "");
    assert_eq!(warnings(&new), [""; 0]);
    let expected = success("--cpu-budget", new);
    let option = run(&format!("{ONCE} --looking 5ms"), "");
    assert_eq!(warnings(&option), ["warning: --looking is deprecated; use --cpu-budget"]);
    assert_eq!(success("--looking", option), expected);
    let key = run(ONCE, "[balance]\nlooking = '5ms'\n");
    let warning = "warning: balance.looking is deprecated; use balance.cpu-budget";
    assert_eq!(warnings(&key), [warning]);
    assert_eq!(success("looking", key), expected);
}

/// Goal: one name is typed, and not the old one beside it.
#[test]
fn one_of_both_names_is_given() {
    let both = run(&format!("{ONCE} --looking 5ms --cpu-budget 5ms"), "");
    assert_failure("both", &both, 2, &["cannot be used multiple times"]);
    let both = run(ONCE, "[balance]\nlooking = '5ms'\ncpu-budget = '5ms'\n");
    assert_failure("both", &both, 2, &["my.toml", "duplicate field"]);
}

/// Goal: the old name of a source of hot pages leads to the same source.
#[test]
fn an_old_source_is_reported_once() {
    let us = std::process::id();
    let old = run(&format!("move {us} --hot written:soon"), "");
    assert_eq!(warnings(&old), ["warning: --hot written is deprecated; use --hot soft-dirty"]);
    let new = run(&format!("move {us} --hot soft-dirty:soon"), "");
    assert_eq!(warnings(&new), [""; 0]);
    let error = assert_failure("soft-dirty", &new, 2, &["time"]);
    assert_failure("written", &old, 2, &[&error]);
}
