//! Test bodies that read processes and nudge their threads.
//!
//! A scheduler may place a thread with a wide affinity on any CPU, and may move it away again
//! directly after a nudge. So bodies that wait for a state sample it several times, and they count
//! samples instead of reading a clock.

use nodeward_model::{
    AffinityOutcome, CpuId, Cpumask, MachineSnapshot, Name, NumaActivity, Pid, ProcessFilter,
    ProcessSnapshot, ThreadSnapshot,
};

use crate::{Error, Machine, Process, ProcessWatch};

/// The input of a test body.
pub struct WatchFixture<'a> {
    /// The machine.
    pub machine: &'a dyn Machine,
    /// A running process without memory policies, whose threads may run on the CPUs of both sets.
    pub pid: Pid,
    /// Its name.
    pub name: Name,
    /// A thread of the process that is always runnable.
    pub busy_tid: u32,
    /// Two disjoint sets of CPUs: those of two nodes where the machine has two.
    pub cpu_sets: [Cpumask; 2],
    /// Lower bound of the process's memory, in bytes.
    pub non_file_bytes_min: u64,
}

/// A test body.
pub type WatchTest = fn(&WatchFixture<'_>);

/// All bodies of this module, by name. Each leaves the process and its affinity as they were.
pub const ALL: [(&str, WatchTest); 14] = [
    ("a_look_shows_the_process", a_look_shows_the_process),
    ("only_what_is_wanted_is_shown", only_what_is_wanted_is_shown),
    ("run_time_grows", run_time_grows),
    ("waits_never_shrink", waits_never_shrink),
    ("traffic_never_shrinks", traffic_never_shrinks),
    ("counters_never_shrink", counters_never_shrink),
    ("looks_go_on_for_long", looks_go_on_for_long),
    ("a_nudge_brings_a_thread_over", a_nudge_brings_a_thread_over),
    ("a_nudge_to_nowhere_changes_nothing", a_nudge_to_nowhere_changes_nothing),
    ("a_pin_holds_until_it_ends", a_pin_holds_until_it_ends),
    ("a_thread_of_nobody_is_gone", a_thread_of_nobody_is_gone),
    ("a_process_without_policies_is_free", a_process_without_policies_is_free),
    ("numa_activity_never_shrinks", numa_activity_never_shrinks),
    ("a_process_names_its_threads", a_process_names_its_threads),
];

/// Returns two sets of usable CPUs: those of the first two nodes that have any, or two single CPUs;
/// `None` where only one CPU is usable.
pub fn two_cpu_sets(machine: &dyn Machine) -> Option<[Cpumask; 2]> {
    let topology = machine.topology().expect("the machine tells its topology");
    let usable = machine.usable_cpus().expect("the machine tells").and(&topology.cpus);
    let of_nodes = topology.nodes.values().map(|node| node.cpus.and(&usable));
    let of_nodes: Vec<Cpumask> = of_nodes.filter(|cpus| !cpus.is_empty()).collect();
    let single: Vec<Cpumask> = usable.iter().map(|cpu| Cpumask::from_iter([cpu])).collect();
    of_nodes.first_chunk().or(single.first_chunk()).cloned()
}

/// Pause between two samples.
const PAUSE_NS: u64 = 20_000_000;
/// Limit on the samples of a state that must appear sooner or later: a minute at least.
const SNAPSHOTS_MAX: usize = 3000;

impl WatchFixture<'_> {
    fn filter(&self) -> ProcessFilter {
        ProcessFilter { pids: vec![self.pid], ..ProcessFilter::default() }
    }

    fn watch(&self, wanted: &ProcessFilter) -> Box<dyn ProcessWatch> {
        self.machine.watch(wanted).expect("processes can be watched")
    }

    fn open_process(&self) -> std::sync::Arc<dyn Process> {
        self.machine.open_process(self.pid).expect("the process can be held")
    }

    /// Returns a fresh sample of the process.
    fn read_process(&self) -> ProcessSnapshot {
        let snapshot = snapshot(&mut *self.watch(&self.filter()));
        assert_eq!(snapshot.processes.len(), 1, "{snapshot:?}");
        snapshot.processes.into_iter().next().expect("one process")
    }

    fn busy_thread(&self, process: &ProcessSnapshot) -> ThreadSnapshot {
        let busy = process.threads.iter().find(|thread| thread.tid == self.busy_tid);
        busy.expect("the busy thread is seen").clone()
    }

    /// Samples until a condition holds; panics after [`SNAPSHOTS_MAX`] samples.
    fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..SNAPSHOTS_MAX {
            if is_so() {
                return;
            }
            self.machine.sleep_ns(PAUSE_NS);
        }
        panic!("in {SNAPSHOTS_MAX} looks it was never so: {what}");
    }
}

