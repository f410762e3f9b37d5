//! The container image, read back as a container engine reads it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::super::checkout::Checkout;
use super::super::checksum::sha256;
use super::super::image;
use super::super::programs::ReleasePrograms;
use super::{is_here, is_long, read, released, text};
use crate::workspace;

/// A layout on disk.
struct Layout(PathBuf);

impl Layout {
    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&read(&self.0.join(name))).unwrap()
    }

    /// Returns the blob of a descriptor, whose sum and size must be right.
    fn blob(&self, descriptor: &Value) -> PathBuf {
        let sum = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = self.0.join("blobs/sha256").join(sum);
        assert_eq!(sha256(&path).unwrap(), sum);
        assert_eq!(fs::metadata(&path).unwrap().len(), descriptor["size"].as_u64().unwrap());
        path
    }

    fn json_blob(&self, descriptor: &Value, media_type: &str) -> Value {
        assert_eq!(descriptor["mediaType"], media_type);
        serde_json::from_str(&read(&self.blob(descriptor))).unwrap()
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Builds an image whose command is this file, in a directory that lasts as long as it is used.
fn image_of(command: &[u8]) -> (tempfile::TempDir, Checkout, Layout) {
    let dir = tempfile::tempdir().unwrap();
    for name in ["nodeward", "libnodeward.so", "libnodeward.a"] {
        fs::write(dir.path().join(name), command).unwrap();
    }
    set_mode(&dir.path().join("nodeward"), 0o755);
    let checkout = Checkout::at(workspace::root(), &dir.path().join("out")).unwrap();
    let programs = ReleasePrograms::of(dir.path()).unwrap();
    let layout = Layout(image::build(&checkout, &programs).unwrap());
    (dir, checkout, layout)
}

/// Goal: from the index on, every digest, size and media type is that of the file, the layer has
/// what it should have and nothing else, and the configuration starts the command that is there.
#[test]
fn every_blob_is_what_its_descriptor_says() {
    let (_dir, checkout, layout) = image_of(b"#!/bin/sh\necho moved\n");
    check(&layout, &checkout);
}

fn check(layout: &Layout, checkout: &Checkout) {
    assert_eq!(layout.json("oci-layout")["imageLayoutVersion"], "1.0.0");
    let index = layout.json("index.json");
    assert_eq!(index["schemaVersion"], 2);
    let [named] = &index["manifests"].as_array().unwrap()[..] else { panic!("one image") };
    assert_eq!(named["annotations"]["org.opencontainers.image.ref.name"], *checkout.version);
    let manifest = layout.json_blob(named, "application/vnd.oci.image.manifest.v1+json");
    let config = layout.json_blob(&manifest["config"], "application/vnd.oci.image.config.v1+json");
    let [layer] = &manifest["layers"].as_array().unwrap()[..] else { panic!("one layer") };
    assert_eq!(layer["mediaType"], "application/vnd.oci.image.layer.v1.tar+gzip");
    let tar = unpacked(&layout.blob(layer));
    let content = format!("sha256:{}", sha256(tar.path()).unwrap());
    assert_eq!(config["rootfs"]["diff_ids"], serde_json::json!([content]));
    let entrypoint = config["config"]["Entrypoint"][0].as_str().unwrap();
    let (files, modes): (Vec<_>, Vec<_>) = listed(tar.path()).into_iter().unzip();
    assert_eq!(
        files.iter().filter(|name| !name.ends_with('/')).collect::<Vec<_>>(),
        [
            "usr/bin/nodeward",
            "usr/share/doc/nodeward/LICENSE-APACHE",
            "usr/share/doc/nodeward/LICENSE-MIT"
        ]
    );
    let command = files.iter().position(|name| *name == entrypoint[1..]);
    assert_eq!(modes[command.expect("the entrypoint is there")], "-rwxr-xr-x 0/0");
    assert!(modes.iter().all(|mode| mode.ends_with("0/0")), "root owns everything: {modes:?}");
    // Each blob has a descriptor: manifest, configuration, layer.
    assert_eq!(fs::read_dir(layout.0.join("blobs/sha256")).unwrap().count(), 3);
}

fn unpacked(packed: &Path) -> tempfile::NamedTempFile {
    let tar = tempfile::NamedTempFile::new().unwrap();
    let mut gzip = Command::new("gzip");
    gzip.args(["--decompress", "--stdout"]).stdin(fs::File::open(packed).unwrap());
    assert!(gzip.stdout(tar.reopen().unwrap()).status().unwrap().success());
    tar
}

/// Names of an archive, each with its mode and owner.
fn listed(tar: &Path) -> Vec<(String, String)> {
    let mut list = Command::new("tar");
    let lines = text(list.args(["--list", "--verbose", "--numeric-owner", "--file"]).arg(tar));
    let line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        (words[words.len() - 1].to_owned(), format!("{} {}", words[0], words[1]))
    };
    lines.lines().map(line).collect()
}

/// Goal: the umask, the time and the directory of the build do not change the image.
#[test]
fn the_image_depends_on_content_alone() {
    let index = |layout: &Layout| read(&layout.0.join("index.json"));
    let (first_dir, checkout, first) = image_of(b"same");
    let first_index = index(&first);
    set_mode(&first_dir.path().join("nodeward"), 0o700);
    let programs = ReleasePrograms::of(first_dir.path()).unwrap();
    let again = image::build(&checkout, &programs).unwrap();
    assert_eq!(index(&Layout(again)), first_index);
    let (_other_dir, _, other) = image_of(b"different");
    assert_ne!(index(&other), first_index);
}

/// Goal: the image that is released passes the same checks, another program agrees, and the command
/// starts where nothing else is.
#[test]
fn the_released_image_starts_alone() {
    if !is_long("the image of a release build") {
        return;
    }
    let (checkout, programs) = released();
    let dir = tempfile::tempdir().unwrap();
    let checkout = Checkout::at(&checkout.root, dir.path()).unwrap();
    let layout = Layout(image::build(&checkout, programs).unwrap());
    check(&layout, &checkout);
    let root = dir.path().join("image-tree");
    let mut chroot = Command::new("chroot");
    if is_root() {
        let told = text(chroot.arg(&root).args(["/usr/bin/nodeward", "--version"]));
        assert_eq!(told, format!("nodeward {}\n", checkout.version));
    } else {
        eprintln!("skipped: only root may chroot");
    }
    if is_here("skopeo", "skopeo") {
        let mut skopeo = Command::new("skopeo");
        let told = text(skopeo.arg("inspect").arg(format!("oci:{}", layout.0.display())));
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["Architecture"], "amd64");
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Goal: a directory without the programs is named, with the one that is missing, before anything
/// is written.
#[test]
fn programs_that_are_not_there_are_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("nodeward"), "").unwrap();
    let error = ReleasePrograms::of(dir.path()).unwrap_err().to_string();
    assert!(error.contains("has no libnodeward.so; build it there"), "{error}");
}
