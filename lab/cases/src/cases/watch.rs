//! `nodeward watch` beside what moved: its counts are those of the movers and of the kernel.

use std::ffi::CString;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use nodeward_linux::Linux;
use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};
use nodeward_machine::{Machine as _, MovePagesCall, Process};
use nodeward_model::{NodeId, PageLocation, Pid, Range};
use rustix::process::{Signal, kill_process};
use serde::Deserialize;
use serde_json::json;

use super::kinds_special::{HUGE_BYTES, huge_pages_of};
use crate::balancer::{NUMA_BALANCING, disable_numa_balancing};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::confined::without_calls;
use crate::guest::{
    UNPRIVILEGED_USER, is_kernel, pin_this_thread, read, set_affinity, vmstat, wait_until, write,
};
use crate::load::LoadProcess;
use crate::nodeward::{CommandOutput, RunningMove, move_load, nodeward, nodeward_as, run_command};

pub const CASES: [(&str, CaseFn); 10] = [
    ("watch_counts_what_moves", counts_what_moves),
    ("watch_counts_huge_pages", counts_huge_pages),
    ("watch_counts_tlb_flushes", counts_tlb_flushes),
    ("watch_holds_as_threads_wait", holds_as_threads_wait),
    ("watch_counts_numa_balancing", counts_numa_balancing),
    ("watch_of_a_process", of_a_process),
    ("watch_with_too_many_callers", with_too_many_callers),
    ("watch_tells_what_is_missing", tells_what_is_missing),
    ("watch_leaves_nothing", leaves_nothing),
    ("watch_without_programs", without_programs),
];

/// A round of a watch, as `--json` prints it.
#[derive(Debug, Deserialize)]
struct WatchJson {
    source: String,
    ended: Option<String>,
    total: PeriodJson,
}

#[derive(Debug, Deserialize)]
struct PeriodJson {
    movers: Vec<MoverJson>,
    lost: LostJson,
}

#[derive(Debug, Deserialize)]
struct MoverJson {
    mover: String,
    calls: Option<u64>,
    moved_pages: Option<u64>,
    thp: Option<ThpJson>,
    tlb_flushes: Option<u64>,
    held: Option<HeldJson>,
    callers: Vec<CallerJson>,
}

#[derive(Debug, Deserialize)]
struct ThpJson {
    moved: u64,
    failed: u64,
    split: u64,
}

