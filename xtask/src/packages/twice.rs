//! The same release, made twice, in two directories: what differs depends on the machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::checkout::Checkout;
use super::programs::{ProgramsArgs, ReleasePrograms};
use super::release::{self, SUMS};
use crate::process;

/// Names of different lengths, because a path can change the layout of a file.
const NAMES: [&str; 2] = ["first", "second-of-the-two"];

/// Makes both and prints how many files differ.
pub fn run(here: &Checkout, programs: &ProgramsArgs) -> Result<()> {
    let mut lists = Vec::new();
    for name in NAMES {
        lists.push(sums(&copy(here, &here.empty_dir(name)?)?, programs)?);
    }
    let name = |line: &str| line.rsplit(' ').next().unwrap_or_default().to_owned();
    let differing: BTreeSet<String> =
        lists[0].symmetric_difference(&lists[1]).map(|line| name(line)).collect();
    for name in &differing {
        eprintln!("differs, or is in one only: {name}, in {}", here.out.display());
    }
    let files = lists[0].len();
    println!("{{\"measured\": {}, \"unit\": \"files\", \"files\": {files}}}", differing.len());
    Ok(())
}

/// Returns a copy of the last commit, as others would have it.
fn copy(here: &Checkout, dir: &Path) -> Result<Checkout> {
    let root = dir.join("nodeward");
    let mut git = here.command("git");
    git.args(["clone", "--quiet", "--no-hardlinks"]).arg(&here.root).arg(&root);
    process::run(&mut git)?;
    Checkout::at(&root, &dir.join("out"))
}

/// Makes a release of a copy, and returns the lines of its sums.
fn sums(copy: &Checkout, programs: &ProgramsArgs) -> Result<BTreeSet<String>> {
    let dir = match programs.given()? {
        None => release::build(copy, &ReleasePrograms::build(copy)?)?,
        Some(programs) => release::of_programs(copy, &programs)?,
    };
    Ok(fs::read_to_string(dir.join(SUMS))?.lines().map(str::to_owned).collect())
}
