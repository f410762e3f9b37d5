//! Tests of nudges and pins, with a fake thread and with threads of this process.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;

use nodeward_machine::{Error, Machine};
use nodeward_model::CpuId;
use proptest::prelude::*;

use super::*;
use crate::Linux;
use crate::affinity;
use crate::interference::{ChildExit, TestThread, run_in_child};
use crate::kernel_file;
use crate::procfs::stat;
use crate::test_wait::wait_until;

const TID: u32 = 77;

fn cpus(list: &str) -> Cpumask {
    list.parse().unwrap()
}

fn us() -> Pid {
    Pid::new(std::process::id()).unwrap()
}

/// A fake of the kernel's thread, which may change state between two calls.
struct FakeAffinity {
    cpus: RefCell<Cpumask>,
    cpu: Cell<u32>,
    cpuset: Cpumask,
    awake: bool,
    /// The affinity that another process sets during the wait.
    set_by_others: RefCell<Option<Cpumask>>,
    ended: Cell<bool>,
    ends_while_we_wait: bool,
    waits: Cell<u32>,
}

impl FakeAffinity {
    fn new(awake: bool) -> Self {
        Self {
            cpus: RefCell::new(cpus("0-3")),
            cpu: Cell::new(0),
            cpuset: cpus("0-7"),
            awake,
            set_by_others: RefCell::new(None),
            ended: Cell::new(false),
            ends_while_we_wait: false,
            waits: Cell::new(0),
        }
    }

    fn nudge(&self, to: &str) -> AffinityOutcome {
        nudge(self, &NudgeJournal::default(), (us(), TID), &cpus(to)).unwrap()
    }

    fn check(&self) -> io::Result<()> {
        if self.ended.get() { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
    }

    fn now(&self) -> String {
        self.cpus.borrow().to_string()
    }
}

impl ThreadAffinity for FakeAffinity {
    fn cpus(&self, _tid: u32) -> io::Result<Cpumask> {
        self.check().map(|()| self.cpus.borrow().clone())
    }

    fn set(&self, _tid: u32, cpus: &Cpumask) -> io::Result<()> {
        self.check()?;
        let allowed = cpus.and(&self.cpuset);
        let first = allowed.first().ok_or(io::Error::from_raw_os_error(libc::EINVAL))?;
        if self.awake && !allowed.contains(CpuId(self.cpu.get())) {
            self.cpu.set(first.0);
        }
        self.cpus.replace(allowed);
        Ok(())
    }

    fn set_unrestricted(&self, tid: u32) -> io::Result<()> {
        self.set(tid, &self.cpuset)
    }

    fn cpu(&self, _tid: u32) -> io::Result<CpuId> {
        self.check().map(|()| CpuId(self.cpu.get()))
    }

    fn is_unrestricted(&self, _tid: u32, cpus: &Cpumask) -> bool {
        *cpus == self.cpuset
    }

