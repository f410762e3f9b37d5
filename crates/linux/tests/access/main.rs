//! Sources of accesses on this kernel, with targets whose accesses are known.

mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use nodeward_linux::Linux;
use nodeward_linux::test_wait::TestDeadline;
use nodeward_machine::{
    AccessBatch, AccessSampling, AccessSource, AccessSourceKind, Error, Machine,
};
use nodeward_model::{AccessKind, AccessSample, Accessor, Pid};
use targets::{ROLE, Target, role_without_privileges, walk};

const RATE_HZ: u32 = 1000;

/// Goal: this program again, as a target or as an observer without privileges. Without the
/// variable it does nothing.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split_once(' ') {
        Some(("walk", idle)) => walk(idle.parse().unwrap()),
        _ => observe_without_privileges(),
    }
}

/// Returns the source `registers`; `None` where perf may not be opened.
fn registers() -> Option<Box<dyn AccessSource>> {
    let opened = Linux::open().open_access_source(AccessSourceKind::Registers);
    opened.inspect_err(|error| println!("skipped: {error}")).ok()
}

fn observe(source: &mut dyn AccessSource, pids: &[Pid]) -> nodeward_machine::Result<()> {
    source.observe(&AccessSampling { pids: pids.to_vec(), rate_hz: RATE_HZ })
}

/// Takes samples until there are `least`, with or without an address.
fn take_at_least(source: &mut dyn AccessSource, least: usize) -> AccessBatch {
    let (mut all, deadline) = (AccessBatch::default(), TestDeadline::start());
    while all.samples.len() + (all.without_address as usize) < least {
        deadline.check("there are enough samples");
        std::thread::sleep(Duration::from_millis(20));
        let batch = source.take().unwrap();
        all.samples.extend(batch.samples);
        all.without_address += batch.without_address;
        all.threads_unseen = batch.threads_unseen;
        all.cpu_ns += batch.cpu_ns;
    }
    all
}

/// Checks samples of a target against what its walkers do.
fn check_against_truth(target: &Target, batch: &AccessBatch) {
    let all = batch.samples.len() as u64 + batch.without_address;
    let named = batch.samples.len() as u64;
    assert!(named * 10 >= all * 9, "{named} of {all} name an address");
    for walker in &target.walkers {
        let is_its = |sample: &&AccessSample| sample.tid == Some(walker.tid);
        let its: Vec<_> = batch.samples.iter().filter(is_its).collect();
        let own = |sample: &&&AccessSample| walker.memory.contains(&sample.access.address);
        let inside: Vec<_> = its.iter().filter(own).collect();
        let right = inside.iter().filter(|sample| sample.kind == walker.kind).count();
        let (its, inside) = (its.len(), inside.len());
        println!("{walker:?}: {inside} of {its} in its own memory, {right} of the right kind");
        assert!(its > 0, "{walker:?} was not seen");
        assert!(inside * 100 >= its * 95, "{inside} of {its} are its own");
        assert!(right * 100 >= inside * 90, "{right} of {inside} are {:?}", walker.kind);
    }
    let with_cpu = |sample: &AccessSample| matches!(sample.access.accessor, Accessor::Cpu(_));
    assert!(batch.samples.iter().all(with_cpu));
}

/// Goal: of a thread that reads and one that writes, each in its own memory, nearly every sample
/// tells an address, in the memory of that thread, and what it did there.
#[test]
fn registers_tell_who_uses_what() {
    let Some(mut source) = registers() else { return };
    let target = Target::start(0);
    observe(&mut *source, &[target.pid()]).unwrap();
    check_against_truth(&target, &take_at_least(&mut *source, 1000));
}

/// Goal: two targets are told apart; after one is no longer wanted only the other is seen, and
/// after none is, nothing.
#[test]
fn only_wanted_processes_are_seen() {
    let Some(mut source) = registers() else { return };
    let (one, two) = (Target::start(0), Target::start(0));
    let mut both = [one.pid(), two.pid()];
    both.sort();
    observe(&mut *source, &both).unwrap();
    let deadline = TestDeadline::start();
    let mut seen = BTreeSet::new();
    while seen.len() < 2 {
        deadline.check("both are seen");
        seen.extend(take_at_least(&mut *source, 1).samples.iter().map(|sample| sample.pid));
    }
    assert_eq!(seen, both.into());
    observe(&mut *source, &[two.pid()]).unwrap();
    let later = take_at_least(&mut *source, 100);
    assert!(later.samples.iter().all(|sample| sample.pid == two.pid()));
    observe(&mut *source, &[]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let nothing = AccessBatch { cpu_ns: 0, ..source.take().unwrap() };
    assert_eq!(nothing, AccessBatch::default());
}

/// Goal: two sources observe the same process at once, each as if it were alone.
#[test]
fn two_sources_do_not_disturb_each_other() {
    let (Some(mut one), Some(mut two)) = (registers(), registers()) else { return };
    let target = Target::start(0);
    observe(&mut *one, &[target.pid()]).unwrap();
    observe(&mut *two, &[target.pid()]).unwrap();
    check_against_truth(&target, &take_at_least(&mut *one, 300));
    drop(one);
    check_against_truth(&target, &take_at_least(&mut *two, 300));
}

/// Goal: targets that exit are left out without an error; when none is left nothing comes, and a
/// process that is gone cannot be observed.
#[test]
fn targets_that_exit_are_left_out() {
    let Some(mut source) = registers() else { return };
    let (mut one, mut two) = (Target::start(0), Target::start(0));
    let mut both = [one.pid(), two.pid()];
    both.sort();
    observe(&mut *source, &both).unwrap();
    take_at_least(&mut *source, 10);
    one.end();
    source.take().unwrap();
    let later = take_at_least(&mut *source, 100);
    assert!(later.samples.iter().all(|sample| sample.pid == two.pid()));
    let exited = one.pid();
    observe(&mut *source, &both).unwrap();
    two.end();
    source.take().unwrap();
    let end = source.take().unwrap();
    assert_eq!((end.samples.len(), end.without_address), (0, 0));
    assert!(matches!(observe(&mut *source, &[exited]), Err(Error::Gone(pid)) if pid == exited));
}

/// Goal: a process that calls exec while it is observed goes on to be observed, and what is told
/// after that is about its new memory.
#[test]
fn exec_while_it_is_observed() {
    let Some(mut source) = registers() else { return };
    check_exec(&mut *source);
}

fn check_exec(source: &mut dyn AccessSource) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("go on");
    let mut target = Target::start_as_shell(&file);
    observe(source, &[target.pid()]).unwrap();
    take_at_least(source, 20);
    fs::write(&file, "").unwrap();
    target.read_walkers();
    source.take().unwrap();
    check_against_truth(&target, &take_at_least(source, 500));
}

