//! Hot pages of a running process as reported by DAMON and soft-dirty bits, and the clean-up
//! afterwards.

use std::cell::{Cell, OnceCell};
use std::env;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_linux::Linux;
use nodeward_linux::hot::{RegionAccess, damon, soft_dirty};
use nodeward_machine::{Error, Machine, Process};
use nodeward_model::{Pid, Range};
use rustix::process::{Signal, getpid, kill_process};

use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{UNPRIVILEGED_USER, read, wait_until, write};
use crate::load::LoadProcess;

pub const CASES: [(&str, CaseFn); 12] = [
    ("damon_finds_what_is_hot", damon_finds_what_is_hot),
    ("damon_stat_is_left_alone", damon_stat_is_left_alone),
    ("damon_of_others_is_left_alone", damon_of_others_is_left_alone),
    ("damon_target_ends", damon_target_ends),
    ("damon_after_a_kill", damon_after_a_kill),
    ("damon_killed", damon_killed),
    ("damon_without_privilege", damon_without_privilege),
    ("damon_denied", damon_denied),
    ("written_exactly", written_exactly),
    ("written_kinds", written_kinds),
    ("written_target_ends", written_target_ends),
    ("written_without_privilege", written_without_privilege),
];

const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const DAMON_STAT: &str = "/sys/module/damon_stat/parameters/enabled";
/// Variable that names the target to a case that runs in a process of its own.
const TARGET: &str = "NODEWARD_TRIAL_TARGET";
const SECOND_NS: u64 = 1_000_000_000;
const PAGE: usize = 4096;

fn root() -> &'static Path {
    Path::new("/")
}

fn hold(pid: u32) -> Arc<dyn Process> {
    Linux::open().open_process(Pid::new(pid).expect("a pid")).expect("our child can be held")
}

fn watch_damon(load: &LoadProcess, stop: &dyn Fn() -> bool) -> Result<Vec<RegionAccess>, Error> {
    damon::watch(root(), &*hold(load.pid()), 3 * SECOND_NS, stop)
}

/// Makes DAMON available: newer kernels use it themselves unless told not to.
fn free_damon() -> Result<(), CaseSkipped> {
    if Path::new(DAMON_STAT).exists() {
        write(DAMON_STAT, "N");
    }
    damon::probe(root()).map_err(|error| CaseSkipped(error.to_string()))
}

fn assert_nothing_is_set_up() {
    assert_eq!(read(&format!("{KDAMONDS}/nr_kdamonds")).trim(), "0");
    let entries = fs::read_dir(KDAMONDS).expect("the folder of DAMON").flatten();
    assert_eq!(entries.filter(|entry| entry.path().is_dir()).count(), 0);
}

/// Checks that a source was refused with these words, and not for lack of a privilege.
fn assert_unsupported(answer: Result<Vec<RegionAccess>, Error>, words: &str) {
    let error = answer.expect_err("it is refused");
    println!("refused: {error}");
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    assert!(error.to_string().contains(words), "{error}");
}

/// Returns the accesses per thousand samples of a page, on average over a range.
fn samples_permille(seen: &[RegionAccess], range: Range) -> u64 {
    let weighted = seen.iter().filter_map(|part| {
        let bytes = part.range.intersection(range)?.bytes();
        Some(bytes * part.accesses * 1000 / part.samples)
    });
    weighted.sum::<u64>() / range.bytes()
}

/// Goal: memory that a process writes all the time is reported as much hotter than the rest, and
/// nothing remains in sysfs. DAMON detects an access when a translation is loaded, and does not
/// flush loaded ones; an emulated CPU keeps them until another event flushes them. A thread of the
/// target therefore frees pages all the time; freeing more than 33 at once flushes all
/// (tlb_single_page_flush_ceiling). How often that thread runs is chance, and how well regions fit,
/// too: the case watches until it succeeds once.
fn damon_finds_what_is_hot() -> CaseOutcome {
    free_damon()?;
    let load =
        LoadProcess::start("--node 0 --size 64MiB --hot 16MiB --race discard --race-size 256KiB");
    let (all, hot) = (load.range(), load.hot());
    wait_until("what is hot is told to be", || {
        let seen = watch_damon(&load, &|| false).expect("it can be watched");
        assert_nothing_is_set_up();
        let [hot, below, above] = [
            samples_permille(&seen, Range::new(hot.start, hot.end)),
            samples_permille(&seen, Range::new(all.start, hot.start)),
            samples_permille(&seen, Range::new(hot.end, all.end)),
        ];
        println!("{} parts; accesses in 1000 samples: {below}, {hot}, {above}", seen.len());
        hot > 3 * below.max(above)
    });
    load.end();
    Ok(())
}