    fn wait(&self) {
        self.waits.set(self.waits.get() + 1);
        self.ended.set(self.ends_while_we_wait);
        if let Some(told) = self.set_by_others.take() {
            self.cpus.replace(told);
        }
    }
}

/// Goal: a thread that is awake moves at once and keeps its affinity; a sleeping thread is waited
/// for up to the limit and reported as asleep.
#[test]
fn who_is_awake_comes_and_stays_free() {
    let thread = FakeAffinity::new(true);
    assert_eq!(thread.nudge("2-5"), AffinityOutcome::Done);
    assert_eq!((thread.cpu.get(), thread.now().as_str(), thread.waits.get()), (2, "0-3", 0));

    let thread = FakeAffinity::new(false);
    assert_eq!(thread.nudge("2-5"), AffinityOutcome::Asleep);
    assert_eq!((thread.cpu.get(), thread.now().as_str()), (0, "0-3"));
    assert_eq!(thread.waits.get(), POLLS_MAX - 1);
}

/// Goal: nothing is set where that is not needed or not allowed.
#[test]
fn nothing_is_set_without_need() {
    let thread = FakeAffinity::new(false);
    assert_eq!(thread.nudge("4-7"), AffinityOutcome::NotAllowed, "its affinity is respected");
    assert_eq!(thread.nudge("0"), AffinityOutcome::Done, "it ran there last");
    assert_eq!(thread.nudge("0-7"), AffinityOutcome::Done, "it can be nowhere else");
    assert_eq!((thread.now().as_str(), thread.waits.get()), ("0-3", 0));
}

/// Goal: an affinity that another process sets in between stays in force; a thread that exits in
/// between is gone.
#[test]
fn changes_in_between_stand() {
    let thread =
        FakeAffinity { set_by_others: RefCell::new(Some(cpus("1"))), ..FakeAffinity::new(false) };
    assert_eq!(thread.nudge("2-3"), AffinityOutcome::Changed);
    assert_eq!(thread.now(), "1");
    let thread = FakeAffinity { ends_while_we_wait: true, ..FakeAffinity::new(false) };
    assert_eq!(thread.nudge("2-3"), AffinityOutcome::Gone);
    assert_eq!(thread.nudge("2-3"), AffinityOutcome::Gone, "before as well as meanwhile");
}

/// Goal: a cpuset that forbids the CPUs gives a refusal; if it no longer allows the thread's former
/// CPUs, the thread gets all that it allows.
#[test]
fn cpusets_change_too() {
    let thread = FakeAffinity { cpuset: cpus("0-1"), ..FakeAffinity::new(true) };
    assert_eq!(thread.nudge("2-3"), AffinityOutcome::NotAllowed);
    assert_eq!(thread.now(), "0-3");
    let thread = FakeAffinity { cpuset: cpus("4-7"), ..FakeAffinity::new(true) };
    thread.cpus.replace(cpus("2-3"));
    let note = NudgeRecord {
        pid: us(),
        tid: TID,
        before: cpus("0-3"),
        target: cpus("2-3"),
        unrestricted: false,
    };
    assert_eq!(widen(&thread, &note).unwrap(), AffinityOutcome::Changed);
    assert_eq!(thread.now(), "4-7");
}

/// Goal: a thread that could run on all of its cpuset is not restored to a list of CPUs, which
/// would restrict it when the cpuset grows.
#[test]
fn a_free_thread_stays_free() {
    struct RecordingAffinity(FakeAffinity, RefCell<Vec<String>>);
    impl ThreadAffinity for RecordingAffinity {
        fn cpus(&self, tid: u32) -> io::Result<Cpumask> {
            self.0.cpus(tid)
        }
        fn set(&self, tid: u32, cpus: &Cpumask) -> io::Result<()> {
            self.1.borrow_mut().push(cpus.to_string());
            self.0.set(tid, cpus)
        }
        fn set_unrestricted(&self, tid: u32) -> io::Result<()> {
            self.1.borrow_mut().push("all".to_owned());
            self.0.set_unrestricted(tid)
        }
        fn cpu(&self, tid: u32) -> io::Result<CpuId> {
            self.0.cpu(tid)
        }
        fn is_unrestricted(&self, tid: u32, cpus: &Cpumask) -> bool {
            self.0.is_unrestricted(tid, cpus)
        }
        fn wait(&self) {}
    }
    for (before, last) in [("0-7", "all"), ("0-6", "0-6")] {
        let thread = RecordingAffinity(FakeAffinity::new(true), RefCell::default());
        thread.0.cpus.replace(cpus(before));
        nudge(&thread, &NudgeJournal::default(), (us(), TID), &cpus("4-5")).unwrap();
        assert_eq!(*thread.1.borrow(), ["4-5", last]);
        assert_eq!(thread.0.now(), before);
    }
    let thread = RecordingAffinity(FakeAffinity::new(true), RefCell::default());
    pin(&thread, TID, &cpus("2")).unwrap();
    pin(&thread, TID, &cpus("0-7")).unwrap();
    assert_eq!(*thread.1.borrow(), ["2", "all"]);
}

/// Returns two CPUs of this machine; `None`, with a message, if there is only one.
fn two_cpus() -> Option<[Cpumask; 2]> {
    let all = affinity::get(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
    let all: Vec<_> = all.unwrap().iter().map(|cpu| Cpumask::from_iter([cpu])).collect();
    let two = all.first_chunk().cloned();
    if two.is_none() {
        eprintln!("skipped: this takes two CPUs");
    }
    two
}

/// Goal: a busy thread runs on each CPU in turn and keeps its affinity.
#[test]
fn a_real_thread_comes() {
    let Some(two) = two_cpus() else { return };
    let process = Linux::open().open_process(us()).unwrap();
    let worker = TestThread::start(true).unwrap();
    let before = affinity::get(worker.tid).unwrap();
    for cpus in two.iter().cycle().take(20) {
        assert_eq!(process.nudge(worker.tid, cpus).unwrap(), AffinityOutcome::Done);
        assert_eq!(affinity::get(worker.tid).unwrap(), before);
    }
}

/// Goal: a sleeping thread is reported as asleep and keeps its affinity; an exited one is gone; no
/// thread of another process is changed.
#[test]
fn a_real_thread_sleeps_or_ends() {
    let Some(two) = two_cpus() else { return };
    let process = Linux::open().open_process(us()).unwrap();
    let mut worker = TestThread::start(false).unwrap();
    let before = affinity::get(worker.tid).unwrap();
    let kernel = KernelAffinity { root: Path::new("/"), folder: Path::new("/proc/self") };
    let sleeps = || {
        let on_first = two[0].contains(kernel.cpu(worker.tid).unwrap());
        let placed = process.nudge(worker.tid, &two[usize::from(on_first)]).unwrap();
        assert_eq!(affinity::get(worker.tid).unwrap(), before);
        assert!([AffinityOutcome::Done, AffinityOutcome::Asleep].contains(&placed), "{placed:?}");
        placed == AffinityOutcome::Asleep
    };
    // The thread runs for a little while when it starts, and still exists for a little while when
    // it has ended.
    wait_until("the thread sleeps", sleeps);
    worker.end();
    wait_until("the thread is gone", || {
        process.nudge(worker.tid, &two[0]).unwrap() == AffinityOutcome::Gone
    });
    let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get().cast_unsigned();
    assert_eq!(process.pin(parent, &two[0]).unwrap(), AffinityOutcome::Gone);
}

/// Goal: a pin holds until the thread is pinned to all CPUs. An exited process is gone.
#[test]
fn pins_hold_until_they_end() {
    let Some(two) = two_cpus() else { return };
    let process = Linux::open().open_process(us()).unwrap();
    let worker = TestThread::start(true).unwrap();
    let before = affinity::get(worker.tid).unwrap();
    for (cpus, now) in [(&two[1], &two[1]), (&two[0], &two[0]), (&before, &before)] {
        assert_eq!(process.pin(worker.tid, cpus).unwrap(), AffinityOutcome::Done);
        assert_eq!(affinity::get(worker.tid).unwrap(), *now);
    }
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let process = Linux::open().open_process(Pid::new(child.id()).unwrap()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = process.nudge(child.id(), &two[0]).unwrap_err();
    assert!(matches!(gone, Error::Gone(pid) if pid.number() == child.id()), "{gone}");
}

/// The kernel, with a kill of this process at the first wait.
struct Killer(KernelAffinity<'static>);

impl ThreadAffinity for Killer {
    fn cpus(&self, tid: u32) -> io::Result<Cpumask> {
        self.0.cpus(tid)
    }
    fn set(&self, tid: u32, cpus: &Cpumask) -> io::Result<()> {
        self.0.set(tid, cpus)
    }
    fn set_unrestricted(&self, tid: u32) -> io::Result<()> {
        self.0.set_unrestricted(tid)
    }
    fn cpu(&self, _tid: u32) -> io::Result<CpuId> {
        Ok(CpuId(u32::MAX)) // never where it should be
    }
    fn is_unrestricted(&self, tid: u32, cpus: &Cpumask) -> bool {
        self.0.is_unrestricted(tid, cpus)
    }
    fn wait(&self) {
        let us = rustix::process::getpid();
        rustix::process::kill_process(us, rustix::process::Signal::KILL).unwrap();
    }
}

/// Goal: a kill -9 during a nudge leaves the thread narrowed, and the next opening of the file
/// restores its affinity, once.
#[test]
fn a_kill_in_a_nudge_is_undone() {
    let Some(two) = two_cpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nudge");
    let worker = TestThread::start(false).unwrap();
    let before = affinity::get(worker.tid).unwrap();
    let process: &'static Path = Path::new(Box::leak(format!("/proc/{}", us()).into_boxed_str()));
    let end = run_in_child(|| {
        let notes = NudgeJournal::default();
        notes.open(&path, Path::new("/")).unwrap();
        let killer = Killer(KernelAffinity { root: Path::new("/"), folder: process });
        nudge(&killer, &notes, (us_of(process), worker.tid), &two[1]).ok();
        0
    });
    assert_eq!(end.unwrap(), ChildExit::Signal(libc::SIGKILL));
    assert_eq!(affinity::get(worker.tid).unwrap(), two[1], "as the kill left it");
    let machine = Linux::open();
    let undone = machine.open_nudge_journal(&path).unwrap();
    assert_eq!(undone, Some(journal::RestoredThread { pid: us(), tid: worker.tid }));
    assert_eq!(affinity::get(worker.tid).unwrap(), before);
    assert_eq!(Linux::open().open_nudge_journal(&path).unwrap(), None);
    // A nudge that completes leaves no note.
    machine.open_process(us()).unwrap().nudge(worker.tid, &two[1]).unwrap();
    assert_eq!(kernel_file::read_to_string(&path).unwrap(), "");
}

/// Returns the process of a directory in /proc, also when a child of it reads the directory.
fn us_of(folder: &Path) -> Pid {
    folder.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Goal: a note causes no change of a thread whose affinity another process has set since, nor of
/// another process with the same pid.
#[test]
fn stale_notes_do_no_harm() {
    let Some(two) = two_cpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nudge");
    let worker = TestThread::start(false).unwrap();
    let boot = kernel_file::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let stat = kernel_file::read("/proc/self/stat").unwrap();
    let started = stat::parse(&stat).unwrap().started_ticks;
    let note = NudgeRecord {
        pid: us(),
        tid: worker.tid,
        before: two[0].or(&two[1]),
        target: two[1].clone(),
        unrestricted: false,
    };
    affinity::set(worker.tid, &two[0]).unwrap(); // not what the note says
    fs::write(&path, journal::format_record(started, boot.trim(), &note)).unwrap();
    assert!(Linux::open().open_nudge_journal(&path).unwrap().is_none());
    affinity::set(worker.tid, &two[1]).unwrap();
    for line in [
        journal::format_record(started + 1, boot.trim(), &note),
        journal::format_record(started, "another", &note),
        "nodeward-nudge 1 and nonsense".to_owned(),
    ] {
        fs::write(&path, line).unwrap();
        assert!(Linux::open().open_nudge_journal(&path).unwrap().is_none());
    }
    assert_eq!(affinity::get(worker.tid).unwrap(), two[1]);
}

proptest! {
    /// Goal: a note is read as it was written; a part of one, or anything else, is no note.
    #[test]
    fn notes_are_read_whole_or_not_at_all(
        (pid, tid, started) in (1u32..4_194_304, any::<u32>(), any::<u64>()),
        lists in prop::array::uniform2("[0-9]{1,3}(-6[0-9]{3})?"),
        (cut, text) in (0.0f64..1.0, ".{0,60}"),
    ) {
        let [before, target] = lists.map(|list| list.parse().unwrap());
        let (pid, everywhere) = (Pid::new(pid).unwrap(), tid % 2 == 0);
        let note = NudgeRecord { pid, tid, before, target, unrestricted: everywhere };
        let line = journal::format_record(started, "boot", &note);
        prop_assert_eq!(journal::parse_record(&line, "boot"), Some((started, note)));
        prop_assert_eq!(journal::parse_record(&line, "other"), None);
        let length = (line.len() as f64 * cut) as usize;
        prop_assert_eq!(journal::parse_record(&line[..length], "boot"), None);
        journal::parse_record(&text, "boot");
    }
}
