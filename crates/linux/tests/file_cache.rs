//! Files as they are found below paths, and their pages mapped in this process.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nodeward_linux::file_cache::{Batches, Looked, Trouble, check_kernel};
use tempfile::TempDir;

/// A directory that is gone through here, if this kernel can.
fn folder() -> Option<TempDir> {
    match check_kernel() {
        Ok(()) => Some(tempfile::tempdir().unwrap()),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn write(path: &Path, pages: usize) {
    fs::write(path, vec![7; pages * rustix::param::page_size()]).unwrap();
}

/// Goes through paths; what was found, and the base pages that were mapped in each batch.
fn look(paths: &[&Path]) -> (Looked, Vec<u64>) {
    let mut batches = Batches::of(paths.iter().map(PathBuf::from).collect());
    let mut pages = Vec::new();
    while let Some(batch) = batches.next_batch(|| false) {
        pages.push(batch.mapped_bytes() / rustix::param::page_size() as u64);
    }
    (batches.into_looked(), pages)
}

/// Goal: pages are mapped as long as the batch lives, at the addresses it tells, and no longer.
#[test]
fn nothing_stays_mapped() {
    let Some(folder) = folder() else { return };
    let path = folder.path().join("file");
    write(&path, 100);
    let maps = || fs::read_to_string("/proc/self/maps").unwrap();
    let mut batches = Batches::of(vec![path.clone()]);
    let batch = batches.next_batch(|| false).unwrap();
    let range = batch.ranges()[0];
    assert_eq!(range.bytes(), batch.mapped_bytes());
    let start = format!("{:x}-", range.start);
    let mapped = maps().lines().any(|line| line.starts_with(&start) && line.contains("/file"));
    assert!(mapped, "{start} {}", maps());
    drop(batch);
    assert!(batches.next_batch(|| false).is_none());
    assert!(!maps().contains(path.to_str().unwrap()));
}

/// Goal: each regular file is looked at once, whatever its names; links are not followed, except
/// where they are named; nothing else is opened.
#[test]
fn every_file_once() {
    let Some(folder) = folder() else { return };
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("tree/deep")).unwrap();
    write(&at("outside"), 1);
    write(&at("tree/a"), 2);
    write(&at("tree/deep/b"), 3);
    File::create(at("tree/empty")).unwrap();
    fs::hard_link(at("tree/a"), at("tree/deep/a-again")).unwrap();
    symlink("../outside", at("tree/link")).unwrap();
    symlink("..", at("tree/deep/up")).unwrap();
    symlink("tree", at("named")).unwrap();
    let _socket = UnixListener::bind(at("tree/socket")).unwrap();
    let (looked, pages) = look(&[&at("named"), &at("tree/deep"), &at("tree/a")]);
    assert_eq!((looked.files, looked.files_cached), (3, 2));
    assert_eq!((looked.others, looked.problems), (3, 0));
    assert_eq!(looked.cached_bytes, 5 * rustix::param::page_size() as u64);
    assert_eq!(pages, [5], "all in one batch");
}

/// Goal: a batch is bounded, however many files there are, and none is left out.
#[test]
fn many_files_make_several_batches() {
    let Some(folder) = folder() else { return };
    for number in 0..1100 {
        fs::write(folder.path().join(number.to_string()), [7]).unwrap();
    }
    let (looked, pages) = look(&[folder.path()]);
    assert_eq!((looked.files, looked.files_cached), (1100, 1100));
    assert_eq!(pages, [1024, 76]);
    let counted = Batches::of(vec![folder.path().into()]).cached_bytes(|| false);
    assert_eq!(counted, looked.cached_bytes, "the same without mapping");
    let mut stopped = Batches::of(vec![folder.path().into()]);
    assert!(stopped.next_batch(|| true).is_none());
    assert_eq!(stopped.into_looked().files, 0, "who is to stop looks at nothing more");
}

/// Goal: what is gone is told by its name, the first twenty of many.
#[test]
fn what_cannot_be_opened_is_told() {
    let Some(folder) = folder() else { return };
    let missing: Vec<PathBuf> = (0..30).map(|n| folder.path().join(n.to_string())).collect();
    let (looked, pages) = look(&missing.iter().map(PathBuf::as_path).collect::<Vec<_>>());
    assert_eq!((looked.problems, looked.not_permitted, pages.len()), (30, 0, 0));
    assert_eq!(looked.first_problems.len(), 20);
    let first = &looked.first_problems[0];
    assert_eq!((&first.path, first.trouble), (&missing[0], Trouble::Vanished));
}
