//! Groups of threads and memory on a real kernel: by calls at the agent, by rules of the
//! settings, and by a balancer in the program.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use nodeward::{
    FollowOptions, FollowedRange, GroupAgent, GroupHome, HomeFollower, MoveTime, NodeId, PageSize,
    Region,
};
use nodeward_linux::interference::TestThread;
use nodeward_linux::test_wait::wait_until;
use nodeward_own_balancer::{OwnBalancer, OwnOptions};
use serde_json::Value;

use super::pager::{MIB, NODES, assert_filled, on_node, pager, pages, pages_by_node, region};

use crate::balancer::{StateDir, disable_numa_balancing, is_mostly_on, pid_options};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{UNPRIVILEGED_USER, last_cpu, write};
use crate::load::LoadProcess;
use crate::nodeward::{nodeward_as, run_command};

pub const CASES: [(&str, CaseFn); 4] = [
    ("groups_by_calls", by_calls),
    ("groups_by_rules", by_rules),
    ("groups_of_a_region", of_a_region),
    ("groups_without_an_agent", without_an_agent),
];

/// Goal: two processes of a user without privileges are one group by its calls: memory of both, and
/// as many threads as it has CPUs for, go to the home that is set, to either node in turn, whatever
/// that saves, and no word is lost. The list tells where they are, each page that moved is in the
/// ledger, and the other user's group is not theirs.
fn by_calls() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("groups");
    let path = place.path().join("agent.sock");
    let loads =
        [(); 2].map(|()| LoadProcess::start_as(UNPRIVILEGED_USER, "--node 0 --unbind --size 8MiB"));
    let options = pid_options(&loads.each_ref());
    let mut balance = place.start(&format!("{options} --socket {}", path.display()));
    balance.next_round();
    let agent = format!("--agent={}", path.display());
    let group = |words: &str| nodeward_as(UNPRIVILEGED_USER, &format!("group {words} {agent}"));
    let done = |words: &str| {
        let output = group(words);
        assert_eq!(output.code, 0, "{output:?}");
        output.stdout
    };
    assert_eq!(done("create pair --home 1"), "1\n");
    for load in &loads {
        done(&format!("add pair {}", load.pid()));
    }
    let others = run_command(&mut place.command(&format!("group create others {agent}")));
    assert_eq!(others.stdout, "2\n", "{others:?}");
    group("set-home 2 0").assert_refused(2, &["no group 2 of yours"]);
    for node in [1, 0, 1] {
        done(&format!("set-home pair {node}"));
        // The node has one CPU, so one of two busy threads may stay where the other CPU is idle.
        balance.wait_for_round("memory of both is there, and a thread", |_| {
            let runs_there = |load: &LoadProcess| last_cpu(&load.other_thread()) == u64::from(node);
            loads.iter().all(|load| is_mostly_on(load, node)) && loads.iter().any(runs_there)
        });
    }
    let listed: Value = serde_json::from_str(&done("list --json")).expect("JSON");
    let pair = &listed["groups"][0];
    assert_eq!((&pair["name"], &pair["nodes"][0]), (&"pair".into(), &1.into()), "{listed}");
    assert_eq!(pair["members"].as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(listed["groups"].as_array().map(Vec::len), Some(1), "{listed}");
    println!("{}", done("list"));
    done("delete pair");
    let moved = balance.stop().assert_success().moved_pages;
    let ledger = place.ledger();
    let told: u64 = ledger.iter().filter_map(|one| one["moved_pages"].as_u64()).sum();
    assert_eq!(told, moved, "{ledger:?}");
    loads.into_iter().for_each(|load| _ = load.end());
    Ok(())
}

/// Goal: a rule of the settings brings what it names to its home, and nothing else: the anonymous
/// memory and the threads of one process of two, which are told apart by their pids.
fn by_rules() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("group-rules");
    let loads = [(); 2].map(|()| LoadProcess::start("--node 0 --unbind --size 8MiB"));
    let file = place.path().join("settings.toml");
    let home = |node: u32, load: &LoadProcess| {
        let member = format!("command:nodeward-load pid:{}", load.pid());
        format!("[group.g{node}]\nmatch = ['{member}']\nmemory = ['anonymous']\nhome = '{node}'\n")
    };
    let text = home(1, &loads[0]) + &home(0, &loads[1]);
    write(&file.to_string_lossy(), &text);
    let options = pid_options(&loads.each_ref());
    let mut balance = place.start(&format!("{options} --config {}", file.display()));
    balance.wait_for_round("each is where its rule says", |_| {
        is_mostly_on(&loads[0], 1)
            && is_mostly_on(&loads[1], 0)
            && last_cpu(&loads[0].other_thread()) == 1
            && last_cpu(&loads[1].other_thread()) == 0
    });
    write(&file.to_string_lossy(), &(home(1, &loads[1]) + &home(0, &loads[0])));
    balance.reload_and_next_round();
    balance.wait_for_round("each is where its new rule says", |_| {
        is_mostly_on(&loads[0], 0) && is_mostly_on(&loads[1], 1)
    });
    balance.stop().assert_success();
    loads.into_iter().for_each(|load| _ = load.end());
    Ok(())
}

const BYTES: usize = 16 * MIB;
/// The part whose pages move at once; the rest moves on touch.
const AT_ONCE: Range<usize> = 0..BYTES / 2;
const ON_TOUCH: Range<usize> = BYTES / 2..BYTES;

