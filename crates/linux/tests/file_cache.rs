//! Tests that files below paths are found and their pages mapped in this process.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nodeward_linux::file_cache::{CacheScan, MappedBatches, ProblemKind, check_kernel};
use tempfile::TempDir;

/// Returns a directory to walk, if this kernel can map cached pages.
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

/// Walks paths; returns the counts, and the base pages that were mapped in each batch.
fn scan(paths: &[&Path]) -> (CacheScan, Vec<u64>) {
    let mut batches = MappedBatches::new(paths.iter().map(PathBuf::from).collect());
    let mut pages = Vec::new();
    while let Some(batch) = batches.next_batch(|| false) {
        pages.push(batch.mapped_bytes() / rustix::param::page_size() as u64);
    }
    (batches.into_scan(), pages)
}

/// Goal: pages are mapped as long as the batch lives, at its addresses, and no longer.
#[test]
fn nothing_stays_mapped() {
    let Some(folder) = folder() else { return };
    let path = folder.path().join("file");
    write(&path, 100);
    let maps = || fs::read_to_string("/proc/self/maps").unwrap();
    let mut batches = MappedBatches::new(vec![path.clone()]);
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

/// Goal: each regular file is read once, whatever its names; links are not followed, except where
/// they are named; nothing else is opened.
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
    let (looked, pages) = scan(&[&at("named"), &at("tree/deep"), &at("tree/a")]);
    assert_eq!((looked.files, looked.files_cached), (3, 2));
    assert_eq!((looked.others, looked.problems), (3, 0));
    assert_eq!(looked.cached_bytes, 5 * rustix::param::page_size() as u64);
    assert_eq!(pages, [5], "all in one batch");
}

/// Goal: a batch is bounded, however many files there are, and no file is left out.
#[test]
fn many_files_make_several_batches() {
    let Some(folder) = folder() else { return };
    for number in 0..1100 {
        fs::write(folder.path().join(number.to_string()), [7]).unwrap();
    }
    let (looked, pages) = scan(&[folder.path()]);
    assert_eq!((looked.files, looked.files_cached), (1100, 1100));
    assert_eq!(pages, [1024, 76]);
    let counted = MappedBatches::new(vec![folder.path().into()]).cached_bytes(|| false);
    assert_eq!(counted, looked.cached_bytes, "the same without mapping");
    let mut stopped = MappedBatches::new(vec![folder.path().into()]);
    assert!(stopped.next_batch(|| true).is_none());
    assert_eq!(stopped.into_scan().files, 0, "who is to stop looks at nothing more");
}

/// Goal: a file that cannot be opened is reported by its name, the first twenty of many.
#[test]
fn what_cannot_be_opened_is_told() {
    let Some(folder) = folder() else { return };
    let missing: Vec<PathBuf> = (0..30).map(|n| folder.path().join(n.to_string())).collect();
    let (looked, pages) = scan(&missing.iter().map(PathBuf::as_path).collect::<Vec<_>>());
    assert_eq!((looked.problems, looked.not_permitted, pages.len()), (30, 0, 0));
    assert_eq!(looked.first_problems.len(), 20);
    let first = &looked.first_problems[0];
    assert_eq!((&first.path, first.kind), (&missing[0], ProblemKind::Vanished));
}

/// Returns a sparse file of 4 TiB with `bytes` bytes written at each of these places; `None` where
/// the file system does not support the size.
fn sparse(path: &Path, bytes: usize, places: &[u64]) -> Option<File> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
    let file = file.unwrap();
    if let Err(error) = file.set_len(4 << 40) {
        println!("skipped: no file of 4 TiB here: {error}");
        return None;
    }
    let page = vec![7; bytes];
    places.iter().for_each(|&at| file.write_all_at(&page, at).unwrap());
    Some(file)
}

/// Bytes that are queried page by page for each place with cached pages, which halving finds.
const SMALL_BYTES: u64 = 2 << 20;

/// Goal: the cost of a sparse file of 4 TiB depends on its pages, not on its size: three pages in
/// three places are found, and 2 MiB are queried page by page for each. 4 TiB is 2 MiB 2^21 times,
/// so each is found by halving 21 times; all three share the first halving, two the second. 60
/// parts are halved, both halves are queried, and before that the whole: 121 queries.
#[test]
fn holes_take_nothing() {
    let Some(folder) = folder() else { return };
    let page = rustix::param::page_size() as u64;
    let path = folder.path().join("sparse");
    let places = [5 * page, (1 << 40) + 7 * page, (4 << 40) - page];
    if sparse(&path, page as usize, &places).is_none() {
        return;
    }
    let (looked, pages) = scan(&[&path]);
    assert_eq!((looked.files, looked.files_cached, looked.problems), (1, 1, 0));
    assert_eq!((pages, looked.cached_bytes), (vec![3], 3 * page));
    assert!(looked.scanned_bytes <= 3 * SMALL_BYTES, "{looked:?}");
    assert!(looked.queries <= 121, "{looked:?}");
    let counted = MappedBatches::new(vec![path]).cached_bytes(|| false);
    assert_eq!(counted, 3 * page, "the same without mapping");
}

/// Goal: pages of zeros that a read of a hole has cached count as cached too; where the kernel does
/// not count them, the hole is reported.
#[test]
fn what_was_read_of_a_hole_is_seen() {
    let Some(folder) = folder() else { return };
    let page = rustix::param::page_size();
    let path = folder.path().join("sparse");
    let Some(file) = sparse(&path, page, &[0]) else { return };
    let mut zeros = vec![1; page];
    file.read_exact_at(&mut zeros, 3 << 40).unwrap();
    assert!(zeros.iter().all(|&byte| byte == 0));
    let (looked, _) = scan(&[&path]);
    let kept = mincore_finds_holes(&path);
    let seen = looked.cached_bytes > page as u64;
    assert!(seen == kept || looked.holes_bytes > 3 << 40, "{looked:?}, in memory: {kept}");
    assert!(looked.scanned_bytes <= 2 * SMALL_BYTES, "{looked:?}");
}

/// Returns true if a read of a hole caches pages on this file system; tests it with a file so small
/// that it is queried whole.
fn mincore_finds_holes(beside: &Path) -> bool {
    let page = rustix::param::page_size();
    let path = beside.with_extension("small");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    file.set_len(SMALL_BYTES).unwrap();
    file.read_exact_at(&mut vec![1; page], 0).unwrap();
    scan(&[&path]).0.cached_bytes > 0
}
