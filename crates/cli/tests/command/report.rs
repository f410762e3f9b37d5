//! `report`: a watch from its command line to its page.

use std::path::Path;
use std::process::{Child, Command, Output};

use crate::outcome::{NODEWARD, assert_failure, run_simulated, simulated_json, success};

/// A pid that Linux does not assign: its pids are smaller.
const NO_SUCH_PID: &str = "4194304";

fn report(words: &[&str], file: &Path) -> Output {
    let mut command = Command::new(NODEWARD);
    command.arg("report").args(words).arg("-o").arg(file);
    // No agent of this machine is asked, and no ledger of it is read.
    command.env("NODEWARD_STATE_DIR", "/nonexistent");
    command.env("NODEWARD_BALANCE_SOCKET", "/nonexistent/agent.sock");
    command.env("NODEWARD_CONFIG", "/dev/null").output().unwrap()
}

/// A process that ends after a time.
fn sleeper(seconds: &str) -> Child {
    Command::new("sleep").arg(seconds).spawn().unwrap()
}

/// Goal: a watch on a simulated machine of five seconds has eleven moments, where memory is and
/// what it would gain; the same seed gives the same page, and nothing beside it is written.
#[test]
fn a_simulated_machine() {
    let machine = "--machine sim:home-2012 --seed 3 --for 5s -o -";
    let all = simulated_json(&format!("report --system --json {machine}"), 0);
    assert_eq!((&all["schema"], &all["ended"]), (&"nodeward.report/1".into(), &"time".into()));
    assert_eq!(all["moments"].as_array().map(Vec::len), Some(11));
    assert_eq!(all["processes"].as_array().map(Vec::len), Some(48));
    let one = simulated_json(&format!("report 1003 --json {machine}"), 0);
    let looks = one["processes"][0]["looks"].as_array().unwrap();
    assert_eq!(looks.len(), 11);
    assert!(looks[10]["bytes"]["0"].as_u64() > Some(0), "{one}");
    assert_eq!(one["estimate"]["processes"][0]["pid"], 1003);
    let words = format!("report 1003 {machine}");
    let page = success(&words, run_simulated(&words));
    assert_eq!(success(&words, run_simulated(&words)), page);
    assert!(page.starts_with("<!DOCTYPE html>\n") && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("simulated machine (home-2012)"), "{page}");
}

/// Goal: a file is there whole after the watch, with its line on standard output.
#[test]
fn this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let told = success("report", report(&["--system", "--for", "200ms"], &file));
    assert!(told.starts_with("all processes, "), "{told}");
    assert!(told.contains("report.html ("), "{told}");
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.contains("no agent answers at /nonexistent/agent.sock"), "{page}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing else is left");
}

/// Goal: a process that ends meanwhile ends the watch, and the page has what was seen until then.
#[test]
fn a_process_that_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let mut child = sleeper("1");
    let pid = child.id().to_string();
    let output = report(&[&pid, "--for", "600s"], &file);
    child.wait().unwrap();
    let told = success("report", output);
    assert!(told.contains(", until it ended: "), "{told}");
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.contains("The process ended, or called exec, after "), "{page}");
}

/// Goal: what cannot be watched or written is one error with its code, before anything is watched,
/// and leaves no file.
#[test]
fn what_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let us = std::process::id().to_string();
    for (words, code, told) in [
        (&[NO_SUCH_PID, "--for", "1s"][..], 5, "process 4194304 is gone"),
        (&["0", "--for", "1s"], 2, "is not a process id"),
        (&[&us, "--for", "0"], 2, "'0' is not a time"),
        (&[&us, "--for", "0s"], 2, "'0s' is zero, not a time"),
        (&[&us, "--for", "soon"], 2, "'soon' is not a time"),
        (&[&us, "--for", "-1s"], 2, "--for"),
        (&[&us], 2, "--for <TIME>"),
        (&["--for", "1s"], 2, "<PID>"),
        (&[&us, "--system", "--for", "1s"], 2, "--system"),
        (&["--system", "--for", "1s", "--seed", "1"], 2, "--machine"),
    ] {
        let output = report(words, &file);
        assert_failure(words, &output, code, &[told]);
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    for nowhere in [folder.path().join("no/report.html"), folder.path().to_owned()] {
        let output = report(&[&us, "--for", "9999s"], &nowhere);
        let told = assert_failure("report", &output, 2, &["cannot write ", "irectory"]);
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}