fn snapshot(watch: &mut dyn ProcessWatch) -> MachineSnapshot {
    watch.snapshot().expect("a look succeeds")
}

/// A sample has the process once, with its threads, its memory and existing CPUs; lists are sorted,
/// and nodes are included.
fn a_look_shows_the_process(fixture: &WatchFixture<'_>) {
    let snapshot = snapshot(&mut *fixture.watch(&ProcessFilter::default()));
    assert!(snapshot.processes.is_sorted_by(|a, b| a.pid < b.pid), "{snapshot:?}");
    assert!(snapshot.denied.is_sorted_by(|a, b| a.0 < b.0), "{:?}", snapshot.denied);
    let process = snapshot.processes.iter().find(|process| process.pid == fixture.pid);
    let process = process.expect("the process is seen");
    assert_eq!(process.name, fixture.name);
    assert!(
        process.non_file_bytes >= fixture.non_file_bytes_min,
        "{} bytes",
        process.non_file_bytes
    );
    assert!(!process.frozen);
    assert!(process.threads.is_sorted_by(|a, b| a.tid < b.tid), "{process:?}");
    let topology = fixture.machine.topology().expect("the machine tells its topology");
    assert!(process.memory_nodes.is_subset(&topology.node_ids()), "{process:?}");
    for thread in &process.threads {
        assert!(thread.cpus.is_subset(&topology.cpus), "{thread:?}");
        assert!(topology.cpus.contains(thread.cpu), "{thread:?}");
    }
    let cpus = &fixture.busy_thread(process).cpus;
    assert!(fixture.cpu_sets.iter().all(|set| set.is_subset(cpus)), "{cpus}");
    assert!(snapshot.nodes.keys().copied().eq(topology.node_ids().iter()), "{:?}", snapshot.nodes);
}

/// Pids and names select processes, and a pid or name that no process has selects none.
fn only_what_is_wanted_is_shown(fixture: &WatchFixture<'_>) {
    let pids = |wanted: &ProcessFilter| -> Vec<Pid> {
        let snapshot = snapshot(&mut *fixture.watch(wanted));
        snapshot.processes.into_iter().map(|process| process.pid).collect()
    };
    let nobody = Pid::new(Pid::LIMIT).expect("the limit is a valid number");
    assert_eq!(pids(&fixture.filter()), [fixture.pid]);
    assert_eq!(
        pids(&ProcessFilter { pids: vec![nobody, fixture.pid], ..ProcessFilter::default() }),
        [fixture.pid]
    );
    assert_eq!(pids(&ProcessFilter { pids: vec![nobody], ..ProcessFilter::default() }), []);
    let by_name =
        |name: &Name| ProcessFilter { names: vec![name.clone()], ..ProcessFilter::default() };
    assert!(pids(&by_name(&fixture.name)).contains(&fixture.pid));
    assert_eq!(pids(&by_name(&"nobody-has-this-name".into())), []);
}

/// The CPU time of a busy thread grows, the CPU time of its process with it, and so does the clock.
fn run_time_grows(fixture: &WatchFixture<'_>) {
    let mut watch = fixture.watch(&fixture.filter());
    let first = snapshot(&mut *watch);
    let before = fixture.busy_thread(&first.processes[0]);
    fixture.wait_until("the thread has worked", || {
        let now = snapshot(&mut *watch);
        let (process, thread) = (&now.processes[0], fixture.busy_thread(&now.processes[0]));
        assert!(now.at_ns >= first.at_ns);
        assert_eq!(process.started_ticks, first.processes[0].started_ticks);
        assert!(thread.cpu_time_ns >= before.cpu_time_ns);
        now.at_ns > first.at_ns
            && thread.cpu_time_ns > before.cpu_time_ns
            && process.cpu_time_ns > first.processes[0].cpu_time_ns
    });
}

/// A thread's wait time does not shrink. Wait time and CPU time together grow by no more than the
/// time since an earlier sample, except for waits that were in progress then.
fn waits_never_shrink(fixture: &WatchFixture<'_>) {
    let mut watch = fixture.watch(&fixture.filter());
    // At the first sample a time slice and a wait may be in progress; where all CPUs are busy, a
    // long one. Some interval begins without one.
    fixture.wait_until("a thread had no more time than went by", || {
        let first = snapshot(&mut *watch);
        let before = fixture.busy_thread(&first.processes[0]);
        let mut last = before.clone();
        fixture.wait_until("the thread has worked", || {
            let now = snapshot(&mut *watch);
            let thread = fixture.busy_thread(&now.processes[0]);
            assert!(thread.waited_ns >= last.waited_ns, "{last:?} {thread:?}");
            last = thread;
            last.cpu_time_ns > before.cpu_time_ns
        });
        let had_ns = last.cpu_time_ns - before.cpu_time_ns + last.waited_ns - before.waited_ns;
        had_ns <= fixture.machine.now_ns() - first.at_ns + 1_000_000_000
    });
}

