//! `--deadline` on simulated machines, where it is virtual time, and on this one.

use serde_json::Value;

use crate::outcome::{assert_failure, run_simulated as run, simulated_json, success};

fn json(words: &str, code: i32) -> Value {
    simulated_json(&format!("{words} --quiet --json"), code)
}

/// Goal: what is left is told with its reason, the same on every host. 65,536 pages take 63 ms of
/// virtual time; of a deadline of 50 ms one half is for the account and the last look.
#[test]
fn a_move() {
    let words = "move --machine sim:two-socket 1000 1 0 --jobs 2";
    let told = json(&format!("{words} --deadline 50ms"), 1);
    let account = |name: &str| told["account"][name].as_u64().unwrap();
    let left = told["account"]["skipped"]["interrupted"].as_u64().unwrap();
    assert!(account("moved") > 0 && left > 0, "{told}");
    assert_eq!(account("moved") + left, 65_536, "{told}");
    assert_eq!((&told["interrupted"], &told["deadline_over"]), (&true.into(), &true.into()));
    assert!(told["moving_ns"].as_u64().unwrap() < 50_000_000, "{told}");
    assert_eq!(told, json(&format!("{words} --deadline 50ms"), 1));
    let text = String::from_utf8(run(&format!("{words} --deadline 50ms")).stdout).unwrap();
    assert!(text.ends_with("\nthe deadline is over: the same command moves the rest\n"), "{text}");
    let told = json(&format!("{words} --deadline 1h"), 0);
    assert_eq!((&told["interrupted"], &told["deadline_over"]), (&false.into(), &false.into()));
}

/// Goal: an evacuation and a spread end by it, too.
#[test]
fn other_verbs() {
    let told = json("evacuate 1 --machine sim:two-socket --jobs 2 --deadline 200ms", 1);
    assert_eq!((&told["interrupted"], &told["deadline_over"]), (&true.into(), &true.into()));
    let left = told["account"]["skipped"]["interrupted"].as_u64().unwrap();
    assert!(told["account"]["moved"].as_u64().unwrap() > 0 && left > 0, "{told}");
    let words = "spread --machine sim:two-socket 1000 0,1 --jobs 1";
    let told = json(&format!("{words} --rate 1GiB/s --deadline 100ms"), 1);
    assert_eq!(told["deadline_over"], true, "{told}");
    assert!(!success(words, run(words)).contains("the deadline is over"));
}

/// Goal: a time in which nothing can be looked at moves nothing, and says so; it is no success.
#[test]
fn too_short() {
    let pid = std::process::id();
    let output = run(&format!("move {pid} 0 0 --no-ledger --quiet --deadline 1us"));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("not looked at: ") && text.contains("the deadline is over"), "{text}");
    let words = format!("spread {pid} 0 --deadline 1us");
    assert_failure(&words, &run(&words), 2, &["NODES is node 0 alone"]);
}

/// Goal: what is no time, or the past, is refused before anything is done, by each verb.
#[test]
fn bad_input() {
    for verb in ["move 1 0 1", "spread 1 0,1", "evacuate 1", "undo 1"] {
        for time in ["0s", "-1s", "5", "tomorrow", ""] {
            let words = format!("{verb} --deadline={time}");
            let told = [&format!("'{time}'"), "--deadline", "not a time such as"];
            assert_failure(&words, &run(&words), 2, &told);
        }
        let words = format!("{verb} --dry-run --deadline 1s");
        assert_failure(&words, &run(&words), 2, &["--deadline", "--dry-run"]);
    }
}