#[derive(Debug, Deserialize)]
struct HeldJson {
    entries: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

#[derive(Debug, Deserialize)]
struct CallerJson {
    pid: u32,
    name: String,
    calls: u64,
    moved_pages: u64,
}

#[derive(Debug, Deserialize)]
struct LostJson {
    callers: u64,
    starts: u64,
    holds: u64,
    runs: u64,
}

impl WatchJson {
    /// Returns the last round of a watch.
    fn last(output: &CommandOutput) -> Self {
        let line = output.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    fn mover(&self, name: &str) -> &MoverJson {
        let found = self.total.movers.iter().find(|it| it.mover == name);
        found.unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    fn moved_pages(&self) -> u64 {
        self.total.movers.iter().filter_map(|it| it.moved_pages).sum()
    }

    fn assert_nothing_lost(&self) {
        let LostJson { callers, starts, holds, runs } = self.total.lost;
        assert_eq!((callers, starts, holds, runs), (0, 0, 0, 0));
    }
}

/// A watch of one round that a signal ends.
struct Watch(RunningMove);

impl Watch {
    fn start(words: &str) -> Self {
        let running = RunningMove::of_verb(&format!("watch --interval 3600s --json {words}"));
        wait_until("it watches", || running.takes_signals());
        Self(running)
    }

    fn end(self) -> WatchJson {
        self.0.signal(Signal::INT);
        let output = self.0.finish();
        assert_eq!((output.code, output.stderr.as_str()), (130, ""), "{output:?}");
        let seen = WatchJson::last(&output);
        assert_eq!((&*seen.source, seen.ended.as_deref()), ("bpf", Some("stopped")));
        seen
    }
}

fn migratepages(pid: u32) -> CommandOutput {
    run_command(Command::new("migratepages").args([&pid.to_string(), "0", "1"]))
}

/// Goal: what the watch counts is what was moved, page for page: by `nodeward move` of 16 MiB what
/// its account has, 16 MiB / 4 KiB = 4096 pages; by `migratepages` of a whole process what the
/// kernel counted meanwhile, no less; and all movers together are all that the kernel counted. Each
/// page was held at least once. (An account counts addresses, and a program may map a page of its
/// file at two: hence the range.)
fn counts_what_moves() -> CaseOutcome {
    disable_numa_balancing()?;
    let loads = ["", ""].map(|_| LoadProcess::start("--node 0 --size 16MiB --threads 0"));
    let before = vmstat("pgmigrate_success");
    let watch = Watch::start("");
    // By one worker: where two tasks are in calls, the kernel may miss an event of one.
    let words = format!("0 1 --jobs 1 --range {}", loads[0].ready.range);
    let ours = move_load(&loads[0], &words).report_after_exit(0).account.moved;
    let between = vmstat("pgmigrate_success");
    let theirs = migratepages(loads[1].pid());
    assert_eq!(theirs.code, 0, "{theirs:?}");
    let after = vmstat("pgmigrate_success");
    let seen = watch.end();

    let syscall = seen.mover("syscall");
    let by = |is_it: fn(&CallerJson) -> bool| -> u64 {
        syscall.callers.iter().filter(|it| is_it(it)).map(|it| it.moved_pages).sum()
    };
    let counted = by(|it| it.name != "migratepages");
    println!("watch.missed {}", json!({ "measured": counted.abs_diff(ours), "unit": "pages" }));
    assert_eq!((counted, ours), (4096, 4096), "{seen:?}");
    assert_eq!(by(|it| it.name == "migratepages"), after - between, "{seen:?}");
    assert!(after - between >= 4096, "{seen:?}");
    assert_eq!(syscall.moved_pages, Some(ours + after - between));
    assert_eq!(seen.moved_pages(), vmstat("pgmigrate_success") - before, "{seen:?}");
    let calls = syscall.callers.iter().map(|it| it.calls).sum();
    assert_eq!(syscall.calls, Some(calls));
    assert_held(syscall, ours + after - between);
    seen.assert_nothing_lost();
    for load in loads {
        load.end();
    }
    Ok(())
}

/// Checks the times for which at least so many entries were in place of pages.
fn assert_held(mover: &MoverJson, entries: u64) {
    let held = mover.held.as_ref().expect("this kernel has the tracepoints");
    assert!(held.entries >= entries, "{mover:?}");
    assert!(0 < held.p50_ns && held.p50_ns <= held.p99_ns, "{mover:?}");
    assert!(held.p99_ns <= held.max_ns, "{mover:?}");
}

/// Goal: 64 MiB in huge pages of 2 MiB are 32 that moved whole: none failed, none was split.
fn counts_huge_pages() -> CaseOutcome {
    disable_numa_balancing()?;
    let load = LoadProcess::start("--node 0 --size 64MiB --kind thp --threads 0");
    let watch = Watch::start("");
    let moved = move_load(&load, &format!("0 1 --jobs 1 --range {}", load.ready.range));
    let moved = moved.report_after_exit(0).account.moved;
    let seen = watch.end();
    let syscall = seen.mover("syscall");
    assert_eq!((moved, syscall.moved_pages), (16384, Some(16384)), "64 MiB / 4 KiB: {seen:?}");
    let ThpJson { moved, failed, split } = syscall.thp.as_ref().expect("the kernel tells");
    assert_eq!((*moved, *failed, *split), (32, 0, 0), "{seen:?}");
    assert_held(syscall, 32);
    load.end();
    Ok(())
}

/// Goal: while pages move that a thread of another CPU uses, that CPU is asked to flush its TLB: at
/// least once, and at most once for each page, as it is on 6.1. From Linux 6.3 on the kernel
/// flushes once for up to 512 pages; here for 64 at least.
fn counts_tlb_flushes() -> CaseOutcome {
    disable_numa_balancing()?;
    let load = LoadProcess::start("--node 0 --unbind --size 16MiB");
    set_affinity(load.pid(), &[1]);
    pin_this_thread(&[0]);
    let watch = Watch::start("");
    let words = format!("0 1 --jobs 1 --range {}", load.ready.range);
    let moved = move_load(&load, &words).report_after_exit(0).account.moved;
    let seen = watch.end();
    pin_this_thread(&[0, 1]);
    assert_eq!(moved, 4096, "16 MiB / 4 KiB");
    let flushes = seen.mover("syscall").tlb_flushes.expect("this kernel has the tracepoint");
    println!("watch.flushes {}", json!({ "measured": flushes as f64 * 1e3 / moved as f64 }));
    let most = if is_kernel("6.1") { moved } else { 64 };
    assert!((1..=most).contains(&flushes), "{seen:?}");
    load.end();
    Ok(())
}

/// Goal: threads wait at least as long as a watch tells, but for the width of its buckets. A huge
/// page goes to and fro a hundred times, and a thread on another CPU, which reads it all the time,
/// measures the longest read during each move. How much longer it waits until it runs again is the
/// host's.
fn holds_as_threads_wait() -> CaseOutcome {
    disable_numa_balancing()?;
    let us = Linux::open().open_process(Pid::of_this_process()).expect("we are there");
    let area = MappedArea::map(2 * HUGE_BYTES, AreaBacking::Anonymous).expect("room");
    area.advise(AreaAdvice::HugePages).expect("the kernel has huge pages");
    let (address, words) = huge_pages_of(&area);
    words[0].store(1, Ordering::Relaxed);
    let watch = Watch::start(&std::process::id().to_string());
    let reads = LongestRead::default();
    let waits = thread::scope(|scope| {
        let mover = scope.spawn(|| {
            pin_this_thread(&[0]);
            let first = node_of(&*us, address);
            let nodes = (1..=100).map(|number| (first + number) % 2);
            nodes.map(|node| reads.longest_ns(|| move_page(&*us, address, node))).collect()
        });
        pin_this_thread(&[1]);
        while !mover.is_finished() {
            reads.read(&words[0]);
        }
        let waits: Vec<u64> = mover.join().expect("the page moves");
        waits
    });
    pin_this_thread(&[0, 1]);
    let seen = watch.end();
    let syscall = seen.mover("syscall");
    let held = syscall.held.as_ref().expect("this kernel has the tracepoints");
    assert_eq!((held.entries, syscall.thp.as_ref().map(|thp| thp.moved)), (100, Some(100)));
    for (percent, held_ns) in [(50, held.p50_ns), (99, held.p99_ns)] {
        println!("{percent} %: held {held_ns} ns, waited {} ns", percentile(&waits, percent));
    }
    assert!(held.p50_ns <= percentile(&waits, 50) * 11 / 10, "{waits:?}: {seen:?}");
    Ok(())
}

/// The reads of a word by a thread that does nothing else.
#[derive(Default)]
struct LongestRead {
    reads: AtomicU64,
    longest_ns: AtomicU64,
}

impl LongestRead {
    fn read(&self, word: &AtomicU64) {
        let began = Instant::now();
        word.load(Ordering::Relaxed);
        let took_ns = u64::try_from(began.elapsed().as_nanos()).expect("less than a century");
        self.longest_ns.fetch_max(took_ns, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Release);
    }

    /// Returns the time of the longest read while something happens. One that is under way at its
    /// end counts, too.
    fn longest_ns(&self, action: impl FnOnce()) -> u64 {
        self.longest_ns.store(0, Ordering::Relaxed);
        action();
        let reads = self.reads.load(Ordering::Acquire);
        wait_until("a read is over", || self.reads.load(Ordering::Acquire) > reads + 1);
        self.longest_ns.load(Ordering::Relaxed)
    }
}

/// Returns the value that so many of a hundred are not above.
fn percentile(values: &[u64], percent: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percent).div_ceil(100) - 1]
}

/// Returns the node, 0 or 1, of a page of ours.
fn node_of(us: &dyn Process, address: u64) -> u32 {
    let mut places = Vec::new();
    us.locations(Range::new(address, address + 4096), &mut places).expect("our own page");
    u32::from(places == [PageLocation::On(NodeId(1))])
}

fn move_page(us: &dyn Process, address: u64, node: u32) {
    let mut call = MovePagesCall::new(false);
    call.push(address, NodeId(node));
    us.move_pages(&call).expect("our own page");
}

/// Goal: what NUMA balancing moves has the process that touches it as its caller, and is counted
/// but for events that are told as missed, a page each: of 16 MiB whose thread goes to the other
/// node, at least a quarter, 1024 pages.
fn counts_numa_balancing() -> CaseOutcome {
    disable_numa_balancing()?;
    pin_this_thread(&[0]);
    let load = LoadProcess::start("--node 0 --unbind --size 16MiB");
    pin_this_thread(&[0, 1]);
    let watch = Watch::start("");
    let before = vmstat("numa_pages_migrated");
    let moved = || vmstat("numa_pages_migrated") - before;
    write(NUMA_BALANCING, "1");
    set_affinity(load.pid(), &[1]);
    wait_until("pages follow the thread", || moved() >= 1024);
    let pid = load.pid();
    load.end();
    write(NUMA_BALANCING, "0");
    let at_least = moved();
    let seen = watch.end();
    let numa = seen.mover("numa_misplaced");
    let counted = numa.moved_pages.expect("programs count pages");
    assert!(counted + seen.total.lost.runs >= at_least && counted <= moved(), "{seen:?}");
    assert!(numa.callers.iter().any(|it| it.pid == pid && it.moved_pages > 0), "{seen:?}");
    Ok(())
}

/// A program that stops itself, and becomes `migratepages` when it goes on.
fn start_stopped(target: u32) -> Child {
    let words = format!("kill -STOP $$; exec migratepages {target} 0 1");
    let child = Command::new("sh").args(["-c", &words]).process_group(0).spawn();
    let child = child.expect("sh starts");
    wait_until("it stops", || read(&format!("/proc/{}/stat", child.id())).contains(") T "));
    child
}

/// Goal: of one process only its own calls count: those of a `migratepages`, but neither of a
/// `nodeward move` meanwhile, nor the moves of its target by another. The watch ends with the
/// process.
fn of_a_process() -> CaseOutcome {
    disable_numa_balancing()?;
    let [target, other] = ["", ""].map(|_| LoadProcess::start("--node 0 --size 4MiB --threads 0"));
    let mut mover = start_stopped(target.pid());
    let words = format!("watch --interval 100ms --json {}", mover.id());
    let watch = RunningMove::of_verb(&words);
    wait_until("it watches", || watch.takes_signals());
    let of_target = Watch::start(&target.pid().to_string());

    move_load(&other, "0 1").report_after_exit(0);
    let before = vmstat("pgmigrate_success");
    kill_process(rustix::process::Pid::from_child(&mover), Signal::CONT).expect("our child");
    assert!(mover.wait().expect("our child").success());
    let moved = vmstat("pgmigrate_success") - before;

    let output = watch.finish();
    assert_eq!(output.code, 0, "{output:?}");
    let seen = WatchJson::last(&output);
    assert_eq!(seen.ended.as_deref(), Some("gone"));
    assert_eq!((seen.mover("syscall").moved_pages, seen.moved_pages()), (Some(moved), moved));
    assert!(moved >= 1024, "4 MiB / 4 KiB: {seen:?}");
    let callers = &seen.mover("syscall").callers;
    assert!(callers.iter().all(|it| it.pid == mover.id()), "{callers:?}");
    assert_eq!(of_target.end().moved_pages(), 0, "it called nothing itself");
    target.end();
    other.end();
    Ok(())
}

/// Goal: more callers than the map holds, 1024, are counted all the same, and those that are not
/// named are told: a thread that calls itself by 1100 names and moves a page each time.
fn with_too_many_callers() -> CaseOutcome {
    disable_numa_balancing()?;
    const NAMES: u64 = 1100;
    let us = Linux::open().open_process(Pid::of_this_process()).expect("we are there");
    let area = MappedArea::map(4096, AreaBacking::Anonymous).expect("address space is free");
    area.words()[0].store(1, Ordering::Relaxed);
    let address = area.address();
    let mut node = node_of(&*us, address);
    let watch = Watch::start(&std::process::id().to_string());
    for number in 0..NAMES {
        name_this_thread(&format!("caller-{number}"));
        node = 1 - node;
        move_page(&*us, address, node);
    }
    name_this_thread("nodeward-cases");
    let seen = watch.end();
    let syscall = seen.mover("syscall");
    assert_eq!((syscall.calls, syscall.moved_pages), (Some(NAMES), Some(NAMES)), "{seen:?}");
    assert_eq!((syscall.callers.len(), seen.total.lost.callers), (1024, NAMES - 1024));
    Ok(())
}

fn name_this_thread(name: &str) {
    let name = CString::new(name).expect("a name without zeros");
    rustix::thread::set_name(&name).expect("a thread may have any name");
}

/// Goal: on a kernel that has tracepoints neither of migration entries nor of the start of a call,
/// each of these is named once, what they would tell is unknown, and 4 MiB / 4 KiB = 1024 pages are
/// counted all the same, with their caller.
fn tells_what_is_missing() -> CaseOutcome {
    disable_numa_balancing()?;
    let load = LoadProcess::start("--node 0 --size 4MiB --threads 0");
    let running = RunningMove::of_verb("watch --interval 3600s --json");
    wait_until("it watches", || running.takes_signals());
    move_load(&load, &format!("0 1 --range {}", load.ready.range)).report_after_exit(0);
    running.signal(Signal::INT);
    let output = running.finish();
    assert_eq!((output.code, output.stderr.lines().count()), (130, 3), "{output:?}");
    for name in ["remove_migration_pte", "remove_migration_pmd", "mm_migrate_pages_start"] {
        assert!(output.stderr.contains(&format!("no tracepoint {name}")), "{output:?}");
    }
    let seen = WatchJson::last(&output);
    let syscall = seen.mover("syscall");
    assert_eq!((&*seen.source, syscall.moved_pages), ("bpf", Some(1024)), "{seen:?}");
    assert!(syscall.held.is_none() && syscall.thp.is_some(), "{seen:?}");
    assert_eq!(syscall.callers.iter().map(|it| it.moved_pages).sum::<u64>(), 1024, "{seen:?}");
    load.end();
    Ok(())
}

/// Goal: while it watches, the capabilities of loading are gone; however it ends, by Ctrl-C,
/// SIGTERM or SIGKILL, the kernel has none of its programs afterwards.
fn leaves_nothing() -> CaseOutcome {
    let has_program = || read("/proc/kallsyms").contains("_migrate_end\t[bpf]");
    assert!(!has_program());
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let watch = Watch::start("");
        assert!(has_program());
        let [admin, perfmon, bpf] = [21, 38, 39].map(|capability| 1_u64 << capability);
        assert_eq!(watch.0.capabilities() & (admin | perfmon | bpf), 0);
        watch.0.signal(signal);
        wait_until("the programs are gone", || !has_program());
    }
    Ok(())
}

