//! Groups by the agent: who is in which, whose they are, and how many there may be.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::{Barrier, mpsc};
use std::thread;

use nodeward_agent::client::Client;
use nodeward_agent::limits::{GROUPS_OF_USER_MAX, MEMBERS_MAX, PIECES_OF_USER_MAX};
use nodeward_balancer::{CalledPart, GroupRow, RoundReport, ThreadSet};
use nodeward_linux::test_wait::wait_for;
use nodeward_machine::fake::{FakeProcess, FakeThread};
use nodeward_model::{CpuId, Cpumask, GroupHome, NodeId, Pid};
use nodeward_policy::placement::{Decision, EntityId, Home, Reason, Verdict};
use serde_json::{Value, json};

use crate::authority::{Speaker, verdict};
use crate::stage::{Conversation, OTHER, Stage, Target, USER, is_root};

/// Calls a method of groups.
fn ask(talk: &mut Conversation, method: &str, parameters: &Value) -> Value {
    talk.call(&format!("io.nodeward.Groups.{method}"), parameters)
}

/// Calls a method of groups as a process of another user.
fn let_ask(speaker: &mut Speaker, method: &str, parameters: &Value) -> Value {
    speaker.call(&format!("io.nodeward.Groups.{method}"), parameters)
}

/// The name of the error of a reply, behind the last dot; "" if it is none.
fn error(reply: &Value) -> &str {
    reply["error"].as_str().map_or("", |name| name.rsplit('.').next().unwrap())
}

fn group(reply: &Value) -> u64 {
    reply["parameters"]["group"].as_u64().unwrap_or_else(|| panic!("{reply}"))
}

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Returns the part of this process that is in a group.
fn part(stage: &Stage, number: u32) -> Option<CalledPart> {
    let groups = stage.groups.lock();
    let us = Pid::of_this_process();
    groups.get(number)?.parts.iter().find(|(key, _)| key.0 == us).map(|(_, part)| part.clone())
}

/// Goal: the life of a group, by the client: made, filled with the calling thread and with memory,
/// sent to a home, told of, and deleted, when its thread belongs to its process again.
#[test]
fn from_the_first_call_to_the_last() {
    let stage = Stage::new();
    let us = Pid::of_this_process();
    let mut client = Client::connect(&stage.path()).unwrap();
    let number = client.create_group(&"kv".parse().unwrap(), &GroupHome::Auto).unwrap();
    client.add_threads(number, us, Some(&[own_tid()])).unwrap();
    client.add_memory(number, us, &["heap".parse().unwrap()]).unwrap();
    client.set_group_home(number, &"spread:0-1".parse().unwrap()).unwrap();

    let own = json!({ "thread": own_tid() });
    let mut of = |own: &Value| client.call("io.nodeward.Groups.GroupOf", own.clone()).unwrap();
    assert_eq!(of(&own), json!({ "group": number }));
    let list = client.groups().unwrap();
    let shown = &list.groups[0];
    assert_eq!(list.starts_unseen, None);
    assert_eq!((list.groups.len(), shown.group, shown.name.as_str()), (1, Some(number), "kv"));
    assert_eq!(shown.home.as_deref(), Some("spread:0-1"));
    let member = &shown.members[0];
    assert_eq!((member.pid, member.all_threads), (us, false));
    assert_eq!((&member.threads[..], &member.memory[..]), (&[own_tid()][..], &["heap".into()][..]));
    assert_eq!((shown.nodes.as_ref(), shown.reason.as_ref()), (None, None), "no round yet");

    client.delete_group(number).unwrap();
    assert!(client.groups().unwrap().groups.is_empty());
    let none = client.call("io.nodeward.Groups.GroupOf", own).unwrap();
    assert_eq!(none, json!({}));
    assert!(client.delete_group(number).unwrap_err().to_string().contains("no group 1 of yours"));
}

