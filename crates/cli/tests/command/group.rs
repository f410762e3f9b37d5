//! `nodeward group`, with the agent of a daemon on this machine. Homes on several nodes are in the
//! lab: this machine may have one.

use std::process::Output;

use serde_json::{Value, json};

use crate::agent::Place;
use crate::outcome::NODEWARD;
use crate::placement::Sleeper;

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn groups(place: &Place) -> Vec<Value> {
    let listed: Value =
        serde_json::from_str(&text(&place.run(&["group", "list", "--json"]))).unwrap();
    assert_eq!(listed["schema"], "nodeward.groups/1");
    listed["groups"].as_array().unwrap().clone()
}

fn own_pid() -> String {
    std::process::id().to_string()
}

/// Goal: a group is made, gets members and another home, is listed with them, and is deleted; each
/// by its number and by its name.
#[test]
fn a_group_from_its_beginning_to_its_end() {
    let place = Place::start();
    let pid = own_pid();
    assert!(text(&place.run(&["group", "list"])).starts_with("no group is known"));
    assert_eq!(text(&place.run(&["group", "create", "kv", "--home", "spread:0"])), "1\n");
    let made = text(&place.run(&["group", "create", "wal", "--json"]));
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!((&made["group"], &made["name"]), (&json!(2), &json!("wal")));
    text(&place.run(&["group", "add", "kv", &pid, "--thread", &pid, "--memory", "heap"]));
    text(&place.run(&["group", "set-home", "kv", "0"]));
    assert_eq!(groups(&place)[0]["home"], "0");
    text(&place.run(&["group", "add", "2", &pid]));
    let listed = groups(&place);
    assert_eq!(listed.len(), 1, "the whole process went to the second: {listed:?}");
    assert_eq!(listed[0]["name"], "wal");
    assert_eq!(listed[0]["members"][0]["pid"], json!(std::process::id()));
    assert_eq!(listed[0]["members"][0]["all_threads"], true);
    let memory = json!(["heap", "stack", "anonymous", "shared", "huge"]);
    assert_eq!(listed[0]["members"][0]["memory"], memory);
    place.daemon.round_with(|round| round["groups"][0]["processes"] == json!([std::process::id()]));
    assert!(text(&place.run(&["group", "list"])).starts_with("group 2 wal: "));
    text(&place.run(&["group", "delete", "wal"]));
    assert!(groups(&place).is_empty());
}

/// Goal: all processes that have a name, and all of a list, are put into a group by one command.
#[test]
fn several_processes_are_added() {
    let place = Place::start();
    let sleepers = [Sleeper::start(), Sleeper::start()];
    let pids = sleepers.each_ref().map(|sleeper| sleeper.pid().to_string());
    text(&place.run(&["group", "create", "kv"]));
    let members = || -> Vec<String> {
        let groups = groups(&place);
        let members = groups[0]["members"].as_array().unwrap();
        members.iter().map(|member| member["pid"].to_string()).collect()
    };
    text(&place.run(&["group", "add", "kv", &pids[0], &pids[1], "--memory", "heap"]));
    let mut expected = pids.to_vec();
    expected.sort_by_key(|pid| pid.parse::<u32>().unwrap());
    assert_eq!(members(), expected);
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pids[0])).unwrap();
    text(&place.run(&["group", "add", "kv", "--name", name.trim()]));
    let found = members();
    assert!(pids.iter().all(|pid| found.contains(pid)), "{found:?}");
}

