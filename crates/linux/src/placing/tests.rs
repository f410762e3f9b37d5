//! Tests of nudges and pins, with a fake thread and with threads of this process.

use std::cell::{Cell, RefCell};

use nodeward_machine::{Error, Machine};
use proptest::prelude::*;

use super::*;
use crate::Linux;
use crate::patience::wait_until;
use crate::trouble::{End, Worker, in_child};

const TID: u32 = 77;

fn cpus(list: &str) -> Cpumask {
    list.parse().unwrap()
}

fn us() -> Pid {
    Pid::new(std::process::id()).unwrap()
}

/// A fake of the kernel's thread, which may change state between two calls.
struct Paper {
    cpus: RefCell<Cpumask>,
    cpu: Cell<u32>,
    cpuset: Cpumask,
    awake: bool,
    /// The affinity that another process sets during the wait.
    told: RefCell<Option<Cpumask>>,
    ended: Cell<bool>,
    ends_while_we_wait: bool,
    waits: Cell<u32>,
}

impl Paper {
    fn new(awake: bool) -> Self {
        Self {
            cpus: RefCell::new(cpus("0-3")),
            cpu: Cell::new(0),
            cpuset: cpus("0-7"),
            awake,
            told: RefCell::new(None),
            ended: Cell::new(false),
            ends_while_we_wait: false,
            waits: Cell::new(0),
        }
    }

    fn nudge(&self, to: &str) -> Placed {
        nudge(self, &Notes::default(), (us(), TID), &cpus(to)).unwrap()
    }

    fn check(&self) -> io::Result<()> {
        if self.ended.get() { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
    }

    fn now(&self) -> String {
        self.cpus.borrow().to_string()
    }
}

impl Scheduler for Paper {
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

    fn set_all(&self, tid: u32) -> io::Result<()> {
        self.set(tid, &self.cpuset)
    }

    fn cpu(&self, _tid: u32) -> io::Result<CpuId> {
        self.check().map(|()| CpuId(self.cpu.get()))
    }

    fn is_everywhere(&self, _tid: u32, cpus: &Cpumask) -> bool {
        *cpus == self.cpuset
    }

