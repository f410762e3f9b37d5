//! `evacuate` on simulated machines.

use crate::outcome::{assert_failure, run_simulated as run, success};

/// Pages of 4 KiB in 256 MiB, the memory of one process of the scenario.
const PROCESS_PAGES: u64 = 65_536;

fn json(words: &str) -> serde_json::Value {
    serde_json::from_str(&success(words, run(words))).unwrap()
}

/// Goal: all eight processes leave the node, and the same command gives the same report on every
/// host.
#[test]
fn a_node_is_emptied() {
    let words = "evacuate 1 --machine sim:two-socket --quiet --jobs 2";
    let told = success(words, run(words));
    let (account, time) = told.split_once("moved 2.00 GiB in ").expect("it moved");
    insta::assert_snapshot!(account);
    assert!(time.contains(", 2 workers)"), "{time}");
    let told = json(&format!("{words} --json"));
    assert_eq!(told["account"]["moved"], 8 * PROCESS_PAGES, "{told}");
    assert_eq!(told["processes"]["resident"], 8, "{told}");
    let after = |process: &serde_json::Value| process["after_pages"]["1"].as_u64();
    let processes = told["move"]["processes"].as_array().unwrap();
    assert!(processes.iter().all(|process| after(process).is_none()), "{told}");
}

/// Goal: a dry run tells what would move and moves nothing.
#[test]
fn a_plan() {
    let words = "evacuate 1 --machine sim:two-socket --dry-run";
    insta::assert_snapshot!(success(words, run(words)));
}

/// Goal: what the nearest node has no room for goes to the next. Node 0 has 1 GiB less what the
/// system took; 2 GiB of node 1 (each of eight processes has 256 MiB) fill it, and the rest goes to
/// node 2. With node 0 alone as TO the rest stays, and the exit code tells so.
#[test]
fn a_full_node_is_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("three.toml");
    let node =
        |id: u32, memory: &str| format!("[[node]]\nid = {id}\ncpus = 4\nmemory = \"{memory}\"\n\n");
    let scenario = format!(
        "about = \"three nodes\"\ndistances = [[10, 12, 20], [12, 10, 20], [20, 20, 10]]\n\
         time = \"3s\"\n\n{}{}{}[[workload]]\nname = \"stream\"\nkind = \"triad\"\nprocesses = 8\n\
         memory = \"256MiB\"\nplace = \"bind:1\"\n",
        node(0, "1GiB"),
        node(1, "4GiB"),
        node(2, "4GiB"),
    );
    std::fs::write(&path, scenario).unwrap();
    let machine = format!("--machine sim:{} --quiet --json", path.display());
    let told = json(&format!("evacuate 1 {machine}"));
    assert_eq!(told["account"]["moved"], 8 * PROCESS_PAGES, "{told}");
    let to = |pass: usize| told["passes"][pass][0]["to"].as_u64();
    assert_eq!((to(0), to(1)), (Some(0), Some(2)));
    let output = run(&format!("evacuate 1 0 {machine}"));
    assert_eq!(output.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let moved = told["account"]["moved"].as_u64().unwrap();
    let stayed = told["account"]["skipped"]["no-memory"].as_u64().unwrap();
    assert!(moved > 0 && stayed > 0 && moved + stayed == 8 * PROCESS_PAGES, "{told}");
}

/// Goal: an empty node is a success with nothing moved.
#[test]
fn an_empty_node() {
    let told = json("evacuate 0 --machine sim:two-socket --quiet --json");
    assert_eq!((&told["account"]["moved"], &told["processes"]["resident"]), (&0.into(), &0.into()));
}

/// Goal: nodes that do not exist or do not fit together, and what needs a kernel, are refused.
#[test]
fn bad_input() {
    let sim = "--machine sim:two-socket";
    for (words, told) in [
        (format!("evacuate 7 {sim}"), &["NODES is '7'", "nodes here are 0-1"][..]),
        (format!("evacuate 1 7 {sim}"), &["TO is '7'"]),
        (format!("evacuate 0-1 {sim}"), &["nothing can go elsewhere"]),
        (format!("evacuate 1 0-1 {sim}"), &["node 1 cannot be emptied and take memory"]),
        (format!("evacuate 1 --files {sim}"), &["--files", "--machine"]),
        (format!("evacuate 1 --file /tmp {sim}"), &["--file", "--machine"]),
        ("evacuate 0 --file /nowhere".to_owned(), &["/nowhere", "does not exist"]),
        ("evacuate".to_owned(), &["NODES"]),
    ] {
        assert_failure(&words, &run(&words), 2, told);
    }
}
