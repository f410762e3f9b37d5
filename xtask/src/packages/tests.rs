//! The packages as those who install them find them. What takes minutes runs with
//! `NODEWARD_TESTS=long` only; what needs a whole Debian is in `xtask/tests`.

mod image;
mod kubernetes;
mod metadata;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::checkout::Checkout;
use super::programs::ReleasePrograms;
use crate::check_extent::CheckExtent;

/// Whether minutes may be spent; says what is skipped where not.
fn is_long(what: &str) -> bool {
    let long = CheckExtent::from_environment() == CheckExtent::All;
    if !long {
        eprintln!("skipped: {what} (NODEWARD_TESTS=long runs it)");
    }
    long
}

/// Whether a program is here. Where all is tested it must be.
fn is_here(program: &str, package: &str) -> bool {
    let found = crate::process::find(program).is_some();
    if !found {
        let must = CheckExtent::from_environment() == CheckExtent::All;
        assert!(!must, "{program} is not installed; install the package {package}");
        eprintln!("skipped: {program} is not installed (package {package})");
    }
    found
}

/// The programs of a release, built once for all tests.
fn released() -> &'static (Checkout, ReleasePrograms) {
    static BUILT: OnceLock<(Checkout, ReleasePrograms)> = OnceLock::new();
    BUILT.get_or_init(|| {
        let checkout = Checkout::here().unwrap();
        let programs = ReleasePrograms::build(&checkout).unwrap();
        (checkout, programs)
    })
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed, and returns its stdout.
fn text(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{command:?} ended with {output:#?}");
    String::from_utf8(output.stdout).unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