    fn wait(&self) {
        self.waits.set(self.waits.get() + 1);
        self.ended.set(self.ends_while_we_wait);
        if let Some(told) = self.told.take() {
            self.cpus.replace(told);
        }
    }
}

/// Goal: a thread that is awake moves at once and keeps its affinity; a sleeping thread is waited
/// for up to the limit and reported as asleep.
#[test]
fn who_is_awake_comes_and_stays_free() {
    let thread = Paper::new(true);
    assert_eq!(thread.nudge("2-5"), Placed::Done);
    assert_eq!((thread.cpu.get(), thread.now().as_str(), thread.waits.get()), (2, "0-3", 0));

    let thread = Paper::new(false);
    assert_eq!(thread.nudge("2-5"), Placed::Asleep);
    assert_eq!((thread.cpu.get(), thread.now().as_str()), (0, "0-3"));
    assert_eq!(thread.waits.get(), LOOKS_MAX - 1);
}

/// Goal: nothing is set where that is not needed or not allowed.
#[test]
fn nothing_is_set_without_need() {
    let thread = Paper::new(false);
    assert_eq!(thread.nudge("4-7"), Placed::NotAllowed, "its affinity is respected");
    assert_eq!(thread.nudge("0"), Placed::Done, "it ran there last");
    assert_eq!(thread.nudge("0-7"), Placed::Done, "it can be nowhere else");
    assert_eq!((thread.now().as_str(), thread.waits.get()), ("0-3", 0));
}

/// Goal: an affinity that another process sets in between stays in force; a thread that exits in
/// between is gone.
#[test]
fn changes_in_between_stand() {
    let thread = Paper { told: RefCell::new(Some(cpus("1"))), ..Paper::new(false) };
    assert_eq!(thread.nudge("2-3"), Placed::Changed);
    assert_eq!(thread.now(), "1");
    let thread = Paper { ends_while_we_wait: true, ..Paper::new(false) };
    assert_eq!(thread.nudge("2-3"), Placed::Gone);
    assert_eq!(thread.nudge("2-3"), Placed::Gone, "before as well as meanwhile");
}

/// Goal: a cpuset that forbids the CPUs gives a refusal; if it no longer allows the thread's former
/// CPUs, the thread gets all that it allows.
#[test]
fn cpusets_change_too() {
    let thread = Paper { cpuset: cpus("0-1"), ..Paper::new(true) };
    assert_eq!(thread.nudge("2-3"), Placed::NotAllowed);
    assert_eq!(thread.now(), "0-3");
    let thread = Paper { cpuset: cpus("4-7"), ..Paper::new(true) };
    thread.cpus.replace(cpus("2-3"));
    let note =
        Note { pid: us(), tid: TID, before: cpus("0-3"), target: cpus("2-3"), everywhere: false };
    assert_eq!(widen(&thread, &note).unwrap(), Placed::Changed);
    assert_eq!(thread.now(), "4-7");
}

/// Goal: a thread that could run on all of its cpuset is not restored to a list of CPUs, which
/// would restrict it when the cpuset grows.
#[test]
fn a_free_thread_stays_free() {
    struct Told(Paper, RefCell<Vec<String>>);
    impl Scheduler for Told {
        fn cpus(&self, tid: u32) -> io::Result<Cpumask> {
            self.0.cpus(tid)
        }
        fn set(&self, tid: u32, cpus: &Cpumask) -> io::Result<()> {
            self.1.borrow_mut().push(cpus.to_string());
            self.0.set(tid, cpus)
        }
        fn set_all(&self, tid: u32) -> io::Result<()> {
            self.1.borrow_mut().push("all".to_owned());
            self.0.set_all(tid)
        }
        fn cpu(&self, tid: u32) -> io::Result<CpuId> {
            self.0.cpu(tid)
        }
        fn is_everywhere(&self, tid: u32, cpus: &Cpumask) -> bool {
            self.0.is_everywhere(tid, cpus)
        }
        fn wait(&self) {}
    }
    for (before, last) in [("0-7", "all"), ("0-6", "0-6")] {
        let thread = Told(Paper::new(true), RefCell::default());
        thread.0.cpus.replace(cpus(before));
        nudge(&thread, &Notes::default(), (us(), TID), &cpus("4-5")).unwrap();
        assert_eq!(*thread.1.borrow(), ["4-5", last]);
        assert_eq!(thread.0.now(), before);
    }
    let thread = Told(Paper::new(true), RefCell::default());
    pin(&thread, TID, &cpus("2")).unwrap();
    pin(&thread, TID, &cpus("0-7")).unwrap();
    assert_eq!(*thread.1.borrow(), ["2", "all"]);
}

/// Returns two CPUs of this machine; `None`, with a message, if there is only one.
fn two_cpus() -> Option<[Cpumask; 2]> {
    let all = affinity::of(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
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
    let process = Linux::open().hold(us()).unwrap();
    let worker = Worker::start(true).unwrap();
    let before = affinity::of(worker.tid).unwrap();
    for cpus in two.iter().cycle().take(20) {
        assert_eq!(process.nudge(worker.tid, cpus).unwrap(), Placed::Done);
        assert_eq!(affinity::of(worker.tid).unwrap(), before);
    }
}

/// Goal: a sleeping thread is reported as asleep and keeps its affinity; an exited one is gone; no
/// thread of another process is changed.
#[test]
fn a_real_thread_sleeps_or_ends() {
    let Some(two) = two_cpus() else { return };
    let process = Linux::open().hold(us()).unwrap();
    let mut worker = Worker::start(false).unwrap();
    let before = affinity::of(worker.tid).unwrap();
    let kernel = Kernel { root: Path::new("/"), folder: Path::new("/proc/self") };
    let sleeps = || {
        let on_first = two[0].contains(kernel.cpu(worker.tid).unwrap());
        let placed = process.nudge(worker.tid, &two[usize::from(on_first)]).unwrap();
        assert_eq!(affinity::of(worker.tid).unwrap(), before);
        assert!([Placed::Done, Placed::Asleep].contains(&placed), "{placed:?}");
        placed == Placed::Asleep
    };
    // The thread runs for a little while when it starts, and still exists for a little while when
    // it has ended.
    wait_until("the thread sleeps", sleeps);
    worker.end();
    wait_until("the thread is gone", || {
        process.nudge(worker.tid, &two[0]).unwrap() == Placed::Gone
    });
    let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get().cast_unsigned();
    assert_eq!(process.pin(parent, &two[0]).unwrap(), Placed::Gone);
}

/// Goal: a pin holds until the thread is pinned to all CPUs. An exited process is gone.
#[test]
fn pins_hold_until_they_end() {
    let Some(two) = two_cpus() else { return };
    let process = Linux::open().hold(us()).unwrap();
    let worker = Worker::start(true).unwrap();
    let before = affinity::of(worker.tid).unwrap();
    for (cpus, now) in [(&two[1], &two[1]), (&two[0], &two[0]), (&before, &before)] {
        assert_eq!(process.pin(worker.tid, cpus).unwrap(), Placed::Done);
        assert_eq!(affinity::of(worker.tid).unwrap(), *now);
    }
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let process = Linux::open().hold(Pid::new(child.id()).unwrap()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = process.nudge(child.id(), &two[0]).unwrap_err();
    assert!(matches!(gone, Error::Gone(pid) if pid.number() == child.id()), "{gone}");
}

/// The kernel, with a kill of this process at the first wait.
struct Killer(Kernel<'static>);

impl Scheduler for Killer {
    fn cpus(&self, tid: u32) -> io::Result<Cpumask> {
        self.0.cpus(tid)
    }
    fn set(&self, tid: u32, cpus: &Cpumask) -> io::Result<()> {
        self.0.set(tid, cpus)
    }
    fn set_all(&self, tid: u32) -> io::Result<()> {
        self.0.set_all(tid)
    }
    fn cpu(&self, _tid: u32) -> io::Result<CpuId> {
        Ok(CpuId(u32::MAX)) // never where it should be
    }
    fn is_everywhere(&self, tid: u32, cpus: &Cpumask) -> bool {
        self.0.is_everywhere(tid, cpus)
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
    let worker = Worker::start(false).unwrap();
    let before = affinity::of(worker.tid).unwrap();
    let process: &'static Path = Path::new(Box::leak(format!("/proc/{}", us()).into_boxed_str()));
    let end = in_child(|| {
        let notes = Notes::default();
        notes.keep_in(&path, Path::new("/")).unwrap();
        let killer = Killer(Kernel { root: Path::new("/"), folder: process });
        nudge(&killer, &notes, (us_of(process), worker.tid), &two[1]).ok();
        0
    });
    assert_eq!(end.unwrap(), End::Signal(libc::SIGKILL));
    assert_eq!(affinity::of(worker.tid).unwrap(), two[1], "as the kill left it");
    let machine = Linux::open();
    let undone = machine.keep_notes(&path).unwrap();
    assert_eq!(undone, Some(notes::Undone { pid: us(), tid: worker.tid }));
    assert_eq!(affinity::of(worker.tid).unwrap(), before);
    assert_eq!(Linux::open().keep_notes(&path).unwrap(), None);
    // A nudge that completes leaves no note.
    machine.hold(us()).unwrap().nudge(worker.tid, &two[1]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
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
    let worker = Worker::start(false).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let stat = fs::read("/proc/self/stat").unwrap();
    let started = stat::parse(&stat).unwrap().started_ticks;
    let note = Note {
        pid: us(),
        tid: worker.tid,
        before: two[0].or(&two[1]),
        target: two[1].clone(),
        everywhere: false,
    };
    affinity::set(worker.tid, &two[0]).unwrap(); // not what the note says
    fs::write(&path, notes::line(started, boot.trim(), &note)).unwrap();
    assert!(Linux::open().keep_notes(&path).unwrap().is_none());
    affinity::set(worker.tid, &two[1]).unwrap();
    for line in [
        notes::line(started + 1, boot.trim(), &note),
        notes::line(started, "another", &note),
        "nodeward-nudge 1 and nonsense".to_owned(),
    ] {
        fs::write(&path, line).unwrap();
        assert!(Linux::open().keep_notes(&path).unwrap().is_none());
    }
    assert_eq!(affinity::of(worker.tid).unwrap(), two[1]);
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
        let note = Note { pid, tid, before, target, everywhere };
        let line = notes::line(started, "boot", &note);
        prop_assert_eq!(notes::parse(&line, "boot"), Some((started, note)));
        prop_assert_eq!(notes::parse(&line, "other"), None);
        let length = (line.len() as f64 * cut) as usize;
        prop_assert_eq!(notes::parse(&line[..length], "boot"), None);
        notes::parse(&text, "boot");
    }
}
