//! Memory in which the kernel merges equal pages (KSM), because the program asked for it
//! (PR_SET_MEMORY_MERGE), or its service manager (systemd's MemoryKSM).

use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nodeward_linux::interference::{ChildExit, merge_equal_pages, run_in_child};
use nodeward_pager::{PageSize, Region};

use crate::common::{
    CHUNK, filled_region, in_subprocess, move_all, page_bytes, pager, pages, region,
    unmap_all_lazily,
};

const BYTES: usize = 2 * CHUNK;

/// Timeout, long enough for a busy kernel.
const MERGE_TIMEOUT: Duration = Duration::from_secs(120);

/// Turns KSM on; its settings are restored afterwards.
struct Ksm(Vec<(&'static str, String)>);

impl Ksm {
    const FILES: [(&str, &str); 3] = [("pages_to_scan", "20000"), SLEEP, ("run", "1")];

    /// Turns it on; `None`, with a message, where that is not allowed.
    fn start() -> Option<Self> {
        let before = Self::FILES.map(|(file, _)| (file, fs::read_to_string(path(file))));
        let keep = |(file, text): (_, std::io::Result<String>)| Some((file, text.ok()?));
        let before = Self(before.into_iter().filter_map(keep).collect());
        let begun = merge_equal_pages(false).and_then(|()| Self::FILES.iter().try_for_each(set));
        begun.inspect_err(|error| eprintln!("skipped: KSM: {error}")).ok().map(|()| before)
    }
}

const SLEEP: (&str, &str) = ("sleep_millisecs", "5");

impl Drop for Ksm {
    fn drop(&mut self) {
        self.0.iter().for_each(|(file, text)| fs::write(path(file), text).unwrap());
    }
}

fn path(file: &str) -> String {
    format!("/sys/kernel/mm/ksm/{file}")
}

fn set(&(file, text): &(&str, &str)) -> std::io::Result<()> {
    fs::write(path(file), text)
}

/// Waits until `pages` pages of this process are merged. Another test may have stopped KSM.
fn wait_until_merged(pages: u64) {
    let merged = || -> u64 {
        let text = fs::read_to_string("/proc/self/ksm_merging_pages").unwrap();
        text.trim().parse().unwrap()
    };
    let began = Instant::now();
    while merged() < pages {
        assert!(began.elapsed() < MERGE_TIMEOUT, "{} of {pages} pages are merged", merged());
        Ksm::FILES.iter().for_each(|file| set(file).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Writes the same content into every page.
fn fill_alike(region: &Region) {
    let words = page_bytes() / 8;
    region.words().iter().zip(0..).for_each(|(word, i)| word.store(i % words as u64 + 1, Relaxed));
}

fn is_filled(region: &Region) -> bool {
    let words = page_bytes() / 8;
    region.words().iter().zip(0..).all(|(word, i)| word.load(Relaxed) == i % words as u64 + 1)
}

/// A way to make pages come home that were left out, without changing their content.
type PageMover = (&'static str, fn(&Region));

const WAYS: [PageMover; 5] = [
    ("touch", |region| assert!(is_filled(region))),
    ("fork", |region| {
        assert_eq!(run_in_child(|| u8::from(!is_filled(region))).unwrap(), ChildExit::Code(0));
    }),
    ("migrate", |region| {
        assert_eq!(move_all(region).account.selected(), pages(BYTES));
    }),
    ("pin", |region| drop(region.pin(0..BYTES).unwrap())),
    ("discard", |region| {
        region.discard(0..CHUNK).unwrap();
        assert!(region.words()[..CHUNK / 8].iter().all(|word| word.load(Relaxed) == 0));
        fill_alike(region);
    }),
];

/// Goal: pages that the kernel merged while they were left out come home with their content,
/// whichever way they are requested; UFFDIO_MOVE refuses merged pages for ever (EBUSY).
#[test]
fn merged_pages_come_home() {
    in_subprocess("ksm::merged_pages_come_home", || {
        let Some(pager) = pager() else { return };
        let Some(_ksm) = Ksm::start() else { return };
        for page in [PageSize::Base, PageSize::Huge] {
            for (name, come_home) in WAYS {
                let region = region(&pager, BYTES, page);
                fill_alike(&region);
                assert_eq!(unmap_all_lazily(&region).lazy_pages, pages(BYTES), "{name}");
                merge_equal_pages(true).unwrap();
                // Nearly all: one page of several hundred (max_page_sharing) is not counted.
                wait_until_merged(pages(BYTES) * 9 / 10);
                eprintln!("{page:?}: {name}");
                come_home(&region);
                assert!(is_filled(&region), "{page:?} {name}");
                merge_equal_pages(false).unwrap();
            }
        }
    });
}

/// Goal: the pager's memory for pages out of sight is not offered to KSM, though the program has
/// all of its memory merged.
#[test]
fn shadow_memory_is_not_merged() {
    in_subprocess("ksm::shadow_memory_is_not_merged", || {
        if let Err(error) = merge_equal_pages(true) {
            return eprintln!("skipped: KSM: {error}");
        }
        let Some(pager) = pager() else { return };
        // Pages that differ: KSM may run for somebody else, and would have merged equal ones.
        let region = filled_region(&pager, BYTES, PageSize::Base);
        assert!(unmap_all_lazily(&region).lazy_pages > 0);
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let flags = |line: &str| -> Vec<String> {
            line.split_whitespace().skip(1).map(str::to_owned).collect()
        };
        let all: Vec<_> = smaps.lines().filter(|l| l.starts_with("VmFlags:")).map(flags).collect();
        let has = |flags: &[String], flag: &str| flags.iter().any(|other| other == flag);
        // Registered (um) and not inherited by children (dc): the memory for pages out of sight.
        let shadow: Vec<_> = all.iter().filter(|f| has(f, "um") && has(f, "dc")).collect();
        assert!(!shadow.is_empty(), "{smaps}");
        assert!(!shadow.iter().any(|flags| has(flags, "mg")), "{smaps}");
        assert!(all.iter().any(|flags| has(flags, "mg")), "the program's own memory is");
    });
}
