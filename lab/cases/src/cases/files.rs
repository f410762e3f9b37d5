//! `nodeward move --file`: the page cache of files on a file system with a disk.

use std::cell::Cell;
use std::fs::{self, File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use nodeward_linux::own_process::{AreaBacking, MappedArea};
use nodeward_linux::test_wait::rounds;
use nodeward_model::{Account, SkipReason};
use rustix::process::Signal;

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::disk::{Disk, PAGE, digest, map_populated, pages_by_node};
use crate::guest::{UNPRIVILEGED_USER, kib, run, vmstat, write};
use crate::nodeward::{
    CommandOutput, FilesReport, RunningMove, nodeward, nodeward_as, skip_counts,
};

pub const CASES: [(&str, CaseFn); 11] = [
    ("file_clean", file_clean),
    ("file_dirty", file_dirty),
    ("file_mapped", file_mapped),
    ("file_mapped_without_privilege", file_mapped_without_privilege),
    ("file_of_somebody_else", file_of_somebody_else),
    ("file_not_in_memory", file_not_in_memory),
    ("file_tree", file_tree),
    ("file_tree_changes", file_tree_changes),
    ("file_shrinks", file_shrinks),
    ("file_collapsed", file_collapsed),
    ("file_interrupted", file_interrupted),
];

/// Pages in a MiB.
pub const MIB: u64 = (1 << 20) / PAGE;

pub fn move_file(path: &str, words: &str) -> CommandOutput {
    nodeward(&format!("move --json --quiet --file {path} {words}"))
}

/// Moves a file there, back by another spelling, and there again, and checks each time the places
/// of the pages and the content of the file.
pub fn there_and_back(path: &str, content: u64) {
    let pages = fs::metadata(path).expect("the file is there").len() / PAGE;
    for (words, from, to) in [("1", 0, 1), ("1 0", 1, 0), ("0,1 1", 0, 1)] {
        let report: FilesReport = move_file(path, words).json_after_exit(0);
        assert_eq!(report.looked.cached_bytes, pages * PAGE, "{report:?}");
        assert_eq!((report.looked.files, report.looked.files_cached), (1, 1), "{report:?}");
        assert_eq!(report.account.moved, pages, "{report:?}");
        assert_eq!(report.account.selected(), pages, "{report:?}");
        assert_eq!(report.before_pages, [(from, pages)].into());
        assert_eq!(report.after_pages, Some([(to, pages)].into()));
        assert_eq!(pages_by_node(path), [(to, pages)].into(), "by another mapping");
    }
    assert_eq!(digest(path), content, "what is in memory");
}

/// Drops clean cached pages of files on disks.
pub fn drop_caches() {
    write("/proc/sys/vm/drop_caches", "1");
}

/// Goal: a file in memory moves whole, with its content unchanged; a dry run moves nothing.
fn file_clean() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (path, content) = disk.write_clean("clean", 8);
    let migrated = vmstat("pgmigrate_success");
    let plan: serde_json::Value = move_file(&path, "1 --dry-run").json_after_exit(0);
    let expected = serde_json::json!([{ "from": 0, "to": 1, "pages": 8 * MIB }]);
    assert_eq!(plan["moves"], expected, "{plan}");
    assert_eq!(vmstat("pgmigrate_success"), migrated);
    there_and_back(&path, content);
    let report: FilesReport = move_file(&path, "1").json_after_exit(0);
    assert_eq!(report.account.already_there, 8 * MIB, "{report:?}");
    Ok(())
}

