//! How often what does not run is read.

use super::*;
use crate::watch::context::IDLE_READ_INTERVAL;

/// Goal: a process that does not run costs no file, and changes by others are still seen when its
/// turn comes.
#[test]
fn idle_processes_are_looked_at_in_turns() {
    let made = FakeRoot::new(100);
    made.run(&FakeProcessFiles::new(40));
    made.write("sys/fs/cgroup/x/cgroup.events", "populated 1\nfrozen 1\n");
    let mut watch = made.watch(&ProcessFilter::default());
    watch.snapshot().unwrap();
    let asked = || made.answers.0.lock().unwrap().asked_for_cpus;
    let before = asked();
    made.answers.0.lock().unwrap().cpus = 0b11;
    made.write("proc/40/cgroup", "0::/x\n");
    fs::remove_file(made.path("proc/40/maps")).unwrap(); // nobody reads it
    let seen = |snapshot: MachineSnapshot| {
        let process = &snapshot.processes[0];
        (process.threads[0].cpus.to_string(), process.frozen)
    };
    let looks: Vec<_> = (0..IDLE_READ_INTERVAL).map(|_| seen(watch.snapshot().unwrap())).collect();
    assert_eq!(looks[0], ("0-3".to_owned(), false));
    assert_eq!(looks.last().unwrap(), &("0-1".to_owned(), true));
    assert!(asked() - before <= 2, "in one turn of {IDLE_READ_INTERVAL}");
}

/// Goal: what others changed at a process that did not run is seen at the first sample at which it
/// runs again, if its turn would have come had it run; of one that runs, in its next turn.
#[test]
fn who_runs_again_is_read_in_full() {
    let made = FakeRoot::new(100);
    let mut program = FakeProcessFiles::new(40);
    made.run(&program);
    made.write("sys/fs/cgroup/x/cgroup.events", "populated 1\nfrozen 1\n");
    let mut watch = made.watch(&ProcessFilter::default());
    let mut frozen = || watch.snapshot().unwrap().processes[0].frozen;
    assert!(!frozen());
    program.group = "/x";
    made.run(&program);
    // Its turns while it runs are those samples whose number is a multiple of 32 less its pid of
    // 40: 24, 56, 88 and so on; the only one of the first 256 while it does not is 216.
    let looks: Vec<_> = (2..=100).map(|_| frozen()).collect();
    assert_eq!(looks, [false; 99]);
    program.threads[0].2 += 1;
    made.run(&program);
    assert!(frozen(), "sample 101 is no turn of it");
    (program.group, program.threads[0].2) = ("/", program.threads[0].2 + 1);
    made.run(&program);
    let mut runs = || {
        program.threads[0].2 += 1;
        made.run(&program);
        frozen()
    };
    let looks: Vec<_> = (102..=120).map(|_| runs()).collect();
    assert_eq!(looks.iter().position(|frozen| !frozen), Some(18), "sample 120");
}

/// Goal: a process that hardly runs counts as idle until its time adds up, and its CPU time is
/// reported all the same.
#[test]
fn slight_work_is_let_pass() {
    let made = FakeRoot::new(100);
    made.run(&FakeProcessFiles::new(40));
    let mut watch = made.watch(&ProcessFilter::default());
    watch.idle_cpu_ns_max = 10;
    watch.snapshot().unwrap();
    let mut work = |ns, cpu| {
        made.run(&FakeProcessFiles { threads: vec![(40, cpu, ns)], ..FakeProcessFiles::new(40) });
        let snapshot = watch.snapshot().unwrap();
        (snapshot.processes[0].cpu_time_ns, threads(&snapshot)[0])
    };
    assert_eq!(work(7_000_004, 2), (7_000_004, (40, 1, 7_000_000)));
    assert_eq!(work(7_000_008, 2), (7_000_008, (40, 1, 7_000_000)));
    assert_eq!(work(7_000_012, 2), (7_000_012, (40, 2, 7_000_012)), "12 ns since it was looked at");
}
