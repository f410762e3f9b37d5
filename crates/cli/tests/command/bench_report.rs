//! `nodeward bench report`: one file with all results, or none.

use std::process::Command;

use serde_json::Value;

use crate::outcome::{NODEWARD, assert_failure, success};

/// Goal: the file has the machine, and of each benchmark that was asked for what its command prints
/// with `--json`, with its exit code, in whatever order they were named.
#[test]
fn results_and_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let words = ["bench", "report", "--smoke", "--only", "calls,limits"];
    let output = Command::new(NODEWARD).args(words).arg(&file).output().unwrap();
    assert_eq!(success("report", output), "");
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["schema"], "nodeward.bench-report/1");
    assert_eq!(report["is_brief"], true);
    let machine = &report["machine"];
    assert!(machine["kernel"].as_str().unwrap().contains('.'), "{machine}");
    assert!(machine["usable_cpus"].as_u64() > Some(0) && machine["topology"]["nodes"].is_array());
    assert_eq!(machine["doctor"]["schema"], "nodeward.doctor/1");
    let done = report["benchmarks"].as_object().unwrap();
    assert_eq!(done.keys().collect::<Vec<_>>(), ["calls", "limits"]);
    for (name, done) in done {
        match done["code"].as_u64() {
            Some(0) => assert_eq!(done["result"]["schema"], format!("nodeward.bench-{name}/1")),
            // Without UFFDIO_MOVE nothing can be measured.
            code => assert_eq!((code, &done["result"]), (Some(3), &Value::Null)),
        }
    }
}

/// Goal: what cannot be done is refused before anything is measured.
#[test]
fn what_cannot_be_is_refused() {
    for (words, told) in [
        (&["bench", "report"][..], "<FILE>"),
        (&["bench", "report", "/proc/none/report.json"], "cannot write /proc/none/report.json"),
        (&["bench", "report", "-", "--only", "agent"], "limits, calls, pager, pool"),
    ] {
        let refused = Command::new(NODEWARD).args(words).output().unwrap();
        assert_failure(words.join(" "), &refused, 2, &[told]);
        assert_eq!(refused.stdout, b"");
    }
}
