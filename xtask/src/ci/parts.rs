//! What each part runs.
//!
//! Tests that boot a lab are the lab's own integration tests, and elsewhere those whose file name
//! starts with `lab`. The part `lab` runs them, and the part `test` everything else.

use anyhow::Result;

use super::{Outcome, Part};
use crate::workspace::Workspace;
use crate::{aarch64, guest, process, spec, tidy};

const QEMU: &str = "qemu-system-x86_64";
/// The package whose integration tests all boot a lab.
const LAB: &str = "nodeward-lab";

/// Runs one part.
pub fn run(part: Part) -> Result<Outcome> {
    match part {
        Part::Fmt => cargo(&["fmt", "--all", "--check"]),
        Part::Clippy => cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny=warnings"]),
        Part::Tidy => tidy::run().map(|()| Outcome::Done),
        Part::Test => test(),
        Part::Docs => docs(),
        Part::Aarch64 => aarch64::part(),
        Part::Lab => lab(),
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

fn test() -> Result<Outcome> {
    let workspace = Workspace::load()?;
    let mut cargo = process::cargo();
    // One failure does not hide the others.
    cargo.args(["test", "--no-fail-fast", "--workspace", "--exclude", LAB]);
    cargo.args(["--lib", "--bins", "--examples"]);
    for (_, name) in workspace.targets("test").filter(|(pkg, name)| !is_lab_test(pkg, name)) {
        cargo.args(["--test", name]);
    }
    process::run(&mut cargo)?;
    self::cargo(&["test", "--package", LAB, "--lib", "--bins"])?;
    self::cargo(&["test", "--workspace", "--doc"])
}

fn lab() -> Result<Outcome> {
    if process::find(QEMU).is_none() {
        return Ok(Outcome::Skipped(format!("{QEMU} is not installed; run `cargo xtask setup`")));
    }
    guest::build()?;
    let workspace = Workspace::load()?;
    lab_tests(&workspace, &["--package", LAB, "--test", "*"])?;
    let mut elsewhere = workspace.targets("test").filter(|(package, _)| *package != LAB);
    if elsewhere.any(|(package, name)| is_lab_test(package, name)) {
        lab_tests(&workspace, &["--workspace", "--exclude", LAB, "--test", "lab*"])?;
    }
    Ok(Outcome::Done)
}

/// With QEMU here, a lab test that cannot run has failed.
fn lab_tests(workspace: &Workspace, which: &[&str]) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.args(["test", "--no-fail-fast"]).args(which);
    cargo.env("NODEWARD_LAB_REQUIRED", "1").env("NODEWARD_GUEST_DIR", guest::dir(workspace));
    process::run(&mut cargo)
}

fn is_lab_test(package: &str, name: &str) -> bool {
    package == LAB || name.starts_with("lab")
}
