//! What each part runs.
//!
//! Tests that boot a lab are the lab's own integration tests, and elsewhere those whose file name
//! starts with `lab`. The part `lab` runs them, and the part `test` everything else.

use std::process::Command;

use anyhow::Result;

use super::{Outcome, Part, Tests};
use crate::workspace::Workspace;
use crate::{aarch64, guest, process, spec, tidy};

const QEMU: &str = "qemu-system-x86_64";
/// The package whose integration tests all boot a lab.
const LAB: &str = "nodeward-lab";

/// Runs one part; its tests are started by `tests`.
pub fn run(part: Part, tests: &mut Tests) -> Result<Outcome> {
    match part {
        Part::Fmt => cargo(&["fmt", "--all", "--check"]),
        Part::Clippy => cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny=warnings"]),
        Part::Tidy => tidy::run().map(|()| Outcome::Done),
        Part::Test => test(tests),
        Part::Docs => docs(),
        Part::Aarch64 => aarch64::part(),
        Part::Lab => lab(tests),
        Part::SpecSmoke => spec::smoke(),
    }
}

fn cargo(words: &[&str]) -> Result<Outcome> {
    process::run(process::cargo().args(words)).map(|()| Outcome::Done)
}

fn docs() -> Result<Outcome> {
    let mut cargo = process::cargo();
    cargo.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny=warnings");
    process::run(&mut cargo).map(|()| Outcome::Done)
}

fn test(tests: &mut Tests) -> Result<Outcome> {
    let workspace = Workspace::load()?;
    let mut programs = cargo_test(&["--workspace", "--exclude", LAB]);
    programs.args(["--lib", "--bins", "--examples"]);
    for (_, name) in workspace.targets("test").filter(|(pkg, name)| !is_lab_test(pkg, name)) {
        programs.args(["--test", name]);
    }
    let mut lab = cargo_test(&["--package", LAB, "--lib", "--bins"]);
    let mut documentation = cargo_test(&["--workspace", "--doc"]);
    let results = [&mut programs, &mut lab, &mut documentation].map(|cargo| tests.run(cargo));
    results.into_iter().collect::<Result<()>>().map(|()| Outcome::Done)
}

fn lab(tests: &mut Tests) -> Result<Outcome> {
    if process::find(QEMU).is_none() {
        return Ok(Outcome::Skipped(format!("{QEMU} is not installed; run `cargo xtask setup`")));
    }
    guest::build()?;
    let workspace = Workspace::load()?;
    let own = lab_tests(tests, &workspace, &["--package", LAB, "--test", "*"]);
    let mut elsewhere = workspace.targets("test").filter(|(package, _)| *package != LAB);
    if elsewhere.any(|(package, name)| is_lab_test(package, name)) {
        lab_tests(tests, &workspace, &["--workspace", "--exclude", LAB, "--test", "lab*"])?;
    }
    own.map(|()| Outcome::Done)
}

/// With QEMU here, a lab test that cannot run has failed.
fn lab_tests(tests: &mut Tests, workspace: &Workspace, which: &[&str]) -> Result<()> {
    let mut cargo = cargo_test(which);
    cargo.env("NODEWARD_LAB_REQUIRED", "1").env("NODEWARD_GUEST_DIR", guest::dir(workspace));
    tests.run(&mut cargo)
}

/// One failure does not hide the others.
fn cargo_test(which: &[&str]) -> Command {
    let mut cargo = process::cargo();
    cargo.args(["test", "--no-fail-fast"]).args(which);
    cargo
}

fn is_lab_test(package: &str, name: &str) -> bool {
    package == LAB || name.starts_with("lab")
}