/// Goal: memory of a region goes to the home of its group by the pager of its process, a part at
/// once, and a part when threads there touch it; the balancer moves none of it; no word is lost.
/// The group's busy thread was started by a member, and so is one.
fn of_a_region() -> CaseOutcome {
    disable_numa_balancing()?;
    let pager = pager(0)?;
    let region = Arc::new(region(&pager, BYTES, PageSize::Base, NODES[0]));
    let place = StateDir::new("group-region");
    let socket = place.path().join("agent.sock");
    let mut balance =
        place.start(&format!("--pid {} --socket {}", std::process::id(), socket.display()));
    balance.next_round();
    let agent = GroupAgent::at(&socket);
    let group = agent.make("region", &home_on(NODES[1])).expect("a group");
    let worker = thread::scope(|scope| {
        let starter = scope.spawn(|| {
            group.add_current_thread().expect("it joins");
            TestThread::start(true).expect("a thread starts")
        });
        starter.join().expect("it ends")
    });
    assert_eq!(agent.group_of(worker.tid).expect("an answer"), Some(group.id()));
    let options = FollowOptions { interval: Duration::from_millis(50), ..Default::default() };
    let follower = HomeFollower::start(options).expect("a thread starts");
    for (range, time) in [(AT_ONCE, MoveTime::AtOnce), (ON_TOUCH, MoveTime::OnTouch)] {
        follower.add(&group, &region, range, time).expect("it is followed");
    }
    for (turn, node) in [(1, NODES[1]), (2, NODES[0])] {
        group.set_home(&home_on(node)).expect("the group is there");
        balance.wait_for_round("the region follows", |_| is_followed(&follower, node, turn));
        assert_eq!(pages_by_node(&region, AT_ONCE), [(node.0, pages(BYTES / 2))].into());
        assert_eq!(pages_by_node(&region, ON_TOUCH), [].into());
        on_node(node, || touch(&region));
        assert_eq!(pages_by_node(&region, ON_TOUCH), [(node.0, pages(BYTES / 2))].into());
    }
    assert_filled(&region);
    drop((follower, group));
    balance.stop().assert_success();
    let start = region.as_ptr() as u64;
    let addresses = start..start + BYTES as u64;
    let moved = place.ledger();
    let moved = moved.iter().flat_map(|operation| place.moved_addresses(operation));
    assert_eq!(moved.filter(|address| addresses.contains(address)).count(), 0);
    Ok(())
}

/// Goal: a program without an agent and without another process balances its own groups: memory of
/// a region goes to each home by the balancer's moves, a part of it by the pager when threads there
/// touch it; a thread of the group goes there, too; no word is lost.
fn without_an_agent() -> CaseOutcome {
    disable_numa_balancing()?;
    let pager = pager(0)?;
    let region = Arc::new(region(&pager, BYTES, PageSize::Base, NODES[0]));
    let agent = GroupAgent::at(Path::new("/tmp/no-agent.sock"));
    let balancer = OwnBalancer::start(&OwnOptions { agent, ..OwnOptions::default() });
    let balancer = balancer.expect("it starts");
    let group = balancer.agent().make("own", &home_on(NODES[1])).expect("a group");
    let worker = TestThread::start_with(half_busy).expect("a thread starts");
    group.add_thread(worker.tid).expect("it joins");
    group.add_memory(region.as_ptr(), AT_ONCE.end).expect("it joins");
    let follower = HomeFollower::start(FollowOptions::default()).expect("a thread starts");
    follower.add(&group, &region, ON_TOUCH, MoveTime::OnTouch).expect("it is followed");
    for (turn, node) in [(1, NODES[1]), (2, NODES[0])] {
        group.set_home(&home_on(node)).expect("the group is there");
        let half = [(node.0, pages(BYTES / 2))].into();
        wait_for_rounds("the memory is there", || pages_by_node(&region, AT_ONCE) == half);
        wait_for_rounds("the rest waits for threads", || {
            follower.ranges()[0].lazy_pages == turn * pages(BYTES / 2)
        });
        on_node(node, || touch(&region));
        assert_eq!(pages_by_node(&region, ON_TOUCH), half);
        let worker = worker.tid.to_string();
        wait_for_rounds("the thread is there", || last_cpu(&worker) == u64::from(node.0));
    }
    let status = balancer.status();
    println!("{status:?}");
    assert_eq!((status.moved_pages, status.ended), (2 * pages(BYTES / 2), None));
    assert_filled(&region);
    drop((follower, group, balancer));
    assert_filled(&region);
    Ok(())
}

/// Uses a CPU half of the time: a node has one, and the balancer's thread needs a few hundredths of
/// it. A thread that wants all of it stays away (home-busy).
fn half_busy() {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(5) {}
    thread::sleep(Duration::from_millis(5));
}

/// Waits for what rounds do, and looks as rarely as they are made: no thread is brought to a node
/// that this thread keeps busy.
fn wait_for_rounds(what: &str, mut is_so: impl FnMut() -> bool) {
    let interval = OwnOptions::default().interval;
    wait_until(what, || {
        thread::sleep(interval);
        is_so()
    });
}

fn home_on(node: NodeId) -> GroupHome {
    GroupHome::Nodes([node].into_iter().collect())
}

/// Whether both parts were brought to a node, the first one whole, at the `turn`th home.
fn is_followed(follower: &HomeFollower, node: NodeId, turn: u64) -> bool {
    let is_there = |told: &FollowedRange| {
        let home = told.home.as_ref();
        home.is_some_and(|home| home.iter().eq([node])) && told.failure.is_none()
    };
    let ranges = follower.ranges();
    println!("{ranges:?}");
    let all = turn * pages(BYTES / 2);
    ranges.iter().all(is_there) && ranges[0].moved_pages == all && ranges[1].lazy_pages == all
}

/// Reads a word of each page that moves on touch.
fn touch(region: &Region) {
    let words = &region.words()[ON_TOUCH.start / 8..ON_TOUCH.end / 8];
    words.iter().step_by(512).for_each(|word| _ = word.load(Relaxed));
}
