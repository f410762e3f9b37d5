//! Tests of the program itself, as scripts use it.

use std::process::{Command, Output};

use serde_json::Value;

fn torture(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodeward-torture"));
    command.args(line.split_whitespace()).output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Goal: on this machine, with any method, nothing is wrong; every means that was not skipped has
/// made a step, and the command that repeats the run is printed.
#[test]
fn nothing_is_wrong() {
    let output = torture("--for 3s --patience 60s");
    let said = told(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = report(&output);
    let steps = report["steps"].as_object().unwrap();
    assert!(steps.len() > 8, "{report}");
    assert!(steps.values().all(|steps| steps.as_u64() > Some(0)), "{report}");
    assert_eq!((&report["lost"], &report["fault"]), (&Value::from(0), &Value::Null));
    let seed = report["seed"].as_u64().unwrap();
    assert!(said.contains(&format!("nodeward-torture --seed {seed} --for 3s")), "{said}");
}

/// Goal: a thread without progress ends the run with code 9, by name, with the state of all
/// threads.
#[test]
fn who_stands_still_is_told() {
    let output = torture("--means plain,stands --for 1h --patience 1s");
    let said = told(&output);
    assert_eq!(output.status.code(), Some(9), "{said}");
    let fault = report(&output)["fault"].as_str().unwrap().to_owned();
    assert_eq!(fault, "stands-1 stands still, after: begins, stand");
    for name in ["stands-1: S (sleeping), wchan", "plain-1: "] {
        assert!(said.contains(name), "{name}: {said}");
    }
}

/// Goal: memory that does not hold what was written ends the run with code 7, and is described.
#[test]
fn what_is_lost_is_told() {
    let output = torture("--means plain,spoils --for 1h");
    assert_eq!(output.status.code(), Some(7), "{}", told(&output));
    let report = report(&output);
    assert_eq!(report["lost"], 1);
    let fault = report["fault"].as_str().unwrap();
    assert!(fault.starts_with("spoils-1: ") && fault.contains("word 7 held"), "{fault}");
}

/// Goal: an unknown means is wrong usage, and the known ones are listed.
#[test]
fn an_unknown_means_is_refused() {
    for option in ["--means", "--without"] {
        let output = torture(&format!("{option} magic"));
        assert_eq!(output.status.code(), Some(2));
        assert!(told(&output).contains("futex"), "{}", told(&output));
    }
}