/// The number of bpf(2).
const BPF: i64 = if cfg!(target_arch = "x86_64") { 321 } else { 280 };

/// Goal: in a container that forbids bpf(2), and for a user without capabilities, a move is still
/// counted, by /proc/vmstat, and one line says what is missing and why. Single processes are
/// refused.
fn without_programs() -> CaseOutcome {
    disable_numa_balancing()?;
    let load = LoadProcess::start("--node 0 --size 4MiB --threads 0");
    let words = "watch --for 300ms --interval 100ms --json";
    for (output, why) in [
        (without_calls(&[BPF], || nodeward(words)), "seccomp filter"),
        (nodeward_as(UNPRIVILEGED_USER, words), "CAP_BPF and CAP_PERFMON"),
    ] {
        assert_eq!((output.code, output.stderr.lines().count()), (0, 1), "{output:?}");
        assert!(
            output.stderr.contains(why) && output.stderr.contains("/proc/vmstat"),
            "{output:?}"
        );
        let seen = WatchJson::last(&output);
        assert_eq!((&*seen.source, seen.ended.as_deref()), ("vmstat", Some("time")));
    }
    let running = without_calls(&[BPF], || RunningMove::of_verb("watch --interval 3600s --json"));
    wait_until("it watches", || running.takes_signals());
    let words = format!("0 1 --range {}", load.ready.range);
    let moved = move_load(&load, &words).report_after_exit(0).account.moved;
    assert_eq!(moved, 1024, "4 MiB / 4 KiB");
    running.signal(Signal::INT);
    let seen = WatchJson::last(&running.finish());
    assert_eq!(seen.mover("all").moved_pages, Some(moved), "{seen:?}");
    assert!(seen.mover("all").held.is_none() && seen.mover("all").callers.is_empty());
    let refused = without_calls(&[BPF], || nodeward(&format!("watch {}", load.pid())));
    refused.assert_refused(4, &["calls of single processes cannot be counted", "bpf(2)"]);
    load.end();
    Ok(())
}