/// Goal: a thread that a member starts is in its group as soon as anybody asks, and keeps what a
/// later call says; where it is not known who starts whom, or records were lost, the list says so,
/// with what to do.
#[test]
fn started_threads_join_or_it_is_told() {
    let stage = Stage::new();
    let us = Pid::of_this_process();
    let mut client = Client::connect(&stage.path()).unwrap();
    let mut make = || client.create_group(&"a".parse().unwrap(), &GroupHome::Auto).unwrap();
    let (first, second) = (make(), make());
    client.add_threads(first, us, Some(&[own_tid()])).unwrap();
    let fake = FakeProcess {
        threads: [(own_tid(), FakeThread::new(CpuId(0), Cpumask::default(), 0))].into(),
        ..FakeProcess::default()
    };
    stage.machine.spawn(us, fake);
    let end = Barrier::new(2);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            tell.send(own_tid()).unwrap();
            end.wait();
        });
        let tid = told.recv().unwrap();
        stage.machine.start_thread(us, own_tid(), tid);
        let group_of = |client: &mut Client| {
            client.call("io.nodeward.Groups.GroupOf", json!({ "thread": tid })).unwrap()
        };
        assert_eq!(group_of(&mut client), json!({ "group": first }));
        client.add_threads(second, us, Some(&[tid])).unwrap();
        assert_eq!(group_of(&mut client), json!({ "group": second }));
        end.wait();
    });
    stage.machine.lose_thread_records();
    stage.machine.start_thread(us, own_tid(), 1);
    stage.machine.lose_thread_records();
    let words = |client: &mut Client| client.groups().unwrap().starts_unseen.unwrap();
    assert!(words(&mut client).starts_with("1 records of threads"), "{}", words(&mut client));

    stage.machine.deny_thread_records(Some("run as root"));
    for group in [first, second] {
        client.delete_group(group).unwrap();
    }
    let third = client.create_group(&"a".parse().unwrap(), &GroupHome::Auto).unwrap();
    client.add_threads(third, us, Some(&[own_tid()])).unwrap();
    assert!(words(&mut client).ends_with("run as root"), "{}", words(&mut client));
}

/// Goal: what is left out, or null as Varlink has it, is the default: a home of "auto", the caller,
/// its first thread, all threads.
#[test]
fn what_is_left_out_has_a_default() {
    let stage = Stage::new();
    let mut talk = stage.connect();
    for (number, home) in [(1, json!({ "name": "a" })), (2, json!({ "name": "a", "home": null }))] {
        assert_eq!(group(&ask(&mut talk, "Create", &home)), number, "names are no keys");
    }
    assert_eq!(error(&ask(&mut talk, "AddThreads", &json!({ "group": 2 }))), "");
    assert_eq!(part(&stage, 2).unwrap().threads, ThreadSet::All);
    let null = json!({ "group": 1, "pid": null, "threads": null });
    assert_eq!(error(&ask(&mut talk, "AddThreads", &null)), "");
    assert_eq!(part(&stage, 1).unwrap().threads, ThreadSet::All);
    assert_eq!(part(&stage, 2), None, "it lost its last member to the first, and ended");
    assert_eq!(group(&ask(&mut talk, "GroupOf", &json!({}))), 1);
}

/// Goal: of a list in which one thread is no thread of the process, none is taken: one of another
/// process, one that has ended, a number that no thread has.
#[test]
fn one_wrong_thread_refuses_the_list() {
    let stage = Stage::new();
    let mut talk = stage.connect();
    let number = group(&ask(&mut talk, "Create", &json!({ "name": "a" })));
    let other = stage.keep(Target::of_caller()).number();
    let gone = thread::spawn(own_tid).join().unwrap();
    let of_us = |tid: u32| fs::exists(format!("/proc/self/task/{tid}")).unwrap();
    wait_for("the thread is gone", || (!of_us(gone)).then_some(()));
    for tid in [other, gone, Pid::LIMIT] {
        let list = json!({ "group": number, "threads": [own_tid(), tid] });
        let refused = ask(&mut talk, "AddThreads", &list);
        assert_eq!(verdict(&refused), "no-such-thread", "{tid}: {refused}");
        assert_eq!(refused["parameters"]["pid"], tid);
        let asked = ask(&mut talk, "GroupOf", &json!({ "thread": tid }));
        assert_eq!(verdict(&asked), "no-such-thread", "{tid}");
    }
    for wrong in [json!(0), json!(-1), json!(Pid::LIMIT + 1), json!("1"), json!(1.5)] {
        let list = json!({ "group": number, "threads": [own_tid(), wrong] });
        assert_eq!(error(&ask(&mut talk, "AddThreads", &list)), "InvalidParameter", "{wrong}");
        let asked = ask(&mut talk, "GroupOf", &json!({ "thread": wrong }));
        assert_eq!(error(&asked), "InvalidParameter", "{wrong}");
    }
    assert_eq!(part(&stage, 1), None);
    assert_eq!(error(&ask(&mut talk, "GroupOf", &json!({ "thread": own_tid() }))), "");
}