/// Goal: the kernel's own use of DAMON is not disturbed, and the error says what to do.
fn damon_stat_is_left_alone() -> CaseOutcome {
    if !Path::new(DAMON_STAT).exists() {
        return Err(CaseSkipped(format!("this kernel has no {DAMON_STAT}")));
    }
    write(DAMON_STAT, "Y");
    let load = LoadProcess::start("--node 0 --size 1MiB");
    assert_unsupported(watch_damon(&load, &|| false), &format!("echo N > {DAMON_STAT}"));
    assert_eq!(read(DAMON_STAT).trim(), "Y");
    assert_nothing_is_set_up();
    load.end();
    Ok(())
}

/// Goal: neither another program nor another nodeward that uses DAMON is disturbed; a context that
/// a program left switched off is no obstacle.
fn damon_of_others_is_left_alone() -> CaseOutcome {
    free_damon()?;
    let load = LoadProcess::start("--node 0 --size 1MiB");
    let set = |name: &str, text: &str| write(&format!("{KDAMONDS}/{name}"), text);
    set("nr_kdamonds", "1");
    set("0/contexts/nr_contexts", "1");
    set("0/contexts/0/operations", "vaddr");
    set("0/contexts/0/targets/nr_targets", "1");
    set("0/contexts/0/targets/0/pid_target", &load.pid().to_string());
    set("0/state", "on");
    assert_unsupported(watch_damon(&load, &|| false), "another program");
    assert_eq!(read(&format!("{KDAMONDS}/0/state")).trim(), "on");
    set("0/state", "off");
    watch_damon(&load, &|| true).expect("what is off is in nobody's way");
    assert_nothing_is_set_up();

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| watch_damon(&load, &|| done.load(Relaxed)));
        wait_until("the first one watches", || {
            fs::read_to_string(format!("{KDAMONDS}/0/state")).is_ok_and(|text| text == "on\n")
        });
        assert_unsupported(watch_damon(&load, &|| false), "another nodeward");
        done.store(true, Relaxed);
        first.join().expect("no panic").expect("the first one is not disturbed");
    });
    assert_nothing_is_set_up();
    load.end();
    Ok(())
}

/// Returns a stop condition that sends a signal when it is checked for the second time, and never
/// stops.
fn signal_in_the_middle(load: &LoadProcess, signal: Signal) -> impl Fn() -> bool {
    let asked = Cell::new(0);
    move || {
        asked.set(asked.get() + 1);
        if asked.get() == 2 {
            load.signal(signal);
        }
        false
    }
}

/// Goal: a process that ends, or becomes another program, in the middle is gone, and nothing
/// remains.
fn damon_target_ends() -> CaseOutcome {
    free_damon()?;
    for signal in [Signal::KILL, Signal::HUP] {
        let load = LoadProcess::start("--node 0 --size 1MiB");
        let ended = watch_damon(&load, &signal_in_the_middle(&load, signal));
        assert!(ended.expect_err("it is gone").is_gone());
        assert_nothing_is_set_up();
    }
    Ok(())
}

/// Goal: after a kill, the next nodeward recognizes the remaining context as its own and removes
/// it.
fn damon_after_a_kill() -> CaseOutcome {
    free_damon()?;
    let load = LoadProcess::start("--node 0 --size 1MiB");
    let mut us = ourselves("damon_killed");
    let ended = us.env(TARGET, load.pid().to_string()).status().expect("we start ourselves");
    assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()));
    assert_eq!(read(&format!("{KDAMONDS}/0/state")).trim(), "on");
    damon::probe(root()).expect("it is ours");
    watch_damon(&load, &|| true).expect("it is cleared");
    assert_nothing_is_set_up();
    load.end();
    Ok(())
}

/// Not a case of its own: is killed while it watches.
fn damon_killed() -> CaseOutcome {
    let target =
        env::var(TARGET).map_err(|_| CaseSkipped("a part of damon_after_a_kill".to_owned()))?;
    let process = hold(target.parse().expect("a pid"));
    let ended = damon::watch(root(), &*process, SECOND_NS, &|| {
        kill_process(getpid(), Signal::KILL).is_err()
    });
    panic!("we live: {ended:?}");
}

/// Goal: a user who may not write the files of DAMON is told so, and what to do.
fn damon_without_privilege() -> CaseOutcome {
    free_damon()?;
    assert!(run_as_somebody("damon_denied").success());
    Ok(())
}

/// Not a case of its own: runs without privileges.
fn damon_denied() -> CaseOutcome {
    let error = damon::probe(root()).expect_err("only root may");
    assert!(error.is_permission() && error.to_string().contains("run as root"), "{error}");
    Ok(())
}

