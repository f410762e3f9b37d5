//! What `[package.metadata.deb]` and the scripts of the Debian package name is there.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{is_long, read, released, text};
use crate::process;
use crate::workspace;

/// The directory to which paths of the metadata are relative.
fn package_dir() -> PathBuf {
    workspace::root().join("crates/cli")
}

fn metadata() -> Value {
    let mut cargo = process::cargo();
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let all: Value = serde_json::from_str(&text(&mut cargo)).unwrap();
    let packages = all["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "nodeward-cli").unwrap();
    package["metadata"]["deb"].clone()
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

/// Goal: each file that is packaged from the sources exists; the others are installed by `make
/// install` to the tree that `make deb` fills.
#[test]
fn packaged_files_exist() {
    let metadata = metadata();
    let mut from_sources = 0;
    for asset in metadata["assets"].as_array().unwrap() {
        let source = words(asset)[0];
        if source.starts_with("target/release/tree/") {
            continue;
        }
        assert!(package_dir().join(source).is_file(), "{source} is not there");
        from_sources += 1;
    }
    assert!(from_sources > 0);
    for key in ["maintainer-scripts", "triggers-file"] {
        let path = package_dir().join(metadata[key].as_str().unwrap());
        assert!(path.exists(), "{key}: {} is not there", path.display());
    }
}

/// Goal: settings files are conffiles, so that dpkg asks before it replaces what root changed, and
/// all of them are packaged.
#[test]
fn settings_are_conffiles() {
    let metadata = metadata();
    let packaged: Vec<String> = metadata["assets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|asset| format!("/{}", words(asset)[1]))
        .collect();
    let settings: Vec<&str> =
        packaged.iter().filter(|to| to.starts_with("/etc/")).map(String::as_str).collect();
    assert_eq!(words(&metadata["conf-files"]), settings);
    assert_eq!(settings.len(), 2);
}

/// Goal: the scripts are what a POSIX shell understands, stop at the first error, and leave the
/// place where those for systemd are inserted.
#[test]
fn scripts_are_well_formed() {
    let scripts = package_dir().join(metadata()["maintainer-scripts"].as_str().unwrap());
    for name in ["preinst", "postinst", "prerm", "postrm"] {
        let path = scripts.join(name);
        text(Command::new("sh").arg("-n").arg(&path));
        let script = read(&path);
        assert!(script.starts_with("#!/bin/sh\n") && script.contains("\nset -e\n"), "{name}");
        assert!(script.contains("\n#DEBHELPER#\n"), "{name}");
    }
}

/// Goal: every sysctl is a hint only: nothing changes before root takes a line's `#` away, and the
/// kernel knows it.
#[test]
fn sysctls_are_commented_out() {
    let hints = read(&workspace::root().join("packaging/60-nodeward-sysctl.conf"));
    assert!(hints.lines().all(|line| line.is_empty() || line.starts_with('#')));
    let settings: Vec<&str> = hints
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .filter_map(|(name, _)| name.strip_prefix('#').filter(|name| !name.starts_with(' ')))
        .collect();
    assert_eq!(settings.len(), 3, "{settings:?}");
    for name in settings {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        // A kernel without NUMA has no kernel.numa_balancing.
        if !path.exists() {
            eprintln!("skipped: this kernel has no {name}");
        }
    }
}

/// Goal: the package depends on the C library that its shared library was linked with, or a newer
/// one. cargo-deb does not find that out.
#[test]
fn the_library_gets_its_c_library() {
    if !is_long("the library of a release build") {
        return;
    }
    let (_, programs) = released();
    let library = std::fs::read(programs.dir().join("libnodeward.so")).unwrap();
    let text = String::from_utf8_lossy(&library);
    let release = |text: &str| {
        let digits = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse::<u32>().unwrap_or_default()
    };
    let needed = text.split("GLIBC_2.").skip(1).map(release).max().unwrap();
    let metadata = metadata();
    let depends = words(&metadata["depends"])[0];
    let declared = release(depends.strip_prefix("libc6 (>= 2.").unwrap());
    assert!(needed <= declared, "2.{needed} is needed, and {depends} declared");
}