/// Goal: khugepaged may make huge pages of a file for a process that has it mapped, and removes the
/// page tables of all others meanwhile: each page is reported once, and the content is unchanged.
/// (Of the kernels here only the newest does so for writable files.)
fn file_collapsed() -> CaseOutcome {
    const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage";
    let disk = Disk::ext4()?;
    write(&format!("{HUGE_PAGES}/khugepaged/scan_sleep_millisecs"), "0");
    let collapsed = vmstat("thp_collapse_alloc");
    for turn in 0..2 {
        let (path, content) = disk.write_clean(&format!("collapsed-{turn}"), 8);
        let file = File::open(&path).expect("the file can be opened");
        write(&format!("{HUGE_PAGES}/enabled"), "always");
        let area = MappedArea::map(8 << 20, AreaBacking::PrivateFile(file.as_fd())).expect("mmap");
        let plan: serde_json::Value = move_file(&path, "1 --dry-run").json_after_exit(0);
        let stays: Account = serde_json::from_value(plan["stays"].clone()).expect("an account");
        let moves = plan["moves"].as_array().expect("a list").iter();
        let planned: u64 = moves.filter_map(|each| each["pages"].as_u64()).sum();
        assert_eq!(planned + stays.selected(), 8 * MIB, "{plan}");
        let report: FilesReport = move_file(&path, "1").json();
        assert_eq!(report.account.selected(), 8 * MIB, "{report:?}");
        drop(area);
        assert_eq!(digest(&path), content);
    }
    println!("huge pages made meanwhile: {}", vmstat("thp_collapse_alloc") - collapsed);
    write(&format!("{HUGE_PAGES}/enabled"), "never");
    Ok(())
}

/// Goal: dirty pages move like others, stay dirty, and are written.
fn file_dirty() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (path, content) = disk.write("dirty", 8);
    let dirty = || kib("/proc/meminfo", "Dirty");
    println!("dirty before the move: {} kB", dirty());
    // The counter lags by some pages on each CPU.
    assert!(dirty() > 7 << 10, "what was written waits");
    there_and_back(&path, content);
    println!("dirty after the move: {} kB", dirty());
    assert!(dirty() > 7 << 10, "nothing was written out for the move");
    run("sync", &[]);
    drop_caches();
    assert_eq!(digest(&path), content, "what is on the disk");
    Ok(())
}

/// Goal: with the privilege, pages that another process has mapped move under it.
fn file_mapped() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (path, content) = disk.write_clean("mapped", 8);
    let area = map_populated(&path);
    there_and_back(&path, content);
    let words = area.words().iter().flat_map(|word| word.load(Relaxed).to_ne_bytes());
    assert!(words.eq(fs::read(&path).expect("the file can be read")), "what the other sees");
    Ok(())
}

/// Goal: without the privilege they stay, and are reported; once they are unmapped they move.
fn file_mapped_without_privilege() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (path, content) = disk.write_clean("mapped", 8);
    chown(&path, Some(UNPRIVILEGED_USER), Some(UNPRIVILEGED_USER)).expect("chown");
    let words = format!("move --json --quiet --file {path} 1");
    let area = map_populated(&path);
    let report: FilesReport = nodeward_as(UNPRIVILEGED_USER, &words).json_after_exit(3);
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::Shared, 8 * MIB)]));
    assert_eq!(pages_by_node(&path), [(0, 8 * MIB)].into());
    drop(area);
    let report: FilesReport = nodeward_as(UNPRIVILEGED_USER, &words).json_after_exit(0);
    assert_eq!(report.account.moved, 8 * MIB);
    assert_eq!(pages_by_node(&path), [(1, 8 * MIB)].into());
    assert_eq!(digest(&path), content);
    Ok(())
}

/// Goal: if the kernel does not tell a user what is in memory, nodeward does not read the whole
/// file to find out; a user who may write the file is told. A file that may not be read is reported
/// as such.
fn file_of_somebody_else() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (path, _) = disk.write_clean("of-root", 8);
    let words = format!("move --json --quiet --file {path} 1");
    let mode = |mode| fs::set_permissions(&path, Permissions::from_mode(mode)).expect("chmod");
    for (bits, trouble) in [(0o644, "untold"), (0o600, "unreadable")] {
        mode(bits);
        drop_caches();
        let read = vmstat("pgpgin");
        let report: FilesReport = nodeward_as(UNPRIVILEGED_USER, &words).json_after_exit(4);
        assert_eq!(report.looked.problems, 1, "{report:?}");
        let problem = &report.looked.first_problems[0];
        assert_eq!((&problem.path, problem.trouble.as_str()), (&path, trouble));
        assert!(vmstat("pgpgin") - read < FEW_BLOCKS_KIB, "the file was not read");
    }
    mode(0o666);
    fs::read(&path).expect("the file can be read");
    let report: FilesReport = nodeward_as(UNPRIVILEGED_USER, &words).json_after_exit(0);
    assert_eq!(report.account.selected(), 8 * MIB, "{report:?}");
    Ok(())
}

