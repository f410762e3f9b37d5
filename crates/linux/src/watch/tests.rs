//! Tests of samples: on a /proc of files and on real processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

use nodeward_machine::Machine;
use nodeward_model::{Cpumask, NodeGlance, NodeId, ThreadGlance};
use proptest::prelude::*;

use super::tools::{Calls, LOOKS_BETWEEN};
use super::*;
use crate::Linux;
use crate::affinity::Words;
use crate::patience::wait_until;

fn pid(number: u32) -> Pid {
    Pid::new(number).unwrap()
}

/// The results of the calls on a machine made of files.
#[derive(Clone, Default)]
struct Answers(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    times: BTreeMap<Pid, u64>,
    cpus: u64,
    asked_for_cpus: u32,
}

impl Calls for Answers {
    fn process_time_ns(&self, pid: Pid) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).times.get(&pid).copied()
    }

    fn affinity<'w>(&self, _tid: u32, words: &'w mut Words) -> io::Result<&'w [u64]> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.asked_for_cpus += 1;
        Ok(words.of([state.cpus]))
    }
}

/// A machine made of files: one node, and processes that tests write.
struct Made {
    root: tempfile::TempDir,
    answers: Answers,
    files: usize,
}

/// A process of it.
#[derive(Clone)]
struct Program {
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

impl Program {
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

impl Made {
    fn new(files: usize) -> Self {
        let made = Self { root: tempfile::tempdir().unwrap(), answers: Answers::default(), files };
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
    fn run(&self, program: &Program) {
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

    fn watch_as(&self, wanted: &Wanted, rights: Rights) -> LinuxWatch {
        let calls = Box::new(self.answers.clone());
        let mut tools = Tools::new(self.root.path(), calls, Shelf::of(self.files), rights);
        tools.page_bytes = 4096;
        let mut watch = LinuxWatch::with(tools, wanted, Instant::now()).unwrap();
        watch.slight_ns = 1; // every nanosecond counts
        watch
    }

    fn watch(&self, wanted: &Wanted) -> LinuxWatch {
        let root = Rights { user: 0, looks_everywhere: true, places_everybody: true };
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

fn pids(glance: &Glance) -> Vec<u32> {
    glance.processes.iter().map(|process| process.pid.number()).collect()
}

fn threads(glance: &Glance) -> Vec<(u32, u32, u64)> {
    let all = glance.processes.iter().flat_map(|process| &process.threads);
    all.map(|thread| (thread.tid, thread.cpu.0, thread.cpu_time_ns)).collect()
}

/// Goal: each field of a sample has the value in the files.
#[test]
fn a_glance_is_what_the_files_say() {
    let made = Made::new(100);
    let threads = vec![(40, 2, 5), (41, 3, 6)];
    made.run(&Program { threads, waited_ns: 90, children_ticks: 7, ..Program::new(40) });
    made.run(&Program { flags: 0x20_8040, ..Program::new(2) }); // a kernel thread, but for its size
    fs::write(made.path("proc/2/stat"), "2 (kthreadd) S 0 0 0 0 -1 2129984").unwrap();
    let glance = made.watch(&Wanted::default()).glance().unwrap();
    let cpus: Arc<Cpumask> = Arc::new("0-3".parse().unwrap());
    let thread = |tid, cpu, cpu_time_ns| ThreadGlance {
        tid,
        cpu: nodeward_model::CpuId(cpu),
        cpu_time_ns,
        waited_ns: 90,
        cpus: Arc::clone(&cpus),
    };
    let process = ProcessGlance {
        pid: pid(40),
        name: "work".into(),
        started_ticks: 500,
        cpu_time_ns: 11,
        children_time_ns: 7 * crate::load::ns_per_tick(),
        own_bytes: 110 * 4096,
        memory_nodes: "0".parse().unwrap(),
        frozen: false,
        threads: vec![thread(40, 2, 5), thread(41, 3, 6)],
    };
    assert_eq!(glance.processes, [process]);
    // 900 pages free, 100 + 50 reserved; 4000 KiB are 1000 pages.
    let room = nodeward_model::Room { free_pages: 750, cold_pages: 30 };
    let node = NodeGlance { room, pages: 1000, foreign_pages: 3, ..NodeGlance::default() };
    assert_eq!(glance.nodes, [(NodeId(0), node)].into());
    let [first, second] = &glance.processes[0].threads[..] else { panic!("two threads") };
    assert!(Arc::ptr_eq(&first.cpus, &second.cpus), "equal sets are kept once");
}

/// Adds a node with these CPUs that share one last-level cache, and its bandwidth, in MB/s.
fn add_node(made: &Made, id: u32, cpus: &str, cache: u32, mb_per_s: &str) {
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
fn count(made: &Made, group: &str, cache: u32, local: &str, total: &str) {
    let folder = format!("sys/fs/resctrl{group}/mon_data/mon_L3_{cache:02}");
    made.write(&format!("{folder}/mbm_local_bytes"), &format!("{local}\n"));
    made.write(&format!("{folder}/mbm_total_bytes"), &format!("{total}\n"));
}

/// Goal: a node carries the traffic of its own caches with it, of all groups, and the traffic of
/// the other node's caches with remote memory; groups include those below them. Counts that are
/// missing for now, or cannot be attributed, give `None`.
#[test]
fn traffic_is_that_of_caches() {
    let made = Made::new(100);
    made.write("sys/devices/system/node/online", "0-1\n");
    add_node(&made, 0, "0-1", 0, "12800");
    add_node(&made, 1, "2-3", 10, "0");
    let mut watch = made.watch(&Wanted::default());
    let mut look = |looks| {
        let glance = (0..looks).map(|_| watch.glance().unwrap()).last().unwrap();
        let of_node = |node: &NodeGlance| (node.carried_bytes, node.bandwidth_bytes_per_s);
        glance.nodes.values().map(of_node).collect::<Vec<_>>()
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
    assert_eq!(look(LOOKS_BETWEEN), [(Some(1050), most), (Some(130), None)]);
    count(&made, "", 10, "Unavailable", "27");
    assert_eq!(look(1), [(None, most), (None, None)]);
    count(&made, "", 10, "20", "27");
    fs::remove_dir_all(made.path("sys/fs/resctrl/batch")).unwrap();
    assert_eq!(look(1), [(Some(1007), most), (Some(120), None)]);
    made.write("sys/devices/system/cpu/cpu2/cache/index3/id", "0\n"); // one cache for both
    assert_eq!(look(LOOKS_BETWEEN), [(None, None); 2]);
    made.write("sys/devices/system/cpu/cpu2/cache/index3/id", "10\n");
    add_node(&made, 2, "4", 20, "12800");
    made.write("sys/devices/system/node/online", "0-2\n");
    assert_eq!(look(1), [(None, None); 3], "whose is what caches exchange with others?");
}

/// Goal: the stall time is the sum of its growth between samples; if only a group is selected, that
/// of the group. Stalls while the kernel only compacted memory are left out, and without a file
/// there is no sum.
#[test]
fn stalls_add_up() {
    let made = Made::new(100);
    let only_group = Wanted { cgroups: vec!["/app".into()], ..Wanted::default() };
    made.write("sys/fs/cgroup/app/cgroup.procs", "");
    let (machine, group) = ("proc/pressure/memory", "sys/fs/cgroup/app/memory.pressure");
    let mut watches = [&Wanted::default(), &only_group].map(|wanted| made.watch(wanted));
    let mut look = || [0, 1].map(|index| watches[index].glance().unwrap().stalled_ns);
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
        let made = Made::new(files);
        let mut program = Program { threads: vec![(40, 2, 5), (41, 3, 6)], ..Program::new(40) };
        made.run(&program);
        let mut watch = made.watch(&Wanted::default());
        assert_eq!(threads(&watch.glance().unwrap()), [(40, 2, 5), (41, 3, 6)]);

        (program.threads[1], program.anonymous_pages) = ((41, 0, 9), 300);
        made.run(&program);
        made.node(500, 8);
        let glance = watch.glance().unwrap();
        assert_eq!(threads(&glance), [(40, 2, 5), (41, 0, 9)]);
        assert_eq!(glance.processes[0].own_bytes, 310 * 4096);
        assert_eq!(glance.nodes[&NodeId(0)].room.free_pages, 350, "150 are kept free");
        assert_eq!(glance.nodes[&NodeId(0)].foreign_pages, 8);

        program.threads = vec![(40, 2, 6), (42, 1, 1), (43, 1, 20)];
        made.run(&program);
        assert_eq!(threads(&watch.glance().unwrap()), program.threads);

        made.end(40);
        assert_eq!(pids(&watch.glance().unwrap()), []);
    }
}

/// Goal: a reused pid shows the new process, also when that has exactly as much memory as the old
/// one.
#[test]
fn a_pid_that_is_used_again_is_another_process() {
    for files in [0, 100] {
        let made = Made::new(files);
        made.run(&Program::new(40));
        let mut watch = made.watch(&Wanted::default());
        watch.glance().unwrap();
        made.end(40);
        let other =
            Program { name: "other", started: 900, threads: vec![(40, 0, 3)], ..Program::new(40) };
        made.run(&other);
        let glance = watch.glance().unwrap();
        let [process] = &glance.processes[..] else { panic!("{glance:?}") };
        assert_eq!((process.name.as_bytes(), process.started_ticks), (&b"other"[..], 900));
        assert_eq!(threads(&glance), [(40, 0, 3)]);
    }
}

/// Goal: a process that does not run costs no file, and changes by others are still seen when its
/// turn comes.
#[test]
fn idle_processes_are_looked_at_in_turns() {
    let made = Made::new(100);
    made.run(&Program::new(40));
    made.write("sys/fs/cgroup/x/cgroup.events", "populated 1\nfrozen 1\n");
    let mut watch = made.watch(&Wanted::default());
    watch.glance().unwrap();
    let asked = || made.answers.0.lock().unwrap().asked_for_cpus;
    let before = asked();
    made.answers.0.lock().unwrap().cpus = 0b11;
    made.write("proc/40/cgroup", "0::/x\n");
    fs::remove_file(made.path("proc/40/maps")).unwrap(); // nobody reads it
    let seen = |glance: Glance| {
        let process = &glance.processes[0];
        (process.threads[0].cpus.to_string(), process.frozen)
    };
    let looks: Vec<_> = (0..LOOKS_BETWEEN).map(|_| seen(watch.glance().unwrap())).collect();
    assert_eq!(looks[0], ("0-3".to_owned(), false));
    assert_eq!(looks.last().unwrap(), &("0-1".to_owned(), true));
    assert!(asked() - before <= 2, "in one turn of {LOOKS_BETWEEN}");
}

/// Goal: a process that hardly runs counts as idle until its time adds up, and its CPU time is
/// reported all the same.
#[test]
fn slight_work_is_let_pass() {
    let made = Made::new(100);
    made.run(&Program::new(40));
    let mut watch = made.watch(&Wanted::default());
    watch.slight_ns = 10;
    watch.glance().unwrap();
    let mut work = |ns, cpu| {
        made.run(&Program { threads: vec![(40, cpu, ns)], ..Program::new(40) });
        let glance = watch.glance().unwrap();
        (glance.processes[0].cpu_time_ns, threads(&glance)[0])
    };
    assert_eq!(work(7_000_004, 2), (7_000_004, (40, 1, 7_000_000)));
    assert_eq!(work(7_000_008, 2), (7_000_008, (40, 1, 7_000_000)));
    assert_eq!(work(7_000_012, 2), (7_000_012, (40, 2, 7_000_012)), "12 ns since it was looked at");
}

/// Goal: a frozen group is seen at once, and a removed group is not frozen.
#[test]
fn frozen_groups_are_seen_at_once() {
    let made = Made::new(0);
    made.run(&Program { group: "/pod", ..Program::new(40) });
    let mut watch = made.watch(&Wanted::default());
    let events = "sys/fs/cgroup/pod/cgroup.events";
    for (text, expected) in [("frozen 0\n", false), ("frozen 1\n", true), ("frozen 0\n", false)] {
        made.write(events, &format!("populated 1\n{text}"));
        assert_eq!(watch.glance().unwrap().processes[0].frozen, expected);
    }
    fs::remove_file(made.path(events)).unwrap();
    assert!(!watch.glance().unwrap().processes[0].frozen);
}

/// Goal: names, users, groups and pids select processes, and a process that changes is selected
/// anew.
#[test]
fn choices_are_made_anew_in_each_look() {
    let made = Made::new(100);
    let mut one = Program { name: "one", ..Program::new(40) };
    made.run(&one);
    made.run(&Program { name: "two", ..Program::new(41) });
    made.run(&Program { name: "three", ..Program::new(42) });
    made.write("sys/fs/cgroup/db/cgroup.procs", "42\n");
    let by_name = Wanted { names: vec!["one".into()], ..Wanted::default() };
    let mut by_name = made.watch(&by_name);
    let mut by_group = made.watch(&Wanted { cgroups: vec!["db".into()], ..Wanted::default() });
    let mut by_pid = made.watch(&Wanted { pids: vec![pid(41), pid(99)], ..Wanted::default() });
    assert_eq!(pids(&by_name.glance().unwrap()), [40]);
    assert_eq!(pids(&by_group.glance().unwrap()), [42]);
    assert_eq!(pids(&by_pid.glance().unwrap()), [41]);

    (one.name, one.threads) = ("four", vec![(40, 1, 8_000_000)]);
    made.run(&one);
    made.run(&Program { name: "one", threads: vec![(42, 1, 9_000_000)], ..Program::new(42) });
    made.write("sys/fs/cgroup/db/replica/cgroup.procs", "41\n");
    assert_eq!(pids(&by_name.glance().unwrap()), [42]);
    assert_eq!(pids(&by_group.glance().unwrap()), [41, 42]);
    fs::remove_dir_all(made.path("sys/fs/cgroup/db")).unwrap();
    assert_eq!(pids(&by_group.glance().unwrap()), []);
}

/// Goal: a process that may not be placed is listed as denied with the remedy, not sampled; others
/// are sampled.
#[test]
fn what_is_denied_is_told() {
    let made = Made::new(100);
    made.run(&Program { user: 7, ..Program::new(40) });
    made.run(&Program::new(41));
    made.run(&Program::new(42));
    fs::remove_file(made.path("proc/42/maps")).unwrap();
    let nobody = Rights { user: 1000, looks_everywhere: false, places_everybody: false };
    let mut watch = made.watch_as(&Wanted::default(), nobody);
    for _ in 0..2 {
        let glance = watch.glance().unwrap();
        assert_eq!(pids(&glance), [41]);
        let [(first, place), (second, look)] = &glance.denied[..] else { panic!("{glance:?}") };
        assert_eq!((*first, *second), (pid(40), pid(42)));
        assert!(place.contains("CAP_SYS_NICE") && look.contains("CAP_SYS_PTRACE"), "{glance:?}");
    }
}

/// Goal: a process that starts later is read when it is met again, so that one that exits at once
/// costs nothing; one that is named or has used much CPU time is read when it is met.
#[test]
fn young_processes_wait_for_the_next_look() {
    let made = Made::new(100);
    let named = Wanted { pids: vec![pid(40)], ..Wanted::default() };
    let (mut all, mut one) = (made.watch(&Wanted::default()), made.watch(&named));
    assert!(pids(&all.glance().unwrap()).is_empty() && pids(&one.glance().unwrap()).is_empty());
    made.run(&Program::new(40));
    made.run(&Program { threads: vec![(41, 0, YOUNG_NS)], ..Program::new(41) });
    assert_eq!(pids(&all.glance().unwrap()), [41]);
    assert_eq!(pids(&one.glance().unwrap()), [40]);
    assert_eq!(pids(&all.glance().unwrap()), [40, 41]);
}

/// Goal: kernels without schedstat, nodes and cpusets are supported.
#[test]
fn kernels_may_lack_things() {
    let made = Made::new(100);
    fs::remove_file(made.path("proc/self/schedstat")).unwrap();
    fs::remove_dir_all(made.path("sys/devices")).unwrap();
    made.run(&Program::new(40));
    made.write("proc/40/status", "Name:\twork\nVmRSS:\t440 kB\n");
    made.write("proc/meminfo", "MemTotal:    8000 kB\n");
    fs::remove_file(made.path("proc/40/cgroup")).unwrap();
    let glance = made.watch(&Wanted::default()).glance().unwrap();
    assert_eq!(threads(&glance), [(40, 1, 0)], "no ticks in its file");
    assert_eq!(glance.processes[0].memory_nodes.to_string(), "0");
    assert_eq!(glance.nodes[&NodeId(0)].pages, 2000);
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
        let made = Made::new(100);
        made.run(&Program::new(40));
        made.run(&Program::new(41));
        let mut watch = made.watch(&Wanted::default());
        if again {
            watch.glance().unwrap();
        }
        fs::write(made.path("proc/40").join(name), &bytes).unwrap();
        made.answers.0.lock().unwrap().times.insert(pid(40), 9_000_000);
        prop_assert!(pids(&watch.glance().unwrap()).contains(&41));
    }
}

/// A child that is killed when the value is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        pid(self.0.id())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Goal: a real process is seen with its threads, its affinity and its memory; once it has exited
/// and is not waited for yet, it is not.
#[test]
fn real_processes_are_seen() {
    let machine = Linux::open();
    let mut sleeper = Sleeper::start();
    let us = pid(std::process::id());
    let named = Wanted { pids: vec![us, sleeper.pid()], ..Wanted::default() };
    let mut watch = machine.watch(&named).unwrap();
    let glance = watch.glance().unwrap();
    let mut expected = [us.number(), sleeper.pid().number()];
    expected.sort_unstable();
    assert_eq!(pids(&glance), expected);
    let own = glance.processes.iter().find(|process| process.pid == us).unwrap();
    let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let thread = own.threads.iter().find(|thread| thread.tid == tid).unwrap();
    assert_eq!(*thread.cpus, crate::affinity::of(tid).unwrap());
    assert!(own.own_bytes > 0 && own.cpu_time_ns > 0 && !own.frozen);
    let room: u64 = glance.nodes.values().map(|node| node.pages).sum();
    assert!(room > 0 && glance.denied.is_empty(), "{glance:?}");

    sleeper.0.kill().unwrap();
    wait_until("a zombie is left out", || pids(&watch.glance().unwrap()) == [us.number()]);
}

/// Goal: the CPU time of a real process's children is reported after they have exited.
#[test]
fn ended_children_are_counted() {
    let us = pid(std::process::id());
    let named = Wanted { pids: vec![us], ..Wanted::default() };
    let counted = || {
        let count = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", count]).status().unwrap().success());
        Linux::open().watch(&named).unwrap().glance().unwrap().processes[0].children_time_ns > 0
    };
    wait_until("children come to a tick of the clock", counted);
}

/// Goal: threads that start and exit during the watch are seen or not, and never cause an error.
#[test]
fn threads_come_and_go() {
    let us = pid(std::process::id());
    let mut watch = Linux::open().watch(&Wanted { pids: vec![us], ..Wanted::default() }).unwrap();
    for _ in 0..200 {
        let short =
            std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        let glance = watch.glance().unwrap();
        let tid = short.join().unwrap();
        assert!(glance.processes[0].threads.is_sorted_by_key(|thread| thread.tid));
        // A join may return a little before the kernel has removed the thread.
        let has = |glance: &Glance| glance.processes[0].threads.iter().any(|t| t.tid == tid);
        wait_until("a thread has left", || !has(&watch.glance().unwrap()));
    }
}

/// Goal: a process in a frozen group is reported as frozen, and not after the thaw.
#[test]
fn a_real_group_is_frozen() {
    let root = Path::new("/");
    let groups = crate::cgroup::MemoryGroups::find(root).unwrap();
    let top = groups.folder_v2_of(Path::new("/"));
    let group = top.map(|top| top.join(format!("nodeward-test-{}", std::process::id())));
    let Some(group) = group.filter(|group| fs::create_dir(group).is_ok()) else {
        return eprintln!("skipped: no control group of version 2 may be made here");
    };
    let sleeper = Sleeper::start();
    fs::write(group.join("cgroup.procs"), sleeper.pid().to_string()).unwrap();
    let wanted = Wanted { cgroups: vec![group.clone()], ..Wanted::default() };
    let mut watch = Linux::open().watch(&wanted).unwrap();
    let mut turn = |text: &str, expected: bool| {
        fs::write(group.join("cgroup.freeze"), text).unwrap();
        wait_until("the group is as it was told", || {
            watch.glance().unwrap().processes[0].frozen == expected
        });
    };
    turn("1", true);
    turn("0", false);
    drop(sleeper);
    wait_until("nobody is left in the group", || fs::remove_dir(&group).is_ok());
}
