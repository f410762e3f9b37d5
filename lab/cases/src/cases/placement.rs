//! The placement of a program that is kept over its restart.

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::load::LoadProcess;
use crate::nodeward::{MoveJson, nodeward};

pub const CASES: [(&str, CaseFn); 1] = [("placement_over_a_restart", placement_over_a_restart)];

const LOAD: &str = "--node 0 --size 8MiB";
const FILE: &str = "/tmp/load.placement";
/// Base pages of half of the load's memory: 4 MiB.
const HALF: u64 = 1024;

/// Runs a command, shows it, and returns what it printed.
fn shown(words: &str) -> String {
    let output = nodeward(words);
    println!("$ nodeward {words}\n{}", output.stdout);
    assert_eq!(output.code, 0, "{output:?}");
    output.stdout
}

/// Goal: memory of which every other block of 64 KiB was on node 1 is so again, page by page, after
/// a restart of its program that put all of it on node 0 at other addresses; a second restore has
/// nothing to move.
fn placement_over_a_restart() -> CaseOutcome {
    let first = LoadProcess::start(LOAD);
    shown(&format!("spread --quiet {} 0,1 --block 64KiB", first.pid()));
    let (places, nodes, range) = (first.page_locations(), first.memory_by_node(), first.range());
    assert!(nodes.values().all(|pages| pages.abs_diff(HALF) * 50 <= HALF), "{nodes:?}");
    shown(&format!("placement save {} {FILE}", first.pid()));
    first.end();
    let second = LoadProcess::start(LOAD);
    assert_ne!(second.range(), range, "no other addresses: the case shows nothing");
    let words = format!("placement restore {} {FILE}", second.pid());
    shown(&format!("{words} --dry-run"));
    let restored = nodeward(&format!("{words} --quiet --threads"));
    // 1: a thread that sleeps stays where it is, and is told.
    assert!([0, 1].contains(&restored.code), "{restored:?}");
    assert_eq!(second.page_locations(), places);
    assert_eq!(second.memory_by_node(), nodes);
    let again: MoveJson = nodeward(&format!("{words} --json --quiet")).report_after_exit(0);
    assert_eq!(again.account.selected(), 0, "{again:?}");
    second.end();
    Ok(())
}
