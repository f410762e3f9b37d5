//! Memory pressure: the time for which tasks are stalled for lack of memory (PSI, pressure stall
//! information), in the control group of this process or on the whole machine.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nodeward_machine::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstatfs;
use rustix::io::Errno;

use crate::cgroup::MemoryGroups;
use crate::kernel_file;

/// Memory is short when some task was stalled for this long within [`WINDOW`].
const STALL_THRESHOLD: Duration = Duration::from_millis(200);

/// The shortest window, and the only one below 4 s, that the kernel monitors for a process without
/// CAP_SYS_RESOURCE (Linux 6.4, commit d82caa273565).
const WINDOW: Duration = Duration::from_secs(2);

/// A monitor of memory pressure.
#[derive(Debug)]
pub struct PressureMonitor {
    source: PressureSource,
    /// Files with counts of reclaim and compaction; `counts` has their last values.
    counters: Vec<PathBuf>,
    counts: ReclaimCounts,
}

/// Counts of the kernel's reclaim and compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReclaimCounts {
    /// Pages that reclaim has scanned.
    scanned: u64,
    /// Tasks that were stalled by compaction, which makes contiguous free memory, for huge pages
    /// for example.
    compacted: u64,
}

#[derive(Debug)]
enum PressureSource {
    /// The kernel has no PSI (CONFIG_PSI, `psi=0`) or does not show it to this process.
    Unknown,
    /// The kernel reports pressure by POLLPRI, at most once per window.
    Trigger(File),
    /// Reads the total stall time and compares it with the last one.
    Total { path: PathBuf, last: Duration, looked: Instant },
}

impl PressureMonitor {
    /// Starts monitoring, below a root, which is `/` on a live machine.
    ///
    /// # Errors
    /// If a file cannot be read or parsed. Unknown pressure is not an error.
    pub fn watch(root: &Path) -> Result<Self> {
        Self::watch_in(root, MemoryGroups::find(root)?.folder_v2()?.as_deref())
    }

    /// Starts monitoring the whole machine, whatever the group of this process is, likewise.
    ///
    /// # Errors
    /// As [`PressureMonitor::watch`].
    pub fn watch_machine(root: &Path) -> Result<Self> {
        Self::watch_in(root, None)
    }

    /// Monitors a group, or the machine where the group's pressure is not known.
    fn watch_in(root: &Path, folder: Option<&Path>) -> Result<Self> {
        let in_folder = |name| folder.map(|folder| folder.join(name));
        let counters = in_folder("memory.stat").into_iter().chain([root.join("proc/vmstat")]);
        let mut watched = Self { counters: counters.collect(), ..Self::unknown() };
        watched.counts = watched.count();
        let group = in_folder("memory.pressure");
        for path in group.into_iter().chain([root.join("proc/pressure/memory")]) {
            let Some(last) = read_stall_total(&path)? else { continue };
            let total =
                || PressureSource::Total { path: path.clone(), last, looked: Instant::now() };
            watched.source = trigger(&path).map_or_else(total, PressureSource::Trigger);
            return Ok(watched);
        }
        Ok(watched)
    }

    /// Returns a monitor that never reports pressure.
    pub fn unknown() -> Self {
        Self {
            source: PressureSource::Unknown,
            counters: Vec::new(),
            counts: ReclaimCounts::default(),
        }
    }

    /// Returns true if pressure is known here. Otherwise memory is never reported as short.
    pub fn is_known(&self) -> bool {
        !matches!(self.source, PressureSource::Unknown)
    }

    /// Waits until the end of `timeout`, until memory is short, or until `stop` is readable or hung
    /// up. Returns true if memory was short since the last call: stalls of a tenth of the time,
    /// measured over at most 2 s. Pressure that the kernel does not report at once is reported at
    /// the end of the wait.
    ///
    /// # Errors
    /// If the kernel's file cannot be read or parsed any more.
    pub fn wait(&mut self, timeout: Duration, stop: impl AsFd) -> Result<bool> {
        let stalled = self.wait_for_stalls(timeout, stop.as_fd())?;
        let now = self.count();
        let before = std::mem::replace(&mut self.counts, now);
        Ok(stalled && !self.counts.is_compaction_only(before))
    }

