//! Help that can be read on a screen or two.

use std::process::Command;

use crate::outcome::NODEWARD;

/// The heading of the options for simulated machines.
const SIMULATED: &str = "On a simulated machine:";

fn help(words: &[&str]) -> String {
    let output = Command::new(NODEWARD).args(words).arg("--help").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Goal: help shows options for real machines first, in groups, those of the simulator last, and
/// further text after them.
#[test]
fn long_helps_stand_in_groups() {
    insta::assert_snapshot!("move", help(&["move"]));
    insta::assert_snapshot!("spread", help(&["spread"]));
    insta::assert_snapshot!("show", help(&["show"]));
    insta::assert_snapshot!("balance", help(&["balance"]));
    insta::assert_snapshot!("evacuate", help(&["evacuate"]));
}

/// Goal: no help is longer than 100 lines (that of `move` was 148), and no option for real machines
/// follows those of the simulator.
#[test]
fn helps_are_short_and_end_with_the_simulator() {
    for words in [
        &["move"][..],
        &["spread"],
        &["undo"],
        &["evacuate"],
        &["show"],
        &["report"],
        &["watch"],
        &["balance"],
        &["explain"],
        &["run"],
        &["ledger"],
        &["sim"],
        &["sim", "sweep"],
        &["sim", "compare"],
        &["sim", "swarm"],
        &["bench", "pager"],
        &["bench", "pool"],
        &["reproduce"],
    ] {
        let text = help(words);
        let lines = text.lines().count();
        assert!(lines <= 100, "{words:?}: {lines} lines");
        let groups = text.lines().filter(|line| line.ends_with(':') && !line.starts_with(' '));
        let groups: Vec<&str> = groups.filter(|line| !line.starts_with("Example")).collect();
        let at = groups.iter().position(|group| *group == SIMULATED);
        assert!(at.is_none_or(|at| at + 1 == groups.len()), "{words:?}: {groups:?}");
    }
}

/// Goal: the manual has the same groups, and all text of the help.
#[test]
fn the_manual_has_the_groups() {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(NODEWARD).arg("man").arg(folder.path()).status().unwrap();
    assert!(status.success());
    let page = std::fs::read_to_string(folder.path().join("nodeward-move.1")).unwrap();
    let at = |heading: &str| page.find(heading).unwrap_or_else(|| panic!("{heading}: {page}"));
    assert!(at("WHICH MEMORY") < at("SPEED AND LIMITS"));
    assert!(at("SPEED AND LIMITS") < at("ON A SIMULATED MACHINE"));
    assert!(page.contains("exchanges two nodes"), "{page}");
}