/// The bytes that a node's memory carried do not shrink. Where the bandwidth is known too, they are
/// no more than the bandwidth allows in the elapsed time.
fn traffic_never_shrinks(fixture: &WatchFixture<'_>) {
    let mut watch = fixture.watch(&fixture.filter());
    let first = snapshot(&mut *watch);
    let mut last = first.clone();
    for _ in 0..10 {
        fixture.machine.sleep_ns(PAUSE_NS);
        let now = snapshot(&mut *watch);
        for (id, node) in &now.nodes {
            let before = last.nodes.get(id).and_then(|node| node.traffic_bytes);
            assert!(before <= node.traffic_bytes || node.traffic_bytes.is_none(), "{id}: {now:?}");
        }
        last = now;
    }
    let elapsed_ns = u128::from(last.at_ns - first.at_ns + PAUSE_NS);
    for (id, node) in &last.nodes {
        let before = first.nodes.get(id).and_then(|node| node.traffic_bytes);
        if let (Some(before), Some(now), Some(most)) =
            (before, node.traffic_bytes, node.bandwidth_bytes_per_s)
        {
            let fits = u128::from(most) * elapsed_ns / 1_000_000_000;
            assert!(u128::from(now - before) <= fits, "{id}: {now} - {before} of {fits} bytes");
        }
    }
}

/// The stall time of tasks and the migrated pages are reported always or never, and do not shrink.
/// Between two samples the stall time grows by no more than the time between the first and a third.
fn counters_never_shrink(fixture: &WatchFixture<'_>) {
    let mut watch = fixture.watch(&fixture.filter());
    let looks: Vec<MachineSnapshot> = (0..10)
        .map(|_| {
            fixture.machine.sleep_ns(PAUSE_NS);
            snapshot(&mut *watch)
        })
        .collect();
    let values = |counter: fn(&MachineSnapshot) -> Option<u64>| -> Vec<u64> {
        let told: Vec<u64> = looks.iter().filter_map(counter).collect();
        assert!(told.is_empty() || told.len() == looks.len(), "{told:?}");
        assert!(told.is_sorted(), "{told:?}");
        told
    };
    values(|look| look.migrated_pages);
    values(|look| look.balancing_pages);
    let told = values(|look| look.pressure_stall_ns);
    // The kernel updates its sums late, by up to 2 s.
    let elapsed_ns = fixture.machine.now_ns() - looks[0].at_ns + 2_000_000_000;
    let grown = told.last().zip(told.first()).map_or(0, |(last, first)| last - first);
    assert!(grown <= elapsed_ns, "{grown} of {elapsed_ns} ns");
}

/// The hundredth sample is as good as the first.
fn looks_go_on_for_long(fixture: &WatchFixture<'_>) {
    let mut watch = fixture.watch(&fixture.filter());
    let first = snapshot(&mut *watch).processes;
    for _ in 0..100 {
        let now = snapshot(&mut *watch).processes;
        assert_eq!((now.len(), now[0].pid), (1, fixture.pid));
        assert_eq!(now[0].memory_nodes, first[0].memory_nodes);
        assert_eq!(fixture.busy_thread(&now[0]).cpus, fixture.busy_thread(&first[0]).cpus);
    }
}

/// A busy thread runs on each set in turn, and its affinity stays what it was.
fn a_nudge_brings_a_thread_over(fixture: &WatchFixture<'_>) {
    let process = fixture.open_process();
    let before = fixture.busy_thread(&fixture.read_process()).cpus;
    for set in fixture.cpu_sets.iter().cycle().take(4) {
        fixture.wait_until("the thread runs where it was nudged to", || {
            let placed = process.nudge(fixture.busy_tid, set).expect("a nudge succeeds");
            assert!(
                [AffinityOutcome::Done, AffinityOutcome::Asleep].contains(&placed),
                "{placed:?}"
            );
            let now = fixture.busy_thread(&fixture.read_process());
            assert_eq!(now.cpus, before, "its affinity is as it was");
            placed == AffinityOutcome::Done && set.contains(now.cpu)
        });
    }
}

