//! The shell sessions of README.md and docs/tutorial/first-hour.md are typed in guests as printed
//! there.

use std::path::Path;
use std::time::Duration;

use nodeward_lab::{GuestKernel, GuestRun, is_every_kernel_wanted, open_for_test, scenario};

mod programs;

/// The prompt of the guest's shell.
const PROMPT: &str = "    /root # ";

/// The programs that `make shell` brings along.
const TO_TRY: [&str; 2] = ["nodeward", "nodeward-load"];

/// Returns the lines that are typed in the guest, in order.
fn typed(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix(PROMPT)).collect()
}

/// Returns a script of the lines, each of which must succeed.
fn script(lines: &[&str]) -> String {
    let checked = lines.iter().enumerate().map(|(at, line)| {
        let number = at + 1;
        format!("{line}\ncode=$?\n[ $code = 0 ] || {{ echo \"line {number}: $code\"; exit 1; }}\n")
    });
    checked.collect()
}

/// Checks that every line works as printed, from the first on, with only the programs of `make
/// shell`, and that these verbs are among them.
fn is_true(page: &str, verbs: &[&str]) {
    let kernel = GuestKernel::V6_12;
    let Some(lab) = open_for_test(&kernel) else { return };
    let Some(programs) = programs::find(&lab, &kernel) else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(path).expect(page);
    let lines = typed(&text);
    assert_eq!(lines.last(), Some(&"exit"), "of {lines:?}");
    for verb in verbs {
        let line = format!("nodeward {verb}");
        assert!(lines.contains(&line.as_str()), "no {line:?} in {lines:?}");
    }
    let mut run = GuestRun::shell(scenario("two-nodes"), &script(&lines));
    run.files = programs.files();
    run.files.retain(|file| TO_TRY.iter().any(|name| file.host.ends_with(name)));
    run.timeout = Duration::from_secs(300);
    let finished = lab.run(&run).expect("the lab runs");
    let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (told(&finished.stdout), told(&finished.stderr));
    println!("{stdout}\n{stderr}");
    assert_eq!((finished.code, finished.timed_out), (0, false), "{stdout}\n{stderr}");
}

/// Goal: README's first five minutes work as printed.
#[test]
fn the_first_five_minutes_are_true() {
    is_true("README.md", &["show", "move $! 0 1", "undo 1"]);
}

/// Goal: the tutorial works as printed; README's session, above, is much of it.
#[test]
fn the_first_hour_is_true() {
    if !is_every_kernel_wanted() {
        return;
    }
    let verbs = ["show", "show $!", "move $! 0 1", "undo 1", "ledger"];
    is_true("docs/tutorial/first-hour.md", &verbs);
}
