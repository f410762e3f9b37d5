//! The commands of each part.
//!
//! Tests that boot a lab are the lab's own integration tests, and elsewhere those whose file name
//! starts with `lab`. The part `lab` runs them, and the part `test` everything else.

use std::process::Command;
use std::thread;

use anyhow::Result;

use super::part::CiPart;
use super::runner::Runner;
use super::summary::PartOutcome;
use crate::profile::Profile;
use crate::workspace::Workspace;
use crate::{aarch64, guest, process, spec, tidy};

const QEMU: &str = "qemu-system-x86_64";
/// The package whose integration tests all boot a lab.
const LAB: &str = "nodeward-lab";

/// Runs one part; its commands are started by `runner`.
pub fn run(part: CiPart, runner: &mut Runner) -> Result<PartOutcome> {
    match part {
        CiPart::Fmt => {
            let mut cargo = process::cargo();
            runner.run(cargo.args(["fmt", "--all", "--check"])).map(|()| PartOutcome::Done)
        }
        CiPart::Clippy => clippy(runner),
        CiPart::Build => build(runner),
        CiPart::Tidy => tidy::run().map(|()| PartOutcome::Done),
        CiPart::Test => test(runner),
        CiPart::Docs => docs(runner),
        CiPart::Aarch64 => aarch64::part(|cargo| runner.run(cargo)),
        CiPart::Lab => lab(runner),
        CiPart::SpecSmoke => spec::smoke(),
    }
}

fn clippy(runner: &mut Runner) -> Result<PartOutcome> {
    let mut cargo = process::cargo();
    cargo.args(["clippy", "--workspace", "--all-targets"]).args(Profile::Dev.features());
    runner.run(cargo.args(["--", "--deny=warnings"])).map(|()| PartOutcome::Done)
}

/// Builds the documentation, and runs the examples in it. These wait for lints, as documentation
/// does, and not with the tests, which would then wait for lints.
fn docs(runner: &mut Runner) -> Result<PartOutcome> {
    let mut pages = process::cargo();
    pages.args(["doc", "--workspace", "--no-deps"]).args(Profile::Dev.features());
    pages.env("RUSTDOCFLAGS", "--deny=warnings");
    let mut examples = cargo_test(&["--workspace", "--doc"]);
    let results = [&mut pages, &mut examples].map(|cargo| runner.run(cargo));
    results.into_iter().collect::<Result<()>>().map(|()| PartOutcome::Done)
}

/// Builds everything that the following parts run. Guest programs use another target directory, so
/// both builds run in parallel.
fn build(runner: &mut Runner) -> Result<PartOutcome> {
    let guests = thread::spawn(|| guest::build(Profile::Dev));
    let tests = runner.run(&mut Profile::Dev.build_command());
    guests.join().expect("building does not panic")?;
    tests.map(|()| PartOutcome::Done)
}

fn test(runner: &mut Runner) -> Result<PartOutcome> {
    let workspace = Workspace::load()?;
    runner.run(&mut Profile::Dev.build_command())?;
    let mut programs = tests(&workspace);
    programs.env("NODEWARD_LIBRARY_DIR", workspace.target_directory.join(Profile::Dev.folder()));
    runner.run(&mut programs).map(|()| PartOutcome::Done)
}

/// Returns one command for all packages: for fewer, cargo would choose other features and rebuild
/// much.
fn tests(workspace: &Workspace) -> Command {
    let mut cargo = cargo_test(&["--workspace", "--lib", "--bins", "--examples"]);
    for (_, name) in workspace.targets("test").filter(|(pkg, name)| !is_lab_test(pkg, name)) {
        cargo.args(["--test", name]);
    }
    cargo
}

/// Runs the lab's tests. With QEMU installed, a lab test that cannot run has failed.
fn lab(runner: &mut Runner) -> Result<PartOutcome> {
    if process::find(QEMU).is_none() {
        return Ok(PartOutcome::Skipped(format!(
            "{QEMU} is not installed; run `cargo xtask setup`"
        )));
    }
    guest::build(Profile::Dev)?;
    // The counter is built with the tests of this machine.
    runner.run(&mut Profile::Dev.build_command())?;
    let workspace = Workspace::load()?;
    let mut cargo = cargo_test(&["--workspace"]);
    for (_, name) in workspace.targets("test").filter(|(pkg, name)| is_lab_test(pkg, name)) {
        cargo.args(["--test", name]);
    }
    guest::set_environment(&mut cargo, &workspace, Profile::Dev);
    let built = workspace.target_directory.join(Profile::Dev.folder());
    cargo.env("NODEWARD_LAB_COUNTER", built.join("libnodeward_lab_counter.so"));
    cargo.env("NODEWARD_LIBRARY_DIR", built);
    cargo.env("NODEWARD_LAB_REQUIRED", "1");
    runner.run(&mut cargo).map(|()| PartOutcome::Done)
}

/// Returns a test command that continues after a failure, so that one does not hide the others.
fn cargo_test(which: &[&str]) -> Command {
    let mut cargo = process::cargo();
    cargo.args(["test", "--no-fail-fast"]).args(Profile::Dev.features()).args(which);
    cargo
}

fn is_lab_test(package: &str, name: &str) -> bool {
    package == LAB || name.starts_with("lab")
}