/// Goal: memory is named in words, addresses are widened to whole pages of 4096 bytes, and of a
/// list with one word that is none, none is taken.
#[test]
fn memory_is_named_in_words() {
    let stage = Stage::new();
    let mut talk = stage.connect();
    let number = group(&ask(&mut talk, "Create", &json!({ "name": "a" })));
    for (wrong, words) in [
        ("cake", "file:PATTERN"),
        ("", "file:PATTERN"),
        ("2000-1000", "START-END"),
        ("1000-1000", "START-END"),
        ("1000-10000000000000000", "START-END"),
        ("0x1000-0x2000", "START-END"),
    ] {
        let list = json!({ "group": number, "memory": ["heap", wrong] });
        let refused = ask(&mut talk, "AddMemory", &list);
        assert_eq!(error(&refused), "InvalidParameter", "{wrong}");
        let told = refused["parameters"]["parameter"].as_str().unwrap();
        assert!(told.contains(words) && told.contains(wrong), "{wrong}: {told}");
    }
    let list = json!({ "group": number, "memory": ["heap", "file:"] });
    let refused = ask(&mut talk, "AddMemory", &list);
    assert!(refused["parameters"]["parameter"].as_str().unwrap().contains("4096 bytes"));
    assert_eq!(part(&stage, 1), None);
    let good = [
        "heap",
        "shared",
        "file:/dev/shm/kv*",
        "touched",
        "1001-2001",
        "ffffffffffffff00-ffffffffffffffff",
    ];
    let list = json!({ "group": number, "memory": good });
    assert_eq!(error(&ask(&mut talk, "AddMemory", &list)), "");
    let taken: Vec<_> = part(&stage, 1).unwrap().memory.iter().map(ToString::to_string).collect();
    assert_eq!(taken[..4], good[..4]);
    // From the page of 0x1001 to the end of that of 0x2000; the last address is in no whole page.
    assert_eq!(taken[4..], ["1000-3000", "fffffffffffff000-ffffffffffffffff"]);
}

/// Goal: names and homes that are none are refused with what is one.
#[test]
fn names_and_homes() {
    let stage = Stage::new();
    let mut talk = stage.connect();
    let long = "x".repeat(65);
    for name in ["", "-a", "a b", "a/b", "ä", "a\n", &long] {
        let refused = ask(&mut talk, "Create", &json!({ "name": name }));
        assert_eq!(error(&refused), "InvalidParameter", "{name}");
        let told = refused["parameters"]["parameter"].as_str().unwrap();
        assert!(told.contains("1 to 64"), "{told}");
    }
    for home in ["", "here", "spread:", "1-0", "!0", "-1"] {
        let refused = ask(&mut talk, "Create", &json!({ "name": "a", "home": home }));
        assert_eq!(error(&refused), "InvalidParameter", "{home}");
    }
    for strange in [json!({}), json!({ "name": 1 }), json!({ "name": "a", "color": "red" })] {
        assert_eq!(error(&ask(&mut talk, "Create", &strange)), "InvalidParameter", "{strange}");
    }
    let number = group(&ask(&mut talk, "Create", &json!({ "name": &long[..64], "home": "0,1" })));
    assert_eq!(number, 1, "none of those was made");
    let refused = ask(&mut talk, "SetHome", &json!({ "group": 1, "home": "nowhere" }));
    assert_eq!(error(&refused), "InvalidParameter");
    let groups = stage.groups.lock();
    assert_eq!(groups.get(1).unwrap().home.to_string(), "0-1");
}

