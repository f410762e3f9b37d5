//! A balancer in this process, on a fake machine of two nodes that has this process: its threads
//! are real, its memory is not.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nodeward::{GroupAgent, GroupFailure, GroupHome};
use nodeward_linux::interference::{ChildExit, run_in_child};
use nodeward_linux::test_wait::wait_until;
use nodeward_machine::Machine as _;
use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
use nodeward_model::{CpuId, NodeId, OtherBalancer, Page, Pid};
use nodeward_own_balancer::{OwnBalancer, OwnOptions, StartFailure};

const S: u64 = 1_000_000_000;
/// Pages of this process on the fake machine: 16 MiB, the first of which has this number.
const PAGES: usize = 4096;
const FIRST: usize = 16;

/// One balancer is in this process at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A machine on which this process has all memory on node 0, and the calling thread runs there.
struct Scene {
    machine: Arc<FakeMachine>,
    folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Scene {
    fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let machine = Arc::new(FakeMachine::with_topology(true, "2n 4c 1t 4GiB"));
        let thread = FakeThread::new(CpuId(0), "0-7".parse().unwrap(), 1000);
        let thread = FakeThread { cpu_time_ns: 60 * S, ..thread };
        let memory = FakeProcess::with_pages(&[Page::on(NodeId(0)); PAGES]);
        machine.spawn(own_pid(), FakeProcess { threads: [(own_tid(), thread)].into(), ..memory });
        Self { machine, folder: tempfile::tempdir().unwrap(), _turn: turn }
    }

    fn options(&self) -> OwnOptions {
        let agent = GroupAgent::at(&self.socket());
        OwnOptions { interval: Duration::from_millis(1), agent, ..OwnOptions::default() }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("agent.sock")
    }

    fn start(&self) -> OwnBalancer {
        OwnBalancer::start_on(self.machine.clone(), &self.options()).unwrap()
    }

    /// Lets time pass on the machine until something has happened.
    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        wait_until(what, || {
            self.machine.sleep_ns(S);
            is_so()
        });
    }

    /// Pages of this process on node 1: of its first half, and of its second.
    fn pages_on_one(&self) -> [usize; 2] {
        let process = self.machine.process(own_pid()).unwrap();
        let half = |start: usize| {
            let pages = process.pages.range(start as u64..(start + PAGES / 2) as u64);
            pages.filter(|(_, page)| page.node() == Some(NodeId(1))).count()
        };
        [half(FIRST), half(FIRST + PAGES / 2)]
    }
}

fn own_pid() -> Pid {
    Pid::of_this_process()
}

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// Goal: the memory of a group goes to its home and what is in no group stays, also the thread; a
/// group that ended is told, and a home that was set anew is followed.
#[test]
fn groups_alone_are_placed() {
    let scene = Scene::new();
    let balancer = scene.start();
    let group = balancer.agent().make("half", &"1".parse().unwrap()).unwrap();
    group.add_memory(std::ptr::without_provenance(FIRST * 4096), PAGES / 2 * 4096).unwrap();
    scene.until("the half moved", || scene.pages_on_one() == [PAGES / 2, 0]);
    scene.until("it is told", || group.nodes().unwrap() == Some([NodeId(1)].into_iter().collect()));
    let rounds = balancer.status().rounds;
    scene.until("more rounds", || balancer.status().rounds > rounds + 20);
    assert_eq!(scene.pages_on_one(), [PAGES / 2, 0], "the rest is in no group");
    assert_eq!(scene.machine.process(own_pid()).unwrap().threads[&own_tid()].cpu, CpuId(0));
    assert_eq!(balancer.status().moved_pages, (PAGES / 2) as u64);
    group.add_current_thread().unwrap();
    assert_eq!(balancer.agent().group_of(own_tid()).unwrap(), Some(group.id()));
    let on_one = || scene.machine.process(own_pid()).unwrap().threads[&own_tid()].cpu.0 / 4 == 1;
    scene.until("the thread follows", on_one);
    group.set_home(&GroupHome::Nodes([NodeId(0)].into_iter().collect())).unwrap();
    scene.until("all is back", || scene.pages_on_one() == [0, 0] && !on_one());
    let same = balancer.agent().open(group.id());
    drop(group);
    assert!(matches!(same.nodes(), Err(GroupFailure::NoSuchGroup { .. })));
}