    fn count(&self) -> ReclaimCounts {
        let texts = self.counters.iter().filter_map(|path| kernel_file::read_to_string(path).ok());
        texts.fold(ReclaimCounts::default(), |counts, text| counts.with(&text))
    }

    fn wait_for_stalls(&mut self, timeout: Duration, stop: BorrowedFd<'_>) -> Result<bool> {
        match &mut self.source {
            PressureSource::Trigger(file) => {
                let (end, found) = (Instant::now() + timeout, poll_both(file, stop, timeout)?);
                if !found.contains(PollFlags::ERR) {
                    return Ok(found.contains(PollFlags::PRI));
                }
                // The group was removed. The kernel reports this in every poll, which would turn
                // the waits into a busy loop.
                self.source = PressureSource::Unknown;
                sleep(stop, end.saturating_duration_since(Instant::now()))?;
                Ok(false)
            }
            PressureSource::Total { path, last, looked } => {
                sleep(stop, timeout)?;
                let (before, since) = (*last, looked.elapsed());
                *last = read_stall_total(path)?.unwrap_or(before);
                *looked = Instant::now();
                Ok(is_short(last.saturating_sub(before), since))
            }
            PressureSource::Unknown => sleep(stop, timeout).map(|()| false),
        }
    }
}

impl ReclaimCounts {
    /// Adds the counts of a file of lines with a name and a number. A group's file has `pgscan`,
    /// the machine's has one count for each kind of reclaim.
    pub(crate) fn with(mut self, text: &str) -> Self {
        for (name, count) in text.lines().filter_map(|line| line.split_once(' ')) {
            let sum = match name {
                "pgscan" | "pgscan_direct" | "pgscan_kswapd" => &mut self.scanned,
                "compact_stall" => &mut self.compacted,
                _ => continue,
            };
            *sum = sum.wrapping_add(count.parse().unwrap_or(0));
        }
        self
    }

    /// Returns true if the kernel has only compacted since `before`, without reclaim: then memory
    /// is not short.
    pub(crate) fn is_compaction_only(self, before: Self) -> bool {
        self.scanned == before.scanned && self.compacted != before.compacted
    }
}

/// Returns true if stalls of `stalled` within `since` would fire a trigger. A `since` beyond the
/// window counts as one window; below a tenth of a window it counts as that tenth, because a single
/// stall within a few milliseconds means nothing.
fn is_short(stalled: Duration, since: Duration) -> bool {
    let since = since.clamp(WINDOW / 10, WINDOW);
    stalled.as_micros() * WINDOW.as_micros() >= STALL_THRESHOLD.as_micros() * since.as_micros()
}

/// Asks the kernel to report when memory is short; `None` if it refuses, or the file is not a
/// kernel file. The trigger lasts as long as the file is open.
fn trigger(path: &Path) -> Option<File> {
    let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    if ![libc::PROC_SUPER_MAGIC, libc::CGROUP2_SUPER_MAGIC].contains(&fstatfs(&file).ok()?.f_type) {
        return None;
    }
    // The kernel overwrites the last byte with a zero.
    let wanted = format!("some {} {}\0", STALL_THRESHOLD.as_micros(), WINDOW.as_micros());
    file.write_all(wanted.as_bytes()).ok()?;
    Some(file)
}

/// Polls a file with a trigger, and `stop`; returns the events of the file.
fn poll_both(file: &File, stop: BorrowedFd<'_>, timeout: Duration) -> Result<PollFlags> {
    let mut both = [PollFd::new(file, PollFlags::PRI), PollFd::from_borrowed_fd(stop, STOP)];
    poll_for(&mut both, timeout)?;
    Ok(both[0].revents())
}

const STOP: PollFlags = PollFlags::IN;

fn sleep(stop: BorrowedFd<'_>, timeout: Duration) -> Result<()> {
    poll_for(&mut [PollFd::from_borrowed_fd(stop, STOP)], timeout)
}