/// Goal: what is wrong is named, with what to do, and changes nothing.
#[test]
fn mistakes_are_named() {
    let place = Place::start();
    let pid = own_pid();
    text(&place.run(&["group", "create", "kv"]));
    text(&place.run(&["group", "create", "twice"]));
    text(&place.run(&["group", "create", "twice"]));
    for (words, code, told) in [
        (&["group", "create", "a b"][..], 2, "is no group name"),
        (&["group", "create", "7"], 2, "is no group name"),
        (&["show"], 2, "name a pid"),
        (&["group", "create", "x", "--home", "left"], 2, "is no home"),
        (&["group", "add", "kv", &pid, "--memory", "all"], 2, "is no memory"),
        (&["group", "add", "other", &pid], 2, "no group made by calls is called 'other'"),
        (&["group", "add", "9", &pid], 2, "no group 9 of yours"),
        (&["group", "delete", "twice"], 2, "groups 2, 3 are called 'twice': give the number"),
        (
            &["group", "add", "kv", &pid, "--thread", "1"],
            5,
            "thread 1: it is no thread of the process",
        ),
        (&["group", "add", "kv", "4194304"], 5, "no such process"),
        (&["group", "add", "kv", &pid, "1", "--thread", &pid], 2, "--thread is about one process"),
        (&["group", "add", "kv", "--name", "no-such-name"], 2, "no process is called"),
        (&["group", "add", "kv", "--cgroup", "/no/such/group"], 2, "is not a control group here"),
        (&["group", "add", "kv"], 2, "pid"),
    ] {
        let output = place.run(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(shown.to_lowercase().contains(told), "{words:?}: {shown}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    let listed = groups(&place);
    assert_eq!(listed.iter().filter(|group| group["members"] == json!([])).count(), 3);
}

/// Goal: without an agent the error says where it was looked for and how to start one.
#[test]
fn no_agent_is_said() {
    let output = std::process::Command::new(NODEWARD)
        .args(["group", "list", "--agent=/nonexistent/socket"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(shown.contains("no agent answers at /nonexistent/socket"), "{shown}");
    assert_eq!(output.status.code(), Some(3));
}

/// Goal: groups and members go on after the daemon was killed, also right after its answer: each is
/// written before the answer, and no round has to end.
#[test]
fn groups_outlive_the_daemon() {
    let mut place = Place::start();
    text(&place.run(&["group", "create", "kv"]));
    place.restart();
    text(&place.run(&["group", "add", "kv", &own_pid(), "--memory", "heap"]));
    place.restart();
    let listed = groups(&place);
    assert_eq!((&listed[0]["group"], &listed[0]["name"]), (&json!(1), &json!("kv")));
    assert_eq!(listed[0]["members"][0]["memory"], json!(["heap"]));
    assert_eq!(
        text(&place.run(&["group", "create", "next"])),
        "2\n",
        "numbers are not given twice"
    );
}

/// Goal: a proposal for a process is a settings file that a dry run takes.
#[test]
fn a_proposal_is_a_settings_file() {
    let words = ["group", "propose", "1000", "--machine", "sim:balance-grouped"];
    let output = std::process::Command::new(NODEWARD).args(words).output().unwrap();
    let proposed = text(&output);
    assert!(proposed.contains("# 16 threads\n[group.pools]\n"), "{proposed}");
    assert!(proposed.contains("match = [\"command:pools thread:pools-*\"]"), "{proposed}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.toml");
    std::fs::write(&file, &proposed).unwrap();
    let shown = std::process::Command::new(NODEWARD)
        .args(["--config".as_ref(), file.as_os_str(), "config".as_ref(), "print".as_ref()])
        .output()
        .unwrap();
    assert!(text(&shown).contains("thread:pools-*"), "{shown:?}");
}

/// Goal: with `--for` a proposal tells whose memory the threads touch, by samples: the only group
/// touches its own. It still is a settings file, and JSON has the same.
#[test]
fn a_proposal_tells_who_touches_what() {
    let words = "group propose 1000 --machine sim:balance-grouped --for 2s";
    let run =
        |words: &str| std::process::Command::new(NODEWARD).args(words.split(' ')).output().unwrap();
    let proposed = text(&run(words));
    assert!(proposed.contains("# Their accesses were observed by registers, in"), "{proposed}");
    let own = "; who touches their memory most: themselves 100 % (";
    assert!(proposed.contains(own), "{proposed}");
    assert!(proposed.parse::<toml::Table>().is_ok(), "{proposed}");
    let json: Value = serde_json::from_str(&text(&run(&format!("{words} --json")))).unwrap();
    assert_eq!(json["source"], "registers");
    assert_eq!(json["groups"][0]["touches_ppm"], json!({ "pools": 1_000_000 }));
    assert!(json["groups"][0]["samples"].as_u64() > Some(1_000), "{json}");
}