/// Opening a file may cost the file system a few of its own blocks; `pgpgin` counts in KiB.
const FEW_BLOCKS_KIB: u64 = 64;

/// Goal: pages that are not in memory are not read, also beside those that are.
fn file_not_in_memory() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (path, _) = disk.write_clean("cold", 16);
    drop_caches();
    let read = vmstat("pgpgin");
    let report: FilesReport = move_file(&path, "1").json_after_exit(0);
    assert_eq!((report.looked.files, report.looked.files_cached), (1, 0), "{report:?}");
    assert_eq!(report.account.selected(), 0);
    assert!(vmstat("pgpgin") - read < FEW_BLOCKS_KIB);
    // One page in the middle, and the kernel's readahead, up to 128 KiB.
    let mut page = [0; PAGE as usize];
    let file = File::open(&path).expect("the file can be opened");
    file.read_exact_at(&mut page, 5 << 20).expect("the file can be read");
    let read = vmstat("pgpgin");
    let report: FilesReport = move_file(&path, "0,1 1").json_after_exit(0);
    println!("one page was read, so {} are in memory", report.account.selected());
    assert!((1..=32).contains(&report.account.selected()), "{report:?}");
    assert_eq!(report.looked.cached_bytes, report.account.selected() * PAGE);
    assert_eq!(vmstat("pgpgin"), read, "nothing was read");
    Ok(())
}

/// 1500 files in 30 directories: more than are mapped at a time.
const FOLDERS: u64 = 30;
const FILES_PER_FOLDER: u64 = 50;
const FILES: u64 = FOLDERS * FILES_PER_FOLDER;

fn make_file_tree(tree: &str) {
    let line = format!(
        "cd {tree} && for d in $(seq {FOLDERS}); do mkdir $d; \
         for f in $(seq {FILES_PER_FOLDER}); do echo $d $f >$d/$f; done; done"
    );
    run("numactl", &["--cpunodebind=0", "--membind=0", "sh", "-c", &line]);
}

/// Goal: below a directory every regular file moves, each once whatever its names, and nothing
/// behind a symbolic link.
fn file_tree() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (outside, _) = disk.write_clean("outside", 1);
    let tree = disk.path("tree");
    fs::create_dir(&tree).expect("a folder can be made");
    make_file_tree(&tree);
    symlink(&outside, format!("{tree}/link")).expect("a link can be made");
    symlink("..", format!("{tree}/1/up")).expect("a link can be made");
    fs::hard_link(format!("{tree}/1/1"), format!("{tree}/2/again")).expect("a second name");
    File::create(format!("{tree}/empty")).expect("a file can be made");
    run("mkfifo", &[&format!("{tree}/pipe")]);
    run("sync", &[]);
    let words = format!("move --json --quiet --file {tree} --file {tree}/3 1");
    let report: FilesReport = nodeward(&words).json_after_exit(0);
    println!("a tree: {:?}", report.account);
    assert_eq!((report.looked.files, report.looked.files_cached), (FILES + 1, FILES));
    assert_eq!(report.looked.others, 3, "two links and a pipe");
    assert_eq!(report.account.moved, FILES);
    assert_eq!(pages_by_node(&format!("{tree}/30/50")), [(1, 1)].into());
    assert_eq!(pages_by_node(&outside), [(0, MIB)].into());
    Ok(())
}

/// Pause between two new files: many are created during each move, and both make progress.
const STIR_PAUSE: Duration = Duration::from_micros(300);