/// Polls for at most `timeout`. A signal ends it early, which callers must expect anyway.
fn poll_for(files: &mut [PollFd<'_>], timeout: Duration) -> Result<()> {
    // A timeout beyond the range of the clock is infinite.
    let timeout = Timespec::try_from(timeout).ok();
    match poll(files, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(Error::Syscall { call: "poll", source: errno.into() }),
    }
}

/// Returns the time for which some task was stalled for lack of memory, since the group was made or
/// the machine booted; `None` where that is not known.
fn read_stall_total(path: &Path) -> Result<Option<Duration>> {
    match kernel_file::read_to_string(path) {
        Ok(text) => parse_stall_total(&text, path).map(Some),
        Err(error) if is_unavailable(&error) => Ok(None),
        Err(source) => Err(Error::Read { path: path.to_owned(), source }),
    }
}

/// EOPNOTSUPP: `psi=0` on the kernel's command line. ENODEV: the group was removed.
fn is_unavailable(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
        || matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::NODEV))
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS` among the lines of a pressure
/// file.
///
/// # Errors
/// If there is no such line.
pub fn parse_stall_total(text: &str, path: &Path) -> Result<Duration> {
    let expected = |line, found: &str| Error::Parse {
        path: path.to_owned(),
        line,
        expected: format!(
            "'some ... total=MICROSECONDS', not '{found}'; is this a file of pressure?"
        ),
    };
    let some = |(_, line): &(usize, &str)| line.split(' ').next() == Some("some");
    let Some((index, line)) = text.lines().enumerate().find(some) else {
        return Err(expected(1, text.lines().next().unwrap_or_default()));
    };
    let total = line.split(' ').find_map(|field| field.strip_prefix("total=")?.parse().ok());
    total.map(Duration::from_micros).ok_or_else(|| expected(index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The format of Linux 6.18.
    const TEXT: &str = "\
some avg10=0.00 avg60=1.25 avg300=0.00 total=22262148
full avg10=0.00 avg60=0.00 avg300=0.00 total=9002608
";

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A machine with these files and no others.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write(&root, path, text);
        }
        root
    }

    fn write(root: &tempfile::TempDir, path: &str, text: &str) {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn some(total_us: u64) -> String {
        format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\n")
    }

    const PROC: &str = "proc/pressure/memory";
    const GROUP: &str = "sys/fs/cgroup/app/memory.pressure";
    const MOUNTS: (&str, &str) =
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    const OWN: (&str, &str) = ("proc/self/cgroup", "0::/app\n");

    /// Returns a pipe without a writer's data, and its other end.
    fn quiet() -> (std::io::PipeReader, std::io::PipeWriter) {
        std::io::pipe().unwrap()
    }

    /// Goal: the total of `some` is read, not that of `full`; an invalid line gives an error with
    /// its number.
    #[test]
    fn the_total_is_read() {
        let path = Path::new("/proc/pressure/memory");
        assert_eq!(parse_stall_total(TEXT, path).unwrap(), Duration::from_micros(22_262_148));
        for (text, line) in [("", 1), ("full total=1\n", 1), ("\nsome avg10=0.00 total=-1\n", 2)] {
            let told = parse_stall_total(text, path).unwrap_err().to_string();
            assert!(told.starts_with(&format!("/proc/pressure/memory:{line}: expected")), "{told}");
        }
    }

    /// Goal: tasks stalled by compaction for a huge page, without reclaim, do not mean that memory
    /// is short. With reclaim, in the group or on the machine, they do, and so do tasks that are
    /// throttled at a group's limit where nothing can be reclaimed.
    #[test]
    fn stalls_for_memory_in_one_piece_do_not_count() {
        let stat = "sys/fs/cgroup/app/memory.stat";
        let vmstat = |scanned: u64, compacted: u64| {
            format!("nr_free_pages 9\npgscan_direct {scanned}\ncompact_stall {compacted}\n")
        };
        let (group, machine_wide) = ((GROUP, &*some(0)), ("proc/vmstat", &*vmstat(1, 1)));
        let root = machine(&[MOUNTS, OWN, group, (stat, "anon 5\npgscan 7\n"), machine_wide]);
        let mut watched = PressureMonitor::watch(root.path()).unwrap();
        let (stop, _other) = quiet();
        let mut after = |total_us: u64| {
            write(&root, GROUP, &some(total_us));
            watched.wait(Duration::ZERO, &stop).unwrap()
        };
        assert!(after(1_000_000), "slowed down");
        write(&root, "proc/vmstat", &vmstat(1, 2));
        assert!(!after(2_000_000));
        write(&root, stat, "anon 5\npgscan 8\n");
        write(&root, "proc/vmstat", &vmstat(1, 3));
        assert!(after(3_000_000));
        write(&root, "proc/vmstat", &vmstat(1, 4));
        assert!(!after(4_000_000), "that was before");
        write(&root, "proc/vmstat", &vmstat(2, 5));
        assert!(after(5_000_000));
    }

    proptest! {
        /// Goal: any total is read, whatever fields and lines later kernels add; any text is read
        /// or refused.
        #[test]
        fn any_text(
            total: u64,
            field in "[a-z]{1,4}=[0-9.]{1,6}",
            text in "(some|total=|[ 0-9\n]){0,9}",
        ) {
            let path = Path::new("memory");
            let grown = format!("new line\nsome {field} total={total} {field}\nfull total=0\n");
            let expected = Duration::from_micros(total);
            prop_assert_eq!(parse_stall_total(&grown, path).ok(), Some(expected));
            let _ = parse_stall_total(&text, path);
        }
    }

    /// Goal: stalls of a tenth of the time mean short memory, over at most 2 s and at least 0.2 s.
    #[test]
    fn a_tenth_of_the_time_is_short() {
        assert!(is_short(ms(100), ms(1000)) && !is_short(ms(99), ms(1000)));
        assert!(is_short(ms(200), ms(60_000)) && !is_short(ms(199), ms(60_000)));
        assert!(is_short(ms(20), ms(1)) && !is_short(ms(19), ms(1)));
    }

    /// Goal: each reading is compared with the one before, so each stall counts once. 0.25 s is
    /// short in any time, 1 ms is not.
    #[test]
    fn looks_are_compared() {
        let root = machine(&[(PROC, &some(5_000_000))]);
        let (stop, _open) = quiet();
        let mut pressure = PressureMonitor::watch(root.path()).unwrap();
        let mut short = |total| {
            write(&root, PROC, &some(total));
            pressure.wait(Duration::ZERO, &stop).unwrap()
        };
        let found = [5_000_000, 5_250_000, 5_251_000, 5_501_000].map(&mut short);
        assert_eq!(found, [false, true, false, true]);
    }

    /// Goal: the pressure of this process's group counts where it is known, else the machine's; a
    /// text in the place of a kernel file is not written to.
    #[test]
    fn our_group_counts() {
        let root = machine(&[MOUNTS, OWN, (PROC, &some(7)), (GROUP, &some(1))]);
        let (stop, _open) = quiet();
        let mut pressure = PressureMonitor::watch(root.path()).unwrap();
        write(&root, PROC, &some(9_000_000));
        assert!(!pressure.wait(Duration::ZERO, &stop).unwrap());
        write(&root, GROUP, &some(9_000_000));
        assert!(pressure.wait(Duration::ZERO, &stop).unwrap());
        assert_eq!(std::fs::read_to_string(root.path().join(GROUP)).unwrap(), some(9_000_000));
        assert!(
            PressureMonitor::watch(machine(&[MOUNTS, OWN, (PROC, TEXT)]).path())
                .unwrap()
                .is_known()
        );
    }

    /// Goal: a kernel without PSI never reports short memory, and an invalid file gives an error.
    #[test]
    fn nothing_and_nonsense() {
        let (stop, _open) = quiet();
        let mut pressure = PressureMonitor::watch(machine(&[]).path()).unwrap();
        assert!(!pressure.is_known() && !pressure.wait(Duration::ZERO, &stop).unwrap());
        let odd =
            PressureMonitor::watch(machine(&[(PROC, "plenty\n")]).path()).unwrap_err().to_string();
        assert!(odd.contains("proc/pressure/memory:1") && odd.contains("'plenty'"), "{odd}");
    }

    /// Goal: a stop ends each wait at once, with every kind of monitor and on this machine. Each
    /// wait would take two hours.
    #[test]
    fn stopping_ends_the_wait() {
        let (stop, open) = quiet();
        drop(open);
        let invented = [machine(&[]), machine(&[(PROC, TEXT)])];
        for root in invented.iter().map(tempfile::TempDir::path).chain([Path::new("/")]) {
            let mut pressure = PressureMonitor::watch(root).unwrap();
            eprintln!("{pressure:?}");
            pressure.wait(Duration::from_secs(7200), &stop).unwrap();
        }
    }
}