/// Goal: without groups there are no rounds; threads of others, ended ones and groups that are not
/// there are refused by their kinds, and nothing changes.
#[test]
fn what_is_not_ours_is_refused() {
    let scene = Scene::new();
    let balancer = scene.start();
    let agent = balancer.agent();
    thread::sleep(Duration::from_millis(20)); // of 1 ms each
    assert_eq!(balancer.status().rounds, 0);
    let group = agent.make("a", &GroupHome::Auto).unwrap();
    let refused = |tid: u32| group.add_thread(tid).unwrap_err();
    assert!(matches!(refused(1), GroupFailure::NotAllowed(words) if words.contains("process 1;")));
    let ended = thread::spawn(own_tid).join().unwrap();
    let task = format!("/proc/self/task/{ended}");
    wait_until("the thread is gone", || !Path::new(&task).exists());
    for tid in [ended, 0, u32::MAX] {
        assert!(matches!(refused(tid), GroupFailure::NoSuchThread { tid: it } if it == tid));
    }
    let none = agent.open(group.id() + 1);
    assert!(matches!(none.add_current_thread(), Err(GroupFailure::NoSuchGroup { .. })));
    assert!(matches!(none.delete(), Err(GroupFailure::NoSuchGroup { .. })));
    assert_eq!(agent.group_of(own_tid()).unwrap(), None);
    assert!(matches!(agent.make("a b", &GroupHome::Auto), Err(GroupFailure::Invalid(_))));
}

/// Goal: a process has one balancer; the next may come when it has ended, after which its groups
/// are refused with the reason.
#[test]
fn there_is_one_in_a_process() {
    let scene = Scene::new();
    let balancer = scene.start();
    let refused = OwnBalancer::start_on(scene.machine.clone(), &scene.options()).unwrap_err();
    assert!(matches!(refused, StartFailure::HasOne), "{refused}");
    let agent = balancer.agent();
    drop(balancer);
    let refused = agent.make("a", &GroupHome::Auto).unwrap_err();
    assert!(refused.to_string().contains("has ended: it was dropped"), "{refused}");
    drop(scene.start());
}

/// Goal: it makes way for an agent: none is started where one answers, and one that works ends when
/// an agent comes; where memory is then, it stays.
#[test]
fn it_makes_way_for_an_agent() {
    let scene = Scene::new();
    let balancer = scene.start();
    let group = balancer.agent().make("a", &GroupHome::Auto).unwrap();
    group.add_current_thread().unwrap();
    scene.until("it works", || balancer.status().rounds > 0);
    // It accepts nobody, but ends connections when it is dropped.
    let listener = UnixListener::bind(scene.socket()).unwrap();
    let accept = thread::spawn(move || listener.incoming().take(2).for_each(drop));
    scene.until("it ends", || balancer.status().ended.is_some());
    assert!(balancer.status().ended.unwrap().contains("an agent answers"));
    assert!(group.nodes().unwrap_err().to_string().contains("an agent answers"));
    drop(balancer);
    let refused = OwnBalancer::start_on(scene.machine.clone(), &scene.options()).unwrap_err();
    assert!(matches!(refused, StartFailure::AgentAnswers), "{refused}");
    accept.join().unwrap();
}

/// Goal: while the kernel balances, it does nothing and says so; it goes on afterwards.
#[test]
fn it_stands_back() {
    let scene = Scene::new();
    scene.machine.set_other_balancers(vec![OtherBalancer::Numad { pid: Pid::new(1).unwrap() }]);
    let balancer = scene.start();
    let group = balancer.agent().make("half", &"1".parse().unwrap()).unwrap();
    group.add_memory(std::ptr::without_provenance(FIRST * 4096), PAGES / 2 * 4096).unwrap();
    scene.until("rounds", || balancer.status().rounds > 12);
    let status = balancer.status();
    assert!(status.stands_back && status.rivals.len() == 1, "{status:?}");
    assert_eq!(scene.pages_on_one(), [0, 0]);
    scene.machine.set_other_balancers(Vec::new());
    scene.until("it goes on", || scene.pages_on_one() == [PAGES / 2, 0]);
}

/// Goal: in a child of fork(2) there is no balancer, whatever locks were taken: calls say so,
/// dropping the copy ends neither the parent's thread nor its groups.
#[test]
fn children_have_none() {
    let scene = Scene::new();
    let balancer = scene.start();
    let group = balancer.agent().make("a", &GroupHome::Auto).unwrap();
    let mut copy = Some(balancer);
    let child = run_in_child(|| {
        let balancer = copy.take().expect("a copy");
        let refused = balancer.agent().make("b", &GroupHome::Auto);
        let is_refused = matches!(refused, Err(GroupFailure::Failed(_)));
        let is_told = balancer.status().ended.is_some();
        drop(balancer);
        u8::from(!is_refused || !is_told)
    });
    assert_eq!(child.unwrap(), ChildExit::Code(0));
    let balancer = copy.expect("it is the parent's");
    assert_eq!(group.nodes().unwrap(), None);
    assert_eq!(balancer.status().ended, None);
}