fn ourselves(case: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("we have a path"));
    command.arg(case);
    command
}

fn run_as_somebody(case: &str) -> ExitStatus {
    ourselves(case)
        .uid(UNPRIVILEGED_USER)
        .gid(UNPRIVILEGED_USER)
        .status()
        .expect("we start ourselves")
}

fn soft_dirty() -> Result<(), CaseSkipped> {
    soft_dirty::probe(root()).map_err(|error| CaseSkipped(error.to_string()))
}

/// Returns the ranges that a load writes, over the time until it has written to each hot page.
fn written_by(load: &LoadProcess) -> Vec<Range> {
    let before = OnceCell::new();
    let each_changed = || {
        let now = hot_bytes(load);
        let pages = before.get_or_init(|| now.clone()).chunks(PAGE).zip(now.chunks(PAGE));
        pages.into_iter().all(|(before, now)| before != now)
    };
    written_until(load, 60 * SECOND_NS, &each_changed)
}

/// Returns the content of the memory that a load writes to, without writing to it.
fn hot_bytes(load: &LoadProcess) -> Vec<u8> {
    let memory = fs::File::open(format!("/proc/{}/mem", load.pid())).expect("its memory");
    let hot = load.hot();
    let mut bytes = vec![0; (hot.end - hot.start) as usize];
    memory.read_exact_at(&mut bytes, hot.start).expect("its memory can be read");
    bytes
}

fn written_until(load: &LoadProcess, most_ns: u64, stop: &dyn Fn() -> bool) -> Vec<Range> {
    let seen = soft_dirty::watch(&*hold(load.pid()), most_ns, stop).expect("it can be watched");
    let all = Range::new(load.range().start, load.range().end);
    let inside: Vec<Range> = seen.iter().filter_map(|part| part.range.intersection(all)).collect();
    println!("{} ranges, of them in the memory: {inside:x?}", seen.len());
    inside
}

/// Goal: exactly the written pages are found, also when watching twice.
fn written_exactly() -> CaseOutcome {
    soft_dirty()?;
    let load = LoadProcess::start("--node 0 --size 64MiB --hot 1MiB");
    let hot = [Range::new(load.hot().start, load.hot().end)];
    assert_eq!(written_by(&load), hot);
    assert_eq!(written_by(&load), hot);
    load.end();
    let idle = LoadProcess::start("--node 0 --size 8MiB --threads 0");
    assert_eq!(written_until(&idle, SECOND_NS / 4, &|| false), []);
    idle.end();
    Ok(())
}

/// Goal: the same holds for other kinds of memory; a huge page counts as a whole; nothing is
/// reported for hugetlb pages.
fn written_kinds() -> CaseOutcome {
    soft_dirty()?;
    for kind in ["shared", "file", "page-cache", "mlocked", "thp"] {
        let load = LoadProcess::start(&format!("--node 0 --size 8MiB --hot 2MiB --kind {kind}"));
        println!("{kind}, {:?} bytes in huge pages", load.ready.huge_bytes);
        let hot = Range::new(load.hot().start, load.hot().end);
        // 2 MiB in the middle of 8 MiB touch two huge pages.
        let whole = hot.whole_pages(2 << 20);
        let expected = match (kind, load.ready.huge_bytes) {
            ("thp", Some(bytes)) if bytes >= 8 << 20 => vec![whole],
            ("thp", _) => vec![whole, hot], // huge pages may come later
            _ => vec![hot],
        };
        let written = written_by(&load);
        assert!(expected.iter().any(|range| written == [*range]), "{kind}: {written:x?}");
        load.end();
    }
    if crate::guest::huge_pages(0, 4) == 4 {
        let load = LoadProcess::start("--node 0 --size 8MiB --kind hugetlb");
        assert_eq!(written_by(&load), []);
        load.end();
    }
    Ok(())
}

/// Goal: a process that ends, or becomes another program, in the middle is gone.
fn written_target_ends() -> CaseOutcome {
    soft_dirty()?;
    for signal in [Signal::KILL, Signal::HUP] {
        let load = LoadProcess::start("--node 0 --size 1MiB");
        let stop = signal_in_the_middle(&load, signal);
        let ended = soft_dirty::watch(&*hold(load.pid()), 10 * SECOND_NS, &stop);
        assert!(ended.expect_err("it is gone").is_gone());
    }
    Ok(())
}

/// Goal: for processes of the same user no privilege is needed.
fn written_without_privilege() -> CaseOutcome {
    soft_dirty()?;
    assert!(run_as_somebody("written_exactly").success());
    Ok(())
}
