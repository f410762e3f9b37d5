//! The service of the Debian package under systemd, on two nodes.

#[allow(dead_code, reason = "the tests of the package use the rest")]
#[path = "package/debian_root.rs"]
mod debian_root;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use debian_root::{DebianRoot, may_make_roots, newer, package, text};
use nodeward_lab::{GuestFile, GuestKernel, GuestRun, open_for_test, scenario};

const STEPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/service");

/// Goal: systemd starts the service when it is asked for, and not before. An upgrade while it runs
/// restarts it, and its groups and the ledger are there afterwards. Removed, it ends; purged,
/// nothing is left.
#[test]
fn installed_started_upgraded_and_purged() {
    if !may_make_roots() {
        return;
    }
    let Some(lab) = open_for_test(&GuestKernel::V6_12) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let debian = scratch.path().join("debian.tar");
    pack(&DebianRoot::make(&["systemd"]), &debian);
    let deb = package();
    let mut run = GuestRun::shell(scenario("two-nodes"), "sh /root/in-guest");
    run.files = vec![
        GuestFile::new(debian),
        GuestFile::new(newer(&deb, scratch.path())),
        GuestFile::new(deb),
    ];
    for name in ["in-guest", "check", "check.service"] {
        run.files.push(GuestFile::new(Path::new(STEPS).join(name)));
    }
    run.timeout = Duration::from_secs(3600);
    let finished = lab.run(&run).unwrap();
    let told = String::from_utf8_lossy(&[finished.stdout, finished.stderr].concat()).into_owned();
    assert_eq!(finished.code, 0, "{told}");
    assert!(told.contains("+ : all steps done"), "{told}");
}

/// Packs what a guest needs of a Debian.
fn pack(root: &DebianRoot, to: &Path) {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--one-file-system", "--exclude=./usr/share/doc/*"]);
    tar.args(["--exclude=./usr/share/locale/*", "--exclude=./var/cache/*"]);
    tar.args(["--exclude=./var/lib/apt/lists/*", "--exclude=./dev/*"]);
    text(tar.arg("--file").arg(to).arg("--directory").arg(root.path()).arg("."));
}
