//! Memory that a move leaves where it is on request, on simulated machines; input that is refused.

use serde_json::Value;

use crate::outcome::{assert_failure, run_simulated as run, simulated_json};

fn json(words: &str, code: i32) -> Value {
    simulated_json(&format!("{words} --machine sim:ranks --quiet --json"), code)
}

/// Goal: a segment of 1 GiB (262,144 pages) stays, and 4 MiB (1024 pages) of each process move;
/// with a limit as large as the segment all moves.
#[test]
fn large_segments_stay() {
    let told = json("move 1001 1002 0 1 --skip-shared-above 1023MiB", 1);
    assert_eq!(told["account"]["moved"], 2 * 1024, "{told}");
    assert_eq!(told["account"]["skipped"]["shared-above"], 2 * 262_144, "{told}");
    assert_eq!(told["processes"][0]["after_pages"]["0"], 262_144, "{told}");
    let plan = json("move 1001 1002 0 1 --skip-shared-above 1023MiB --dry-run", 0);
    assert_eq!(plan["processes"][1]["stays"]["skipped"]["shared-above"], 262_144, "{plan}");
    let told = json("move 1001 0 1 --skip-shared-above 1GiB", 0);
    assert_eq!(told["account"]["moved"], 1024 + 262_144, "{told}");
    let told = json("evacuate 0 --skip-shared-above 1MiB", 1);
    assert_eq!(told["account"]["skipped"]["shared-above"], 16 * 262_144, "{told}");
}

/// Goal: `spread` evens out the 4 MiB of each process, and leaves the half of the segment where it
/// is that it would have moved.
#[test]
fn large_segments_are_not_spread() {
    let told = json("spread 1001 1002 0,1 --skip-shared-above 1023MiB", 1);
    assert_eq!(told["account"]["moved"], 2 * 512, "{told}");
    assert_eq!(told["account"]["skipped"]["shared-above"], 262_144 / 2, "{told}");
}

/// Goal: where nothing is pinned, nothing is left.
#[test]
fn nothing_is_pinned() {
    let told = json("move 1001 0 1 --skip-pinned", 0);
    assert_eq!(told["account"]["moved"], 1024 + 262_144, "{told}");
}

/// Goal: what does not go together is refused, each with the words to leave out.
#[test]
fn bad_input() {
    let pid = std::process::id();
    for (words, told) in [
        (format!("move {pid} 0 0 --skip-shared-above much"), &["'much'", "is not a size"][..]),
        ("move --file /etc/passwd 0 --skip-pinned".to_owned(), &["--file", "--skip-pinned"]),
        ("evacuate 0 --files --skip-shared-above 1GiB".to_owned(), &["--files", "--skip-shared"]),
        (format!("spread {pid} 0,1 --skip-shared-above -1"), &["--skip-shared-above"]),
        ("undo 1 --skip-shared-above 1GiB2".to_owned(), &["'1GiB2'", "is not a size"]),
    ] {
        assert_failure(&words, &run(&words), 2, told);
    }
}
