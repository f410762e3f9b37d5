//! Tests of samples: here on a /proc of files.

mod real_processes;
mod turns;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nodeward_model::{Cpumask, NodeId, NodeSnapshot, ThreadSnapshot};
use proptest::prelude::*;

use super::context::{FULL_READ_INTERVAL, KernelCalls};
use super::*;
use crate::affinity::AffinityBuffer;

fn pid(number: u32) -> Pid {
    Pid::new(number).unwrap()
}

/// The results of the calls on a machine made of files.
#[derive(Clone, Default)]
struct FakeCalls(Arc<Mutex<FakeCallState>>);

#[derive(Default)]
struct FakeCallState {
    times: BTreeMap<Pid, u64>,
    cpus: u64,
    asked_for_cpus: u32,
}

impl KernelCalls for FakeCalls {
    fn process_time_ns(&self, pid: Pid) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).times.get(&pid).copied()
    }

    fn affinity<'w>(&self, _tid: u32, words: &'w mut AffinityBuffer) -> io::Result<&'w [u64]> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.asked_for_cpus += 1;
        Ok(words.fill([state.cpus]))
    }
}

/// A machine made of files: one node, and processes that tests write.
struct FakeRoot {
    root: tempfile::TempDir,
    answers: FakeCalls,
    files: usize,
}

/// A process of it.
#[derive(Clone)]
struct FakeProcessFiles {
    pid: u32,
    name: &'static str,
    started: u64,
    user: u32,
    flags: u64,
    /// Each thread with its CPU and its CPU time.
    threads: Vec<(u32, u32, u64)>,
    /// The time that each of them waited for a CPU.
    waited_ns: u64,
    children_ticks: u64,
    anonymous_pages: u64,
    shared_pages: u64,
    group: &'static str,
}

impl FakeProcessFiles {
    fn new(pid: u32) -> Self {
        Self {
            pid,
            name: "work",
            started: 500,
            user: 1000,
            flags: 0x40_0000,
            threads: vec![(pid, 1, 7_000_000)],
            waited_ns: 0,
            children_ticks: 0,
            anonymous_pages: 100,
            shared_pages: 10,
            group: "/",
        }
    }

    fn cpu_time_ns(&self) -> u64 {
        self.threads.iter().map(|(_, _, ns)| ns).sum()
    }

    /// Fields as proc_pid_stat(5) numbers them.
    fn stat(&self, cpu: u32) -> String {
        let mut fields = [0; 53];
        (fields[9], fields[20], fields[22]) = (self.flags, self.threads.len() as u64, self.started);
        let resident = self.anonymous_pages + self.shared_pages;
        (fields[16], fields[17]) = (self.children_ticks, 0);
        (fields[23], fields[24], fields[39]) = (resident * 4096, resident, u64::from(cpu));
        let fields: Vec<String> = fields[4..].iter().map(u64::to_string).collect();
        format!("{} ({}) S {}\n", self.pid, self.name, fields.join(" "))
    }

    fn status(&self) -> String {
        let kib = |pages: u64| pages * 4;
        format!(
            "Name:\t{}\nUid:\t0\t{}\t0\t0\nVmRSS:\t{} kB\nRssAnon:\t{} kB\nRssShmem:\t{} kB\n\
             Mems_allowed_list:\t0\n",
            self.name,
            self.user,
            kib(self.anonymous_pages + self.shared_pages),
            kib(self.anonymous_pages),
            kib(self.shared_pages),
        )
    }
}

impl FakeRoot {
    fn new(files: usize) -> Self {
        let made =
            Self { root: tempfile::tempdir().unwrap(), answers: FakeCalls::default(), files };
        made.answers.0.lock().unwrap().cpus = 0b1111;
        made.write("proc/self/schedstat", "1 1 1\n");
        made.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let node = "sys/devices/system/node";
        made.write(&format!("{node}/online"), "0\n");
        made.write(&format!("{node}/node0/meminfo"), "Node 0 MemTotal:    4000 kB\n");
        made.write(
            "proc/zoneinfo",
            "Node 0, zone DMA\n  pages free 900\n    high 100\n    protection: (0, 50)\n",
        );
        made.node(900, 3);
        made
    }