/// Goal: a process with 1,000 threads is observed, and its walkers are seen.
#[test]
fn a_thousand_threads() {
    let Some(mut source) = registers() else { return };
    let target = Target::start(1000);
    observe(&mut *source, &[target.pid()]).unwrap();
    let batch = take_at_least(&mut *source, 100);
    let walkers: BTreeSet<_> = target.walkers.iter().map(|walker| Some(walker.tid)).collect();
    let seen: BTreeSet<_> = batch.samples.iter().map(|sample| sample.tid).collect();
    println!("{} threads are not observed", batch.threads_unseen);
    assert!(batch.threads_unseen > 0 || seen.is_superset(&walkers), "{seen:?}");
}

/// Goal: with soft-dirty bits the thread that writes is seen in its own memory, and the one that
/// reads is not. A process whose bits somebody else has cleared is refused.
#[test]
fn soft_dirty_tells_who_writes() {
    let opened = Linux::open().open_access_source(AccessSourceKind::SoftDirty);
    let Ok(mut source) = opened.inspect_err(|error| println!("skipped: {error}")) else { return };
    let target = Target::start(0);
    observe(&mut *source, &[target.pid()]).unwrap();
    let batch = take_at_least(&mut *source, 1000);
    let seen = |kind| {
        let walker = target.walkers.iter().find(|walker| walker.kind == kind).unwrap();
        let is_its = |sample: &&AccessSample| {
            sample.tid == Some(walker.tid) && walker.memory.contains(&sample.access.address)
        };
        batch.samples.iter().filter(is_its).count()
    };
    let (written, read) = (seen(AccessKind::Write), seen(AccessKind::Read));
    assert!(written * 100 >= batch.samples.len() * 95 && read == 0, "{written} {read}");

    let other = Target::start(0);
    fs::write(format!("/proc/{}/clear_refs", other.pid()), "4").unwrap();
    let refused = observe(&mut *source, &[other.pid()]).unwrap_err().to_string();
    assert!(refused.contains("something else clears"), "{refused}");
}

/// Goal: each source that says that it works can be opened, and each other says why not, with an
/// error that has the same words.
#[test]
fn what_works_can_be_opened() {
    let machine = Linux::open();
    let statuses = machine.access_sources();
    assert_eq!(statuses.len(), 5);
    for status in statuses {
        let opened = machine.open_access_source(status.kind);
        println!("{}: {:?}", status.kind, status.obstacle);
        match (&status.obstacle, opened) {
            (None, Ok(source)) => assert_eq!(source.kind(), status.kind),
            (Some(obstacle), Err(error)) => {
                let reason = obstacle.trim_start_matches("it is not permitted: ");
                assert!(error.to_string().contains(reason), "{error}: {obstacle}");
            }
            (obstacle, opened) => panic!("{}: {obstacle:?}, {}", status.kind, opened.is_ok()),
        }
    }
}

/// Goal: a user without privileges observes threads of own processes, where the kernel allows that
/// at all, as exactly as root, and through exec; and of a process with more threads than it may
/// observe it is told how many are missing.
#[test]
fn without_privileges() {
    let mut observer = role_without_privileges("observe");
    let output = match observer.output() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return println!("skipped: nobody may not run this program: {error}");
        }
        output => output.unwrap(),
    };
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn observe_without_privileges() {
    let Some(mut source) = registers() else { return };
    let target = Target::start(0);
    observe(&mut *source, &[target.pid()]).unwrap();
    check_against_truth(&target, &take_at_least(&mut *source, 1000));
    check_exec(&mut *source);
    drop(target);
    let many = Target::start(1000);
    if let Err(error) = observe(&mut *source, &[many.pid()]) {
        return println!("with 1004 threads: {error}");
    }
    let unseen = source.take().unwrap().threads_unseen;
    println!("{unseen} of 1004 threads are not observed");
    // 1000 idle ones, the walkers, and the first thread and that of the test; at most 512 are seen.
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let sees_cpus = paranoid.trim().parse::<i32>().unwrap() <= 0;
    assert!(sees_cpus || unseen >= 1004 - 512, "{unseen}");
}