/// Goal: a request names 4096 members at most and one at least, and a process has at most 4096
/// pieces of memory in a group: a list that would be too long changes nothing.
#[test]
fn requests_are_bounded() {
    let stage = Stage::new();
    let mut talk = stage.connect();
    let number = group(&ask(&mut talk, "Create", &json!({ "name": "a" })));
    let pages = |first: usize, count: usize| -> Vec<String> {
        (first..first + count)
            .map(|page| format!("{:x}-{:x}", page << 12, (page + 1) << 12))
            .collect()
    };
    for memory in [Vec::new(), pages(0, MEMBERS_MAX + 1)] {
        let refused = ask(&mut talk, "AddMemory", &json!({ "group": number, "memory": memory }));
        assert_eq!(error(&refused), "InvalidParameter");
    }
    for threads in [Vec::new(), vec![own_tid(); MEMBERS_MAX + 1]] {
        let refused = ask(&mut talk, "AddThreads", &json!({ "group": number, "threads": threads }));
        assert_eq!(error(&refused), "InvalidParameter");
    }
    let most = pages(0, MEMBERS_MAX - 1);
    assert_eq!(
        error(&ask(&mut talk, "AddMemory", &json!({ "group": number, "memory": most }))),
        ""
    );
    let over = pages(MEMBERS_MAX, 2);
    let refused = ask(&mut talk, "AddMemory", &json!({ "group": number, "memory": over }));
    assert_eq!(error(&refused), "LimitReached", "{refused}");
    assert_eq!(part(&stage, 1).unwrap().memory.len(), MEMBERS_MAX - 1);
    let last = json!({ "group": number, "memory": &over[..1] });
    assert_eq!(error(&ask(&mut talk, "AddMemory", &last)), "");
    let threads = vec![own_tid(); MEMBERS_MAX];
    let many = json!({ "group": number, "threads": threads });
    assert_eq!(error(&ask(&mut talk, "AddThreads", &many)), "");
    assert_eq!(part(&stage, 1).unwrap().threads, ThreadSet::These(BTreeSet::from([own_tid()])));
}

/// Goal: a user has 256 groups and 16,384 pieces of memory in them; root has more.
#[test]
fn users_are_bounded() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let Some(mut user) = Speaker::of(&stage, USER, USER) else { return };
    for number in 1..=GROUPS_OF_USER_MAX as u64 {
        assert_eq!(group(&let_ask(&mut user, "Create", &json!({ "name": "a" }))), number);
    }
    let refused = let_ask(&mut user, "Create", &json!({ "name": "a" }));
    assert_eq!(error(&refused), "LimitReached");
    assert!(refused["parameters"]["message"].as_str().unwrap().contains("delete some"));
    let mut root = stage.connect();
    let own = group(&ask(&mut root, "Create", &json!({ "name": "a" })));
    assert_eq!(error(&let_ask(&mut user, "Delete", &json!({ "group": 1 }))), "");
    assert_eq!(group(&let_ask(&mut user, "Create", &json!({ "name": "b" }))), own + 1);

    let files = |group: usize| -> Vec<String> {
        (0..MEMBERS_MAX).map(|file| format!("file:/{group}/{file}")).collect()
    };
    let full = PIECES_OF_USER_MAX / MEMBERS_MAX; // 4 groups of 4096 pieces each
    for number in 2..2 + full {
        let list = json!({ "group": number, "memory": files(number) });
        assert_eq!(error(&let_ask(&mut user, "AddMemory", &list)), "");
    }
    let more = json!({ "group": 2 + full, "memory": ["heap"] });
    let refused = let_ask(&mut user, "AddMemory", &more);
    assert_eq!(error(&refused), "LimitReached", "{refused}");
    assert_eq!(error(&let_ask(&mut user, "Delete", &json!({ "group": 2 }))), "");
    assert_eq!(error(&let_ask(&mut user, "AddMemory", &more)), "");
}

/// Goal: a group is nobody's but its owner's, and a user's group takes what that user may touch: of
/// another user it has neither threads nor memory. Root may all.
#[test]
fn groups_have_owners() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let Some(mut owner) = Speaker::of(&stage, USER, USER) else { return };
    let mut other = Speaker::of(&stage, OTHER, OTHER).unwrap();
    let (own, others) = (owner.0.pid(), other.0.pid());
    let number = group(&let_ask(&mut owner, "Create", &json!({ "name": "a" })));
    let requests = |pid: Pid| {
        [
            ("AddThreads", json!({ "group": number, "pid": pid })),
            ("AddThreads", json!({ "group": number, "pid": pid, "threads": [pid] })),
            ("AddMemory", json!({ "group": number, "pid": pid, "memory": ["heap"] })),
        ]
    };
    for (method, parameters) in requests(others) {
        let refused = let_ask(&mut other, method, &parameters);
        assert_eq!(error(&refused), "NoSuchGroup", "{method}: {refused}");
        let refused = let_ask(&mut owner, method, &parameters);
        assert_eq!(verdict(&refused), "other-user", "{method}");
    }
    let home = json!({ "group": number, "home": "1" });
    for (method, parameters) in [("SetHome", &home), ("Delete", &json!({ "group": number }))] {
        assert_eq!(error(&let_ask(&mut other, method, parameters)), "NoSuchGroup", "{method}");
    }
    let asked = let_ask(&mut other, "GroupOf", &json!({ "pid": own }));
    assert_eq!(verdict(&asked), "other-user");
    let listed = let_ask(&mut other, "List", &json!({}));
    assert_eq!(listed["parameters"]["groups"], json!([]));

    let mut root = stage.connect();
    for (method, parameters) in requests(others) {
        assert_eq!(error(&ask(&mut root, method, &parameters)), "", "{method}");
    }
    assert_eq!(error(&ask(&mut root, "SetHome", &home)), "");
    assert_eq!(group(&ask(&mut root, "GroupOf", &json!({ "pid": others }))), number);
    // The owner sees the group as it is now, without those members that are not its to see.
    let listed = let_ask(&mut owner, "List", &json!({}));
    let shown = &listed["parameters"]["groups"][0];
    assert_eq!((&shown["home"], &shown["members"]), (&json!("1"), &json!([])));
    let listed = ask(&mut root, "List", &json!({}));
    assert_eq!(listed["parameters"]["groups"][0]["uid"], USER);
    assert_eq!(listed["parameters"]["groups"][0]["members"][0]["pid"], json!(others));
    assert_eq!(error(&let_ask(&mut owner, "Delete", &json!({ "group": number }))), "");
}