/// A nudge to CPUs outside the thread's affinity, or to none, is refused.
fn a_nudge_to_nowhere_changes_nothing(fixture: &WatchFixture<'_>) {
    let process = fixture.open_process();
    let before = fixture.busy_thread(&fixture.read_process()).cpus;
    let beyond = before.last().map_or(0, |cpu| cpu.0 + 1);
    for nowhere in [Cpumask::new(), Cpumask::from_iter([CpuId(beyond)])] {
        let placed = process.nudge(fixture.busy_tid, &nowhere).expect("the machine answers");
        assert_eq!(placed, AffinityOutcome::NotAllowed);
        assert_eq!(fixture.busy_thread(&fixture.read_process()).cpus, before);
    }
}

/// A pinned thread runs where it is pinned, until it is pinned to its full former affinity.
fn a_pin_holds_until_it_ends(fixture: &WatchFixture<'_>) {
    let process = fixture.open_process();
    let before = fixture.busy_thread(&fixture.read_process()).cpus;
    for set in &fixture.cpu_sets {
        assert_eq!(
            process.pin(fixture.busy_tid, set).expect("a pin succeeds"),
            AffinityOutcome::Done
        );
        fixture.wait_until("the thread runs where it is pinned", || {
            let now = fixture.busy_thread(&fixture.read_process());
            assert_eq!(*now.cpus, *set);
            set.contains(now.cpu)
        });
    }
    assert_eq!(
        process.pin(fixture.busy_tid, &before).expect("a pin succeeds"),
        AffinityOutcome::Done
    );
    assert_eq!(fixture.busy_thread(&fixture.read_process()).cpus, before);
}

/// A number that is no thread of the process is reported as gone, and a process that does not exist
/// cannot be held.
fn a_thread_of_nobody_is_gone(fixture: &WatchFixture<'_>) {
    let process = fixture.open_process();
    let [set, _] = &fixture.cpu_sets;
    for placed in [process.nudge(Pid::LIMIT, set), process.pin(Pid::LIMIT, set)] {
        assert_eq!(placed.expect("the machine answers"), AffinityOutcome::Gone);
    }
    let nobody = Pid::new(Pid::LIMIT).expect("the limit is a valid number");
    assert!(matches!(fixture.machine.open_process(nobody), Err(Error::Gone(pid)) if pid == nobody));
}

/// A process that set no memory policy has none.
fn a_process_without_policies_is_free(fixture: &WatchFixture<'_>) {
    let bound = fixture.open_process().memory_policies().expect("policies can be read");
    assert!(!bound.has_task_policy && bound.policy_ranges.is_empty(), "{bound:?}");
}

/// A process names each of its threads once, in ascending order, those of the snapshot among them,
/// and tells its user where the machine has users.
fn a_process_names_its_threads(fixture: &WatchFixture<'_>) {
    let traits = fixture.open_process().traits().expect("the machine answers");
    let tids: Vec<u32> = traits.threads.iter().map(|(tid, _)| *tid).collect();
    assert!(tids.is_sorted_by(|a, b| a < b), "{traits:?}");
    assert!(tids.contains(&fixture.busy_tid), "{traits:?}");
    assert!(traits.threads.iter().all(|(_, name)| !name.is_empty()), "{traits:?}");
    assert!(traits.user.is_some(), "{traits:?}");
}

/// What the kernel's NUMA balancing has done for a thread is reported always or never, its count
/// does not shrink, and its node exists. A number that is no thread of the process is gone.
fn numa_activity_never_shrinks(stage: &WatchFixture<'_>) {
    let process = stage.open_process();
    let read = || process.numa_activity(stage.busy_tid).expect("the machine answers");
    let (first, nodes) = (read(), stage.machine.topology().expect("it tells").node_ids());
    let mut last = first;
    for _ in 0..10 {
        stage.machine.sleep_ns(PAUSE_NS);
        let now = read();
        assert_eq!(now.is_some(), first.is_some(), "{now:?}");
        let pages = |seen: Option<NumaActivity>| seen.map(|seen| seen.migrated_pages);
        assert!(pages(now) >= pages(last), "{last:?} {now:?}");
        let node = now.and_then(|now| now.preferred_node);
        assert!(node.is_none_or(|node| nodes.contains(node)), "{now:?}");
        last = now;
    }
    let nobody = process.numa_activity(Pid::LIMIT);
    let is_unknown = first.is_none() && matches!(nobody, Ok(None));
    assert!(is_unknown || matches!(nobody, Err(Error::Gone(_))), "{nobody:?}");
}