/// Goal: files that come and go during the walk through a directory do no harm.
fn file_tree_changes() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let tree = disk.path("tree");
    fs::create_dir(&tree).expect("a folder can be made");
    make_file_tree(&tree);
    let stir = |round: u64| {
        let path = format!("{tree}/{}/{}", round % FOLDERS + 1, round % FILES_PER_FOLDER + 1);
        fs::remove_file(&path).ok();
        fs::write(&path, path.as_bytes()).expect("a file can be written");
        std::thread::sleep(STIR_PAUSE);
    };
    with_concurrent_changes(stir, || {
        for to in [1, 0, 1] {
            let finished = move_file(&tree, &to.to_string());
            let report: FilesReport = finished.json_after_exit(finished.code.min(1));
            let Ok(left) = fs::read_dir(&tree).map(Iterator::count) else { panic!("no {tree}") };
            assert_eq!(left as u64, FOLDERS);
            println!("while files come and go: {:?} {:?}", report.looked, report.account);
            // A new file with the inode number of one that was seen is skipped.
            assert!(report.looked.files >= FILES * 9 / 10, "{report:?}");
        }
    });
    Ok(())
}

/// Repeats an action while `work` runs.
fn with_concurrent_changes(stir: impl Fn(u64) + Sync, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stirring = scope.spawn(|| {
            (0..).take_while(|_| !done.load(Relaxed)).for_each(&stir);
        });
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Relaxed);
        stirring.join().expect("it can be stirred");
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Goal: a file that is truncated at any moment of its move costs at most the pages that vanished,
/// and the account reports them.
fn file_shrinks() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (path, digest_before) = disk.write_clean("shrinks", 8);
    let content = fs::read(&path).expect("the file can be read");
    let file = File::options().write(true).open(&path).expect("the file can be opened");
    let (kept, rest) = content.split_at(1 << 20);
    let stir = |_| {
        file.set_len(kept.len() as u64).expect("the file can be cut");
        file.write_all_at(rest, kept.len() as u64).expect("the file can be filled");
    };
    let seen = Cell::new([0; 3]);
    let was_cut = || seen.get()[1] + seen.get()[2] > 0;
    with_concurrent_changes(stir, || {
        for round in rounds(6, "it is cut in the middle of a move", was_cut) {
            let finished = move_file(&path, &(1 - round % 2).to_string());
            let report: FilesReport = finished.json_after_exit(finished.code.min(1));
            let went = report.account.skipped_for(SkipReason::NotPresent);
            let shrank = report.looked.first_problems.iter().any(|p| p.trouble == "shrank");
            let ways = [finished.code == 0, went > 0, shrank];
            seen.set(std::array::from_fn(|way| seen.get()[way] + u64::from(ways[way])));
            assert!(report.account.moved + report.account.already_there >= MIB, "{report:?}");
        }
    });
    println!(
        "of moves of a file that shrinks: {:?} whole, with pages gone, cut while mapped",
        seen.get()
    );
    assert_eq!(digest(&path), digest_before);
    Ok(())
}

/// Goal: Ctrl-C ends the move between two calls; done or not, every page is accounted for.
fn file_interrupted() -> CaseOutcome {
    let disk = Disk::ext4()?;
    let (path, _) = disk.write_clean("interrupted", 32);
    let watched = map_populated(&path);
    let underway = RunningMove::begin(&format!("--file {path} 1 --rate 1MiB/s"));
    crate::guest::wait_until("pages arrive", || {
        let range = watched.address()..watched.address() + 1;
        crate::numa_maps::pages_within(std::process::id(), &range).contains_key(&1)
    });
    underway.signal(Signal::INT);
    let report: FilesReport = underway.finish().json_after_exit(130);
    let left = report.account.skipped_for(SkipReason::Interrupted);
    assert!(report.interrupted && report.account.moved > 0 && left > 0, "{report:?}");
    assert_eq!(report.account.selected(), 32 * MIB, "{report:?}");
    drop(watched);
    assert_eq!(pages_by_node(&path), [(0, left), (1, 32 * MIB - left)].into());
    assert!(Path::new(&path).exists());
    Ok(())
}
