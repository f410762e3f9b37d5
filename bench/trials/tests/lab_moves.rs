//! `nodeward move` on real kernels: each test is one guest that runs a group of cases.

use nodeward_lab::{Finished, GuestFile, Kernel, Run, Scenario, for_test, scenario};

mod programs;

/// Runs cases in one guest, prints what they say, and fails if one of them did.
fn cases(kernel: &Kernel, scenario: Scenario, names: &[&str]) {
    let Some(lab) = for_test(kernel) else { return };
    let Some(files) = programs::find() else { return };
    let mut command = vec!["nodeward-trials"];
    command.extend(names);
    let run = Run { kernel: kernel.clone(), files, ..Run::new(scenario, command) };
    let finished = lab.run(&run).expect("the lab runs");
    print!("{}", text(&finished.stdout));
    assert_eq!(finished.code, 0, "on {kernel}: {}", told(&finished));
    for name in names {
        let ended = ["ok", "skipped"].map(|how| format!("{how} {name}:"));
        let is_so = |line: &str| ended.iter().any(|start| line.starts_with(start));
        assert!(text(&finished.stdout).lines().any(is_so), "{name} did not end");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn told(finished: &Finished) -> String {
    format!("timed out: {}\n{}", finished.timed_out, text(&finished.stderr))
}

fn on_two_nodes(kernel: &Kernel, names: &[&str]) {
    cases(kernel, scenario("two-nodes"), names);
}

#[test]
fn it_works() {
    on_two_nodes(&Kernel::V6_12, &["conformance"]);
}
