//! `nodeward move` and `show` of real programs of the host, which the guest runs: one built with
//! AddressSanitizer, and Java with ZGC. Before Linux 6.7 populated memory is found in another way.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nodeward_lab::{GuestFile, GuestKernel, is_every_kernel_wanted, scenario};
use tempfile::TempDir;

use guests::CaseGuest;

mod guests;
mod programs;

const TIMEOUT: Duration = Duration::from_secs(900);
const KERNELS: [GuestKernel; 2] = [GuestKernel::V6_1, GuestKernel::Newest];

/// Runs a case on an old and on the newest kernel, with what this returns, or says why it cannot.
fn run(case: &str, files: impl FnOnce(&Path) -> Result<Vec<GuestFile>, String>) {
    if !is_every_kernel_wanted() {
        println!("skipped: NODEWARD_TESTS=long runs real programs");
        return;
    }
    let folder = TempDir::new().expect("a folder");
    match files(folder.path()) {
        Err(why) => println!("skipped: {why}"),
        Ok(files) => {
            for kernel in &KERNELS {
                let guest = CaseGuest::new(kernel, scenario("two-nodes"));
                CaseGuest { files: files.clone(), timeout: TIMEOUT, ..guest }.run(&[case]);
            }
        }
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_programs").join(name)
}

/// Runs a compiler; if it fails, that is why there is nothing to run.
fn compile(command: &mut Command, advice: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{advice}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{advice}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn guest_file(host: PathBuf, guest: &str) -> GuestFile {
    GuestFile { host, guest: Some(guest.to_owned()) }
}

/// Returns a program that was built with AddressSanitizer; its libraries come with it.
fn sanitized(folder: &Path) -> Result<Vec<GuestFile>, String> {
    let program = folder.join("blocks");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-fsanitize=address"]).arg(source("blocks.c")).arg("-o").arg(&program);
    compile(&mut cc, "no AddressSanitizer; apt install gcc")?;
    Ok(vec![guest_file(program, "/srv/blocks")])
}

/// Returns the Java of the host, as a whole, and a program.
fn collected(folder: &Path) -> Result<Vec<GuestFile>, String> {
    let advice = "no Java; apt install openjdk-17-jdk-headless";
    let classes = folder.join("classes");
    let mut javac = Command::new("javac");
    javac.args(["--release", "17", "-d"]).arg(&classes).arg(source("Blocks.java"));
    compile(&mut javac, advice)?;
    let found = std::env::var_os("PATH").unwrap_or_default();
    let java = std::env::split_paths(&found).map(|place| place.join("java"));
    let java = java.filter_map(|java| java.canonicalize().ok()).find(|java| java.is_file());
    let home = java.and_then(|java| Some(java.parent()?.parent()?.to_owned())).ok_or(advice)?;
    Ok(vec![guest_file(home, "/srv/java"), guest_file(classes, "/srv/classes")])
}

#[test]
fn a_program_under_address_sanitizer() {
    run("sanitizer", sanitized);
}

#[test]
fn java_with_zgc() {
    run("zgc", collected);
}