/// Goal: a group outlives who made it: another process of the same user goes on with it, and when
/// that has ended, too, root still sees whose it is.
#[test]
fn groups_outlive_their_makers() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let Some(mut maker) = Speaker::of(&stage, USER, USER) else { return };
    let member = stage.keep(Target::of(USER, USER));
    let number = group(&let_ask(&mut maker, "Create", &json!({ "name": "a" })));
    let add = json!({ "group": number, "pid": member, "memory": ["heap"] });
    assert_eq!(error(&let_ask(&mut maker, "AddMemory", &add)), "");
    drop(maker);
    let mut next = Speaker::of(&stage, USER, USER).unwrap();
    let home = json!({ "group": number, "home": "1" });
    assert_eq!(error(&let_ask(&mut next, "SetHome", &home)), "");
    drop(next);
    let shown = ask(&mut stage.connect(), "List", &json!({}))["parameters"]["groups"][0].clone();
    assert_eq!([&shown["uid"], &shown["home"]], [&json!(USER), &json!("1")]);
    assert_eq!(shown["members"][0]["pid"], json!(member));
}

/// Goal: in a pid namespace of its own a process names threads by its own numbers, of which the
/// balancer knows ours.
#[test]
fn threads_have_the_numbers_of_the_caller() {
    if !is_root() {
        return;
    }
    if !Command::new("unshare")
        .args(["--pid", "--fork", "true"])
        .status()
        .is_ok_and(|it| it.success())
    {
        eprintln!("skipped: no pid namespace can be made here");
        return;
    }
    let stage = Stage::new();
    let Some((mut speaker, first)) = Speaker::in_pid_namespace(&stage) else { return };
    let number = group(&let_ask(&mut speaker, "Create", &json!({ "name": "a" })));
    for threads in [[first.number()], [2]] {
        let ours =
            let_ask(&mut speaker, "AddThreads", &json!({ "group": number, "threads": threads }));
        assert_eq!(verdict(&ours), "no-such-thread", "{threads:?}");
    }
    let own = json!({ "group": number, "pid": 1, "threads": [1] });
    assert_eq!(error(&let_ask(&mut speaker, "AddThreads", &own)), "");
    {
        let groups = stage.groups.lock();
        let (key, part) = groups.get(1).unwrap().parts.first_key_value().unwrap();
        assert_eq!(key.0, first);
        assert_eq!(part.threads, ThreadSet::These(BTreeSet::from([first.number()])));
    }
    assert_eq!(group(&let_ask(&mut speaker, "GroupOf", &json!({ "thread": 1 }))), number);
    let listed = let_ask(&mut speaker, "List", &json!({}));
    let member = &listed["parameters"]["groups"][0]["members"][0];
    assert_eq!((&member["pid"], &member["threads"]), (&json!(1), &json!([1])));
}

