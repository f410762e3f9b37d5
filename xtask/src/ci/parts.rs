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

/// One build of all packages: of fewer cargo would choose other features and build much anew.
fn test(tests: &mut Tests) -> Result<Outcome> {
    let workspace = Workspace::load()?;
    let mut programs = cargo_test(&["--workspace", "--lib", "--bins", "--examples"]);
    for (_, name) in workspace.targets("test").filter(|(pkg, name)| !is_lab_test(pkg, name)) {
        programs.args(["--test", name]);
    }
    let mut documentation = cargo_test(&["--workspace", "--doc"]);
    let results = [&mut programs, &mut documentation].map(|cargo| tests.run(cargo));
    results.into_iter().collect::<Result<()>>().map(|()| Outcome::Done)
}

/// With QEMU here, a lab test that cannot run has failed.
fn lab(tests: &mut Tests) -> Result<Outcome> {
    if process::find(QEMU).is_none() {
        return Ok(Outcome::Skipped(format!("{QEMU} is not installed; run `cargo xtask setup`")));
    }
    guest::build()?;
    let workspace = Workspace::load()?;
    let mut cargo = cargo_test(&["--workspace"]);
    for (_, name) in workspace.targets("test").filter(|(pkg, name)| is_lab_test(pkg, name)) {
        cargo.args(["--test", name]);
    }
    cargo.env("NODEWARD_LAB_REQUIRED", "1").env("NODEWARD_GUEST_DIR", guest::dir(&workspace));
    tests.run(&mut cargo).map(|()| Outcome::Done)
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