    fn node(&self, free: u64, foreign: u64) {
        let text = format!(
            "nr_free_pages {free}\nnr_inactive_file 30\nnuma_hit 5\nnuma_foreign {foreign}\n"
        );
        self.write("sys/devices/system/node/node0/vmstat", &text);
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    /// Rewrites the files of a process; open descriptors see the new content too.
    fn run(&self, program: &FakeProcessFiles) {
        let file =
            |name: &str, text: &str| self.write(&format!("proc/{}/{name}", program.pid), text);
        let leader = program.threads.first().map_or(0, |&(_, cpu, _)| cpu);
        file("stat", &program.stat(leader));
        file("status", &program.status());
        file("maps", "");
        let (all, shared) = (program.anonymous_pages + program.shared_pages, program.shared_pages);
        file("statm", &format!("{all} {all} {shared} 0 0 0 0\n"));
        file("cgroup", &format!("0::{}\n", program.group));
        let tasks = fs::read_dir(self.path(&format!("proc/{}", program.pid)).join("task"));
        for ended in tasks.into_iter().flatten().map(|entry| entry.unwrap()) {
            let tid: u32 = ended.file_name().to_str().unwrap().parse().unwrap();
            if program.threads.iter().all(|thread| thread.0 != tid) {
                empty_and_remove(&ended.path());
            }
        }
        for &(tid, cpu, ns) in &program.threads {
            file(&format!("task/{tid}/stat"), &program.stat(cpu));
            file(&format!("task/{tid}/schedstat"), &format!("{ns} {} 0\n", program.waited_ns));
        }
        self.answers.0.lock().unwrap().times.insert(pid(program.pid), program.cpu_time_ns());
    }

    fn end(&self, number: u32) {
        empty_and_remove(&self.path(&format!("proc/{number}")));
        self.answers.0.lock().unwrap().times.remove(&pid(number));
    }

    fn watch_as(&self, wanted: &ProcessFilter, rights: WatchPermissions) -> LinuxWatch {
        let calls = Box::new(self.answers.clone());
        let mut context =
            WatchContext::new(self.root.path(), calls, OpenFileBudget::new(self.files), rights);
        context.page_bytes = 4096;
        let mut watch = LinuxWatch::with(context, wanted, Instant::now()).unwrap();
        watch.idle_cpu_ns_max = 1; // every nanosecond counts
        watch
    }

    fn watch(&self, wanted: &ProcessFilter) -> LinuxWatch {
        let root = WatchPermissions { user: 0, can_read_all: true, can_set_all_affinities: true };
        self.watch_as(wanted, root)
    }
}

/// An open descriptor of these files then reads nothing, as with files of a process that has
/// exited.
fn empty_and_remove(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => empty_and_remove(&entry),
            false => fs::write(&entry, "").unwrap(),
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

fn pids(snapshot: &MachineSnapshot) -> Vec<u32> {
    snapshot.processes.iter().map(|process| process.pid.number()).collect()
}

fn threads(snapshot: &MachineSnapshot) -> Vec<(u32, u32, u64)> {
    let all = snapshot.processes.iter().flat_map(|process| &process.threads);
    all.map(|thread| (thread.tid, thread.cpu.0, thread.cpu_time_ns)).collect()
}

/// Goal: each field of a sample has the value in the files.
#[test]
fn a_snapshot_is_what_the_files_say() {
    let made = FakeRoot::new(100);
    let threads = vec![(40, 2, 5), (41, 3, 6)];
    made.run(&FakeProcessFiles {
        threads,
        waited_ns: 90,
        children_ticks: 7,
        ..FakeProcessFiles::new(40)
    });
    // A kernel thread, but for its size.
    made.run(&FakeProcessFiles { flags: 0x20_8040, ..FakeProcessFiles::new(2) });
    fs::write(made.path("proc/2/stat"), "2 (kthreadd) S 0 0 0 0 -1 2129984").unwrap();
    let snapshot = made.watch(&ProcessFilter::default()).snapshot().unwrap();
    let cpus: Arc<Cpumask> = Arc::new("0-3".parse().unwrap());
    let thread = |tid, cpu, cpu_time_ns| ThreadSnapshot {
        tid,
        cpu: nodeward_model::CpuId(cpu),
        cpu_time_ns,
        waited_ns: 90,
        cpus: Arc::clone(&cpus),
    };
    let process = ProcessSnapshot {
        pid: pid(40),
        name: "work".into(),
        started_ticks: 500,
        cpu_time_ns: 11,
        children_cpu_time_ns: 7 * crate::load::ns_per_tick(),
        non_file_bytes: 110 * 4096,
        memory_nodes: "0".parse().unwrap(),
        frozen: false,
        threads: vec![thread(40, 2, 5), thread(41, 3, 6)],
    };
    assert_eq!(snapshot.processes, [process]);
    // 900 pages free, 100 + 50 reserved; 4000 KiB are 1000 pages.
    let room = nodeward_model::NodeHeadroom { free_pages: 750, inactive_file_pages: 30 };
    let node =
        NodeSnapshot { headroom: room, pages: 1000, foreign_pages: 3, ..NodeSnapshot::default() };
    assert_eq!(snapshot.nodes, [(NodeId(0), node)].into());
    let [first, second] = &snapshot.processes[0].threads[..] else { panic!("two threads") };
    assert!(Arc::ptr_eq(&first.cpus, &second.cpus), "equal sets are kept once");
}

/// Adds a node with these CPUs that share one last-level cache, and its bandwidth, in MB/s.
fn add_node(made: &FakeRoot, id: u32, cpus: &str, cache: u32, mb_per_s: &str) {
    let node = format!("sys/devices/system/node/node{id}");
    made.write(&format!("{node}/cpulist"), &format!("{cpus}\n"));
    made.write(&format!("{node}/meminfo"), &format!("Node {id} MemTotal:    4000 kB\n"));
    made.write(&format!("{node}/vmstat"), "nr_free_pages 9\n");
    made.write(&format!("{node}/access0/initiators/read_bandwidth"), &format!("{mb_per_s}\n"));
    for cpu in cpus.parse::<Cpumask>().unwrap().iter() {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
        made.write(&format!("{folder}/id"), &format!("{cache}\n"));
        made.write(&format!("{folder}/shared_cpu_list"), &format!("{cpus}\n"));
    }
}

/// Sets the counts of a cache in a group.
fn count(made: &FakeRoot, group: &str, cache: u32, local: &str, total: &str) {
    let folder = format!("sys/fs/resctrl{group}/mon_data/mon_L3_{cache:02}");
    made.write(&format!("{folder}/mbm_local_bytes"), &format!("{local}\n"));
    made.write(&format!("{folder}/mbm_total_bytes"), &format!("{total}\n"));
}

/// Goal: a node carries the traffic of its own caches with it, of all groups, and the traffic of
/// the other node's caches with remote memory; groups include those below them. Counts that are
/// missing for now, or cannot be attributed, give `None`.
#[test]
fn traffic_is_that_of_caches() {
    let made = FakeRoot::new(100);
    made.write("sys/devices/system/node/online", "0-1\n");
    add_node(&made, 0, "0-1", 0, "12800");
    add_node(&made, 1, "2-3", 10, "0");
    let mut watch = made.watch(&ProcessFilter::default());
    let mut look = |looks| {
        let snapshot = (0..looks).map(|_| watch.snapshot().unwrap()).last().unwrap();
        let of_node = |node: &NodeSnapshot| (node.traffic_bytes, node.bandwidth_bytes_per_s);
        snapshot.nodes.values().map(of_node).collect::<Vec<_>>()
    };
    assert_eq!(look(1), [(None, None); 2], "nothing is mounted");
    count(&made, "", 0, "1000", "1100");
    count(&made, "", 10, "20", "27");
    count(&made, "/batch", 0, "40", "50");
    count(&made, "/batch", 10, "0", "3");
    count(&made, "/batch/mon_groups/job", 0, "40", "50");
    made.write("sys/fs/resctrl/info/last_cmd_status", "ok\n");
    let most = Some(12_800_000_000);
    // 1000 + 40 and 7 + 3 of the other node; 20 + 0 and 100 + 10.
    assert_eq!(look(FULL_READ_INTERVAL), [(Some(1050), most), (Some(130), None)]);
    count(&made, "", 10, "Unavailable", "27");
    assert_eq!(look(1), [(None, most), (None, None)]);
    count(&made, "", 10, "20", "27");
    fs::remove_dir_all(made.path("sys/fs/resctrl/batch")).unwrap();
    assert_eq!(look(1), [(Some(1007), most), (Some(120), None)]);
    made.write("sys/devices/system/cpu/cpu2/cache/index3/id", "0\n"); // one cache for both
    assert_eq!(look(FULL_READ_INTERVAL), [(None, None); 2]);
    made.write("sys/devices/system/cpu/cpu2/cache/index3/id", "10\n");
    add_node(&made, 2, "4", 20, "12800");
    made.write("sys/devices/system/node/online", "0-2\n");
    assert_eq!(look(1), [(None, None); 3], "whose is what caches exchange with others?");
}

/// Goal: migrated pages are counted by the kernel; without its counter there is no number.
#[test]
fn migrated_pages() {
    let made = FakeRoot::new(100);
    let mut watch = made.watch(&ProcessFilter::default());
    assert_eq!(watch.snapshot().unwrap().migrated_pages, None);
    made.write("proc/vmstat", "pgmigrate_fail 1\npgmigrate_success 512\n");
    let seen = watch.snapshot().unwrap();
    assert_eq!((seen.migrated_pages, seen.balancing_pages), (Some(512), None));
    made.write("proc/vmstat", "pgmigrate_success 512\nnuma_pages_migrated 500\n");
    assert_eq!(watch.snapshot().unwrap().balancing_pages, Some(500));
}

/// Goal: the stall time is the sum of its growth between samples; if only a group is selected, that
/// of the group. Stalls while the kernel only compacted memory are left out, and without a file
/// there is no sum.
#[test]
fn stalls_add_up() {
    let made = FakeRoot::new(100);
    let only_group = ProcessFilter { cgroups: vec!["/app".into()], ..ProcessFilter::default() };
    made.write("sys/fs/cgroup/app/cgroup.procs", "");
    let (machine, group) = ("proc/pressure/memory", "sys/fs/cgroup/app/memory.pressure");
    let mut watches = [&ProcessFilter::default(), &only_group].map(|wanted| made.watch(wanted));
    let mut look = || [0, 1].map(|index| watches[index].snapshot().unwrap().pressure_stall_ns);
    assert_eq!(look(), [None; 2]);
    let some =
        |path, us: u64| made.write(path, &format!("some avg10=0 total={us}\nfull total=1\n"));
    some(machine, 5_000);
    some(group, 900);
    assert_eq!(look(), [Some(0); 2], "what was before the first look is nobody's business");
    some(machine, 5_007);
    some(group, 902);
    assert_eq!(look(), [Some(7_000), Some(2_000)]);
    made.write("proc/vmstat", "pgscan_direct 4\ncompact_stall 1\n");
    some(machine, 6_000);
    assert_eq!(look(), [Some(1_000_000), Some(2_000)], "pages were scanned: 7 + 993 us");
    made.write("proc/vmstat", "pgscan_direct 4\ncompact_stall 2\n");
    some(machine, 7_000);
    assert_eq!(look(), [Some(1_000_000), Some(2_000)]);
    made.write(machine, "plenty\n");
    assert_eq!(look(), [None, Some(2_000)]);
}

/// Goal: the next sample sees processes that run, grow, start and exit, whether files stay open or
/// not.
#[test]
fn changes_are_seen() {
    for files in [0, 3, 100] {
        let made = FakeRoot::new(files);
        let mut program =
            FakeProcessFiles { threads: vec![(40, 2, 5), (41, 3, 6)], ..FakeProcessFiles::new(40) };
        made.run(&program);
        let mut watch = made.watch(&ProcessFilter::default());
        assert_eq!(threads(&watch.snapshot().unwrap()), [(40, 2, 5), (41, 3, 6)]);

        (program.threads[1], program.anonymous_pages) = ((41, 0, 9), 300);
        made.run(&program);
        made.node(500, 8);
        let snapshot = watch.snapshot().unwrap();
        assert_eq!(threads(&snapshot), [(40, 2, 5), (41, 0, 9)]);
        assert_eq!(snapshot.processes[0].non_file_bytes, 310 * 4096);
        assert_eq!(snapshot.nodes[&NodeId(0)].headroom.free_pages, 350, "150 are kept free");
        assert_eq!(snapshot.nodes[&NodeId(0)].foreign_pages, 8);

        program.threads = vec![(40, 2, 6), (42, 1, 1), (43, 1, 20)];
        made.run(&program);
        assert_eq!(threads(&watch.snapshot().unwrap()), program.threads);

        made.end(40);
        assert_eq!(pids(&watch.snapshot().unwrap()), []);
    }
}

/// Goal: a reused pid shows the new process, also when that has exactly as much memory as the old
/// one.
#[test]
fn a_pid_that_is_used_again_is_another_process() {
    for files in [0, 100] {
        let made = FakeRoot::new(files);
        made.run(&FakeProcessFiles::new(40));
        let mut watch = made.watch(&ProcessFilter::default());
        watch.snapshot().unwrap();
        made.end(40);
        let other = FakeProcessFiles {
            name: "other",
            started: 900,
            threads: vec![(40, 0, 3)],
            ..FakeProcessFiles::new(40)
        };
        made.run(&other);
        let snapshot = watch.snapshot().unwrap();
        let [process] = &snapshot.processes[..] else { panic!("{snapshot:?}") };
        assert_eq!((process.name.as_bytes(), process.started_ticks), (&b"other"[..], 900));
        assert_eq!(threads(&snapshot), [(40, 0, 3)]);
    }
}

/// Goal: a frozen group is seen at once, and a removed group is not frozen.
#[test]
fn frozen_groups_are_seen_at_once() {
    let made = FakeRoot::new(0);
    made.run(&FakeProcessFiles { group: "/pod", ..FakeProcessFiles::new(40) });
    let mut watch = made.watch(&ProcessFilter::default());
    let events = "sys/fs/cgroup/pod/cgroup.events";
    for (text, expected) in [("frozen 0\n", false), ("frozen 1\n", true), ("frozen 0\n", false)] {
        made.write(events, &format!("populated 1\n{text}"));
        assert_eq!(watch.snapshot().unwrap().processes[0].frozen, expected);
    }
    fs::remove_file(made.path(events)).unwrap();
    assert!(!watch.snapshot().unwrap().processes[0].frozen);
}

/// Goal: names, users, groups and pids select processes, and a process that changes is selected
/// anew.
#[test]
fn choices_are_made_anew_in_each_look() {
    let made = FakeRoot::new(100);
    let mut one = FakeProcessFiles { name: "one", ..FakeProcessFiles::new(40) };
    made.run(&one);
    made.run(&FakeProcessFiles { name: "two", ..FakeProcessFiles::new(41) });
    made.run(&FakeProcessFiles { name: "three", ..FakeProcessFiles::new(42) });
    made.write("sys/fs/cgroup/db/cgroup.procs", "42\n");
    let by_name = ProcessFilter { names: vec!["one".into()], ..ProcessFilter::default() };
    let mut by_name = made.watch(&by_name);
    let mut by_group =
        made.watch(&ProcessFilter { cgroups: vec!["db".into()], ..ProcessFilter::default() });
    let mut by_pid =
        made.watch(&ProcessFilter { pids: vec![pid(41), pid(99)], ..ProcessFilter::default() });
    assert_eq!(pids(&by_name.snapshot().unwrap()), [40]);
    assert_eq!(pids(&by_group.snapshot().unwrap()), [42]);
    assert_eq!(pids(&by_pid.snapshot().unwrap()), [41]);

    (one.name, one.threads) = ("four", vec![(40, 1, 8_000_000)]);
    made.run(&one);
    made.run(&FakeProcessFiles {
        name: "one",
        threads: vec![(42, 1, 9_000_000)],
        ..FakeProcessFiles::new(42)
    });
    made.write("sys/fs/cgroup/db/replica/cgroup.procs", "41\n");
    assert_eq!(pids(&by_name.snapshot().unwrap()), [42]);
    assert_eq!(pids(&by_group.snapshot().unwrap()), [41, 42]);
    fs::remove_dir_all(made.path("sys/fs/cgroup/db")).unwrap();
    assert_eq!(pids(&by_group.snapshot().unwrap()), []);
}

/// Goal: a process that may not be placed is listed as denied with the remedy, not sampled; others
/// are sampled.
#[test]
fn what_is_denied_is_told() {
    let made = FakeRoot::new(100);
    made.run(&FakeProcessFiles { user: 7, ..FakeProcessFiles::new(40) });
    made.run(&FakeProcessFiles::new(41));
    made.run(&FakeProcessFiles::new(42));
    fs::remove_file(made.path("proc/42/maps")).unwrap();
    let nobody =
        WatchPermissions { user: 1000, can_read_all: false, can_set_all_affinities: false };
    let mut watch = made.watch_as(&ProcessFilter::default(), nobody);
    for _ in 0..2 {
        let snapshot = watch.snapshot().unwrap();
        assert_eq!(pids(&snapshot), [41]);
        let [(first, place), (second, look)] = &snapshot.denied[..] else { panic!("{snapshot:?}") };
        assert_eq!((*first, *second), (pid(40), pid(42)));
        assert!(place.contains("CAP_SYS_NICE") && look.contains("CAP_SYS_PTRACE"), "{snapshot:?}");
    }
}

/// Goal: a process that starts later is read when it is met again, so that one that exits at once
/// costs nothing; one that is named or has used much CPU time is read when it is met.
#[test]
fn young_processes_wait_for_the_next_look() {
    let made = FakeRoot::new(100);
    let named = ProcessFilter { pids: vec![pid(40)], ..ProcessFilter::default() };
    let (mut all, mut one) = (made.watch(&ProcessFilter::default()), made.watch(&named));
    assert!(pids(&all.snapshot().unwrap()).is_empty() && pids(&one.snapshot().unwrap()).is_empty());
    made.run(&FakeProcessFiles::new(40));
    made.run(&FakeProcessFiles {
        threads: vec![(41, 0, NEW_PROCESS_CPU_NS)],
        ..FakeProcessFiles::new(41)
    });
    assert_eq!(pids(&all.snapshot().unwrap()), [41]);
    assert_eq!(pids(&one.snapshot().unwrap()), [40]);
    assert_eq!(pids(&all.snapshot().unwrap()), [40, 41]);
}

/// Goal: kernels without schedstat, nodes and cpusets are supported.
#[test]
fn kernels_may_lack_things() {
    let made = FakeRoot::new(100);
    fs::remove_file(made.path("proc/self/schedstat")).unwrap();
    fs::remove_dir_all(made.path("sys/devices")).unwrap();
    made.run(&FakeProcessFiles::new(40));
    made.write("proc/40/status", "Name:\twork\nVmRSS:\t440 kB\n");
    made.write("proc/meminfo", "MemTotal:    8000 kB\n");
    fs::remove_file(made.path("proc/40/cgroup")).unwrap();
    let snapshot = made.watch(&ProcessFilter::default()).snapshot().unwrap();
    assert_eq!(threads(&snapshot), [(40, 1, 0)], "no ticks in its file");
    assert_eq!(snapshot.processes[0].memory_nodes.to_string(), "0");
    assert_eq!(snapshot.nodes[&NodeId(0)].pages, 2000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Goal: whatever is in the files of a process, a sample ends, and other processes are seen.
    #[test]
    fn odd_files_harm_nobody(
        name in prop::sample::select(vec![
            "stat", "status", "statm", "cgroup", "task/40/stat", "task/40/schedstat",
        ]),
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        again in any::<bool>(),
    ) {
        let made = FakeRoot::new(100);
        made.run(&FakeProcessFiles::new(40));
        made.run(&FakeProcessFiles::new(41));
        let mut watch = made.watch(&ProcessFilter::default());
        if again {
            watch.snapshot().unwrap();
        }
        fs::write(made.path("proc/40").join(name), &bytes).unwrap();
        made.answers.0.lock().unwrap().times.insert(pid(40), 9_000_000);
        prop_assert!(pids(&watch.snapshot().unwrap()).contains(&41));
    }
}
