//! The Debian package from its installation to its purge, in a Debian of its own without systemd.

mod debian_root;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::slice;

use debian_root::{DebianRoot, download, may_make_roots, newer, package, text};

/// Goal: installed, the command works and answers to its other name; an upgrade keeps settings and
/// state; removal keeps both; a purge leaves nothing. numactl's program is never lost, whether it
/// is installed before, after or not at all.
#[test]
fn installed_upgraded_and_purged() {
    if !may_make_roots() {
        return;
    }
    let root = DebianRoot::make(&[]);
    let scratch = tempfile::tempdir().unwrap();
    let (before, groups) = (root.files(), group_names(&root));
    let deb = package();
    root.install(slice::from_ref(&deb));
    used(&root);
    beside_numactl(&root, scratch.path());
    upgraded(&root, &newer(&deb, scratch.path()));
    root.text("dpkg --remove nodeward");
    for kept in ["etc/nodeward.toml", "var/lib/nodeward/kept"] {
        assert!(root.path().join(kept).exists(), "{kept} went with the removal");
    }
    assert!(!root.path().join("usr/bin/nodeward").exists());
    root.text("dpkg --purge nodeward");
    let residue: BTreeSet<String> = root.files().difference(&before).cloned().collect();
    println!("package.residue {{\"measured\": {}, \"unit\": \"files\"}}", residue.len());
    assert!(residue.is_empty(), "{residue:#?}");
    assert_eq!(group_names(&root), groups);
}

fn sum(path: &Path) -> String {
    text(Command::new("sha256sum").stdin(fs::File::open(path).unwrap()))
}

fn group_names(root: &DebianRoot) -> String {
    root.text("cut -d: -f1 /etc/group")
}

/// The programs run there, and the library is found.
fn used(root: &DebianRoot) {
    assert!(root.text("nodeward show $$").contains("addresses sampled"));
    // 3: this machine has one node, so pages cannot be moved; it says so.
    assert!(matches!(root.run("nodeward doctor").status.code(), Some(0 | 3)));
    assert!(root.text("/sbin/ldconfig -p").contains("libnodeward.so.0"));
    assert!(root.text("getent group nodeward").starts_with("nodeward:"));
    assert!(root.text("nodeward config print").contains("/etc/nodeward.toml"));
    for name in ["migratepages", "nodeward-migratepages"] {
        let usage = root.run(name);
        assert!(String::from_utf8_lossy(&usage.stderr).contains("usage: "), "{usage:?}");
    }
}

/// numactl comes, is chosen by default, can be replaced by choice, goes, and comes back.
fn beside_numactl(root: &DebianRoot, scratch: &Path) {
    let debs = download(&["numactl", "libnuma1"], scratch);
    let chosen = || root.text("update-alternatives --query migratepages | sed -n 's/^Value: //p'");
    assert_eq!(chosen(), "/usr/bin/nodeward-migratepages\n");
    root.install(&debs);
    assert_eq!(chosen(), "/usr/bin/migratepages.numactl\n");
    let theirs = sum(&root.path().join("usr/bin/migratepages.numactl"));
    root.text("update-alternatives --set migratepages /usr/bin/nodeward-migratepages");
    assert_eq!(root.text("readlink -f /usr/bin/migratepages"), "/usr/bin/nodeward\n");
    root.text("dpkg --remove nodeward");
    assert_eq!(sum(&root.path().join("usr/bin/migratepages")), theirs, "theirs is back");
    root.text("dpkg --install /tmp/nodeward_*_amd64.deb");
    assert_eq!(chosen(), "/usr/bin/migratepages.numactl\n");
    root.text("dpkg --purge numactl libnuma1");
    assert_eq!(chosen(), "/usr/bin/nodeward-migratepages\n");
}

/// What root changed, and what nodeward remembers, is there after an upgrade.
fn upgraded(root: &DebianRoot, newer: &Path) {
    let settings = root.path().join("etc/nodeward.toml");
    let changed = fs::read_to_string(&settings).unwrap().replace("jobs = \"auto\"", "jobs = 2");
    fs::write(&settings, &changed).unwrap();
    root.text("mkdir -p /var/lib/nodeward && echo kept >/var/lib/nodeward/kept");
    root.install(&[newer.to_owned()]);
    assert!(root.text("dpkg --status nodeward").contains("+newer\n"));
    assert_eq!(fs::read_to_string(&settings).unwrap(), changed);
    assert_eq!(root.text("cat /var/lib/nodeward/kept"), "kept\n");
    assert!(root.text("nodeward config print").contains("jobs"));
}