/// Goal: where groups belong is told by their numbers: threads and memory by the last round, and no
/// nodes before one; groups that are not there, and those of other users, are left out. Memory that
/// the process moves itself is marked, and only addresses can be.
#[test]
fn groups_belong_to_nodes() {
    let stage = Stage::new();
    let mut talk = stage.connect();
    let number = group(&ask(&mut talk, "Create", &json!({ "name": "a" })));
    let asked = json!({ "groups": [number, number + 1] });
    let told = |talk: &mut Conversation| ask(talk, "NodesOf", &asked)["parameters"].clone();
    assert_eq!(told(&mut talk), json!({ "groups": [{ "group": number }] }));
    let home = Home::Interleave { threads: NodeId(1), memory: "0-1".parse().unwrap() };
    let row = GroupRow { home: Some(home), ..row("a", u32::try_from(number).ok()) };
    stage.agent.publish(&RoundReport { groups: vec![row], ..Default::default() });
    let nodes = json!({ "group": number, "nodes": [1], "memory_nodes": [0, 1] });
    assert_eq!(told(&mut talk), json!({ "groups": [nodes] }));
    assert_eq!(error(&ask(&mut talk, "NodesOf", &json!({ "groups": [] }))), "InvalidParameter");

    let memory = |words: &[&str]| json!({ "group": number, "memory": words, "self_moved": true });
    assert_eq!(error(&ask(&mut talk, "AddMemory", &memory(&["heap"]))), "InvalidParameter");
    assert_eq!(error(&ask(&mut talk, "AddMemory", &memory(&["1000-3000", "5000-5001"]))), "");
    let listed = ask(&mut talk, "List", &json!({}));
    let member = &listed["parameters"]["groups"][0]["members"][0];
    assert_eq!(member["self_moved"], json!(["1000-3000", "5000-6000"]));
    assert_eq!(member["memory"], member["self_moved"]);
    if let Some(mut other) = is_root().then(|| Speaker::of(&stage, OTHER, OTHER)).flatten() {
        let none = let_ask(&mut other, "NodesOf", &asked);
        assert_eq!(none["parameters"], json!({ "groups": [] }));
    }
}

/// Goal: a home that does not exist is refused, with the nodes that do; nothing changes.
#[test]
fn homes_that_do_not_exist() {
    let stage = Stage::new();
    let mut asks = stage.connect();
    let mut refused = |method: &str, parameters: Value| {
        let reply = asks.call(&format!("io.nodeward.Groups.{method}"), &parameters);
        (reply["error"].clone(), reply["parameters"]["parameter"].clone())
    };
    let invalid = json!("org.varlink.service.InvalidParameter");
    for home in ["9", "0,9", "spread:0,9"] {
        let told = json!("home: there is no node 9; there are 0-1");
        let made = refused("Create", json!({ "name": "kv", "home": home }));
        assert_eq!(made, (invalid.clone(), told));
    }
    refused("Create", json!({ "name": "kv", "home": "1" }));
    let set = refused("SetHome", json!({ "group": 1, "home": "7" }));
    assert_eq!(set, (invalid, json!("home: there is no node 7; there are 0-1")));
    let listed = asks.call("io.nodeward.Groups.List", &json!({}));
    assert_eq!(listed["parameters"]["groups"][0]["home"], "1");
}

/// A row of a round about a group.
fn row(name: &str, called: Option<u32>) -> GroupRow {
    GroupRow {
        name: name.parse().unwrap(),
        called,
        home: Some(Home::Node(NodeId(1))),
        decision: Decision::new(EntityId(1), Verdict::Stays, Reason::RunsThere),
        changed: true,
        processes: Vec::new(),
        threads: [(NodeId(0), 1), (NodeId(1), 3)].into(),
        residency: [(NodeId(1), 500)].into(),
        done: Default::default(),
    }
}

/// Goal: what a round said of a group stands beside it: where it is, why, and its threads and pages
/// by node. Groups of the settings are told to root only.
#[test]
fn rounds_are_told() {
    let stage = Stage::new();
    let mut client = Client::connect(&stage.path()).unwrap();
    let number = client.create_group(&"a".parse().unwrap(), &GroupHome::Auto).unwrap();
    let groups = vec![row("a", Some(number)), row("rule", None)];
    stage.agent.publish(&RoundReport { round: 7, groups, ..Default::default() });
    let told = client.groups().unwrap().groups;
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(told.len(), if is_root { 2 } else { 1 });
    for group in &told {
        assert_eq!(group.nodes, Some(vec![NodeId(1)]));
        assert_eq!(group.reason.as_deref(), Some("runs-there"));
        assert_eq!(group.threads, [(NodeId(0), 1), (NodeId(1), 3)].into());
        assert_eq!(group.pages, [(NodeId(1), 500)].into());
    }
    assert_eq!((told[0].group, told[0].members.len()), (Some(number), 0));
}
