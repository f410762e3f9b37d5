//! What each part runs.
//!
//! Tests that boot a lab are integration tests whose file name starts with `lab`; the part `test`
//! runs everything else.

use anyhow::Result;

use super::{Outcome, Part};
use crate::workspace::Workspace;
use crate::{aarch64, guest, process, spec, tidy};

const QEMU: &str = "qemu-system-x86_64";

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
    cargo.args(["test", "--workspace", "--lib", "--bins", "--examples"]);
    for (_, name) in workspace.targets("test").filter(|(_, name)| !is_lab_test(name)) {
        cargo.args(["--test", name]);
    }
    process::run(&mut cargo)?;
    self::cargo(&["test", "--workspace", "--doc"])
}

fn lab() -> Result<Outcome> {
    let workspace = Workspace::load()?;
    let names: Vec<_> =
        workspace.targets("test").map(|(_, name)| name).filter(|name| is_lab_test(name)).collect();
    if names.is_empty() {
        return Ok(Outcome::Skipped("no test file is named lab*".to_owned()));
    }
    if process::find(QEMU).is_none() {
        return Ok(Outcome::Skipped(format!("{QEMU} is not installed; run `cargo xtask setup`")));
    }
    guest::build()?;
    let mut cargo = process::cargo();
    cargo.args(["test", "--workspace", "--release"]);
    cargo.args(names.iter().flat_map(|name| ["--test", name]));
    cargo.env("NODEWARD_LAB_REQUIRED", "1").env("NODEWARD_GUEST_DIR", guest::dir(&workspace));
    process::run(&mut cargo).map(|()| Outcome::Done)
}

fn is_lab_test(name: &str) -> bool {
    name.starts_with("lab")
}
