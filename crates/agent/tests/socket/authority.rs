//! The processes that a caller may touch. Each line of the table is a real process with real
//! credentials; the rule itself is checked as a pure function below.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nodeward_agent::authority::{Refusal, Rights};
use nodeward_agent::client::Client;
use nodeward_agent::wire::Order;
use nodeward_linux::test_wait::{wait_for, wait_until};
use nodeward_linux::{Credentials, NamespaceId, own_credentials};
use nodeward_model::Pid;
use serde_json::{Value, json};

use crate::move_work::{saved, spread};
use crate::stage::{OTHER, Stage, Target, USER, is_root, order};

/// The program that speaks for another user: it connects, sends the lines that it reads, and prints
/// what it hears. Perl is where every user may execute it; our own programs need not be.
const SPEAKER: &str = r#"
use Socket;
$SIG{PIPE} = "IGNORE";
socket(S, AF_UNIX, SOCK_STREAM, 0) or die;
connect(S, sockaddr_un($ARGV[0])) or die;
FORK
$| = 1;
print "ready\n";
while (defined($line = <STDIN>)) {
    chomp $line;
    syswrite(S, "$line\0");
    { local $/ = "\0"; $heard = <S>; chomp $heard; }
    print "$heard\n";
}
"#;

/// A process of another user that talks with the agent.
pub struct Speaker(pub Target);

impl Speaker {
    pub fn start(stage: &Stage, change: impl FnOnce(&mut Command)) -> Option<Self> {
        if Command::new("perl").arg("-v").output().is_err() {
            eprintln!("skipped: perl is missing, which speaks for another user");
            return None;
        }
        let mut command = Command::new("perl");
        command.args(["-e", &SPEAKER.replace("FORK", "")]).arg(stage.path());
        change(&mut command);
        Some(Self(Target::start(&mut command)))
    }

    /// Starts a speaker with these ids; `None` without the right to do so.
    pub fn of(stage: &Stage, user: u32, group: u32) -> Option<Self> {
        Self::start(stage, |command| {
            command.uid(user).gid(group);
        })
    }

    /// One that is process 1 of a pid namespace of its own, with its number outside.
    pub fn in_pid_namespace(stage: &Stage) -> Option<(Self, Pid)> {
        let user = USER.to_string();
        let speaker = Self::start(stage, |command| {
            let inner = std::mem::replace(command, Command::new("unshare"));
            command.args(["--pid", "--fork", "--kill-child", "setpriv", "--reuid", &user]);
            command.args(["--regid", &user, "--clear-groups"]);
            command.arg(inner.get_program()).args(inner.get_args());
        })?;
        let children = format!("/proc/{0}/task/{0}/children", speaker.0.pid());
        let first = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
        Some((speaker, first))
    }

    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let text = json!({ "method": method, "parameters": parameters });
        writeln!(self.0.0.stdin.as_mut().unwrap(), "{text}").unwrap();
        let mut line = String::new();
        BufReader::new(self.0.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Asks for the memory of a process, and returns the reason of the refusal, or `allowed`.
    fn asks_about(&mut self, pid: Pid) -> String {
        verdict(&self.call("io.nodeward.Residency.Show", &json!({ "pid": pid })))
    }
}

pub fn verdict(reply: &Value) -> String {
    match reply.get("error") {
        None => "allowed".to_owned(),
        Some(error) if error == "io.nodeward.Agent.NotAllowed" => {
            assert!(!reply["parameters"]["message"].as_str().unwrap().is_empty());
            reply["parameters"]["reason"].as_str().unwrap().to_owned()
        }
        Some(_) => panic!("{reply}"),
    }
}

/// Goal: the table of who may touch whom, over the socket. Every request that names a process has
/// the same answer; a process that is refused keeps its pages.
#[test]
fn the_table() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let Some(mut speaker) = Speaker::of(&stage, USER, USER) else { return };
    let saved_other = {
        let mut command = Command::new("setpriv");
        command.args(["--ruid", &USER.to_string(), "--euid", &OTHER.to_string()]);
        command.args(["--regid", &USER.to_string(), "--clear-groups"]);
        command.args(["sh", "-c", "echo ready; read x"]);
        Target::start(&mut command)
    };
    let capable = capable(USER);
    let table = [
        ("itself", speaker.0.pid(), "allowed"),
        ("another of its own", stage.keep(Target::of(USER, USER)), "allowed"),
        ("other user", stage.keep(Target::of(OTHER, USER)), "other-user"),
        ("root", stage.keep(Target::of(0, 0)), "other-user"),
        ("other group", stage.keep(Target::of(USER, OTHER)), "other-group"),
        ("other effective user", stage.keep(saved_other), "other-user"),
        ("a capability", stage.keep(capable), "more-privileges"),
        ("secret", stage.keep(secret(USER)), "not-dumpable"),
        ("the agent", Pid::of_this_process(), "other-user"),
        ("nobody", Pid::new(Pid::LIMIT).unwrap(), "no-such-process"),
        ("init", Pid::new(1).unwrap(), "other-user"),
    ];
    stage.give_memory(Pid::of_this_process(), 10);
    let placement = saved(&mut Client::connect(&stage.path()).unwrap(), 1);
    let made = speaker.call("io.nodeward.Groups.Create", &json!({ "name": "a" }));
    let group = &made["parameters"]["group"];
    for (what, pid, expected) in table {
        stage.give_memory(pid, 10);
        for (method, parameters) in requests(pid, group, &placement) {
            let reply = speaker.call(&format!("io.nodeward.{method}"), &parameters);
            assert_eq!(verdict(&reply), expected, "{what}: {method} {parameters}");
            // A user has two moves at a time.
            wait_for_moves(&mut speaker);
        }
        if expected != "allowed" {
            assert_eq!(stage.pages_on_one(pid), 0, "{what}");
            let group = u32::try_from(group.as_u64().unwrap()).unwrap();
            let groups = stage.groups.lock();
            assert!(!groups.get(group).unwrap().parts.keys().any(|key| key.0 == pid), "{what}");
        }
    }
    // Root, with all capabilities in our user namespace, may touch all of them.
    let mut root = stage.connect();
    for (what, pid, expected) in table.into_iter().filter(|(_, pid, _)| pid.number() != Pid::LIMIT)
    {
        let shown = root.call("io.nodeward.Residency.Show", &json!({ "pid": pid }));
        assert_eq!(verdict(&shown), "allowed", "{what}: {expected} for users");
    }
}

/// Every request that names a process.
fn requests(pid: Pid, group: &Value, placement: &Value) -> Vec<(&'static str, Value)> {
    let orders = [
        order(&[pid]),
        Order { pids: Some(vec![pid]), ..spread(&[(0, 1), (1, 1)], None) },
        Order { pids: Some(vec![pid]), placement: Some(placement.clone()), ..Order::default() },
    ];
    let moves = ["Moves.Plan", "Moves.Start"].into_iter();
    let moves = moves
        .flat_map(|method| orders.iter().map(move |order| (method, json!({ "order": order }))));
    let memory = json!({ "group": group, "pid": pid, "memory": ["anonymous"] });
    let others = [
        ("Residency.Show", json!({ "pid": pid })),
        ("Placement.Explain", json!({ "pid": pid })),
        ("Placement.Save", json!({ "pids": [pid] })),
        ("Groups.AddThreads", json!({ "group": group, "pid": pid })),
        ("Groups.AddThreads", json!({ "group": group, "pid": pid, "threads": [pid] })),
        ("Groups.AddMemory", memory),
        ("Groups.GroupOf", json!({ "pid": pid })),
    ];
    moves.chain(others).collect()
}

/// Waits until the moves of a speaker have ended, so that its budget is free.
pub fn wait_for_moves(speaker: &mut Speaker) {
    wait_until("all moves have ended", || {
        (1..20).all(|number| {
            let reply = speaker.call("io.nodeward.Moves.Progress", &json!({ "move": number }));
            reply.get("error").is_some() || reply["parameters"]["progress"]["running"] == false
        })
    });
}

/// A process of a user that has a capability (ambient, so that it survives exec).
fn capable(user: u32) -> Target {
    let mut command = Command::new("setpriv");
    let user = user.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command.args(["--inh-caps", "+sys_nice", "--ambient-caps", "+sys_nice"]);
    command.args(["sh", "-c", "echo ready; read x"]);
    Target::start(&mut command)
}

/// A process of a user that may read its program but not itself: the kernel makes those that
/// execute what they cannot read not dumpable.
fn secret(user: u32) -> Target {
    let folder = std::env::temp_dir().join(format!("nodeward-secret-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("dash");
    // A descriptor of ours that may write it would be inherited by programs of other tests.
    let installed = Command::new("install").args(["-m", "711", "/bin/sh"]).arg(&program).status();
    assert!(installed.unwrap().success());
    let mut command = Command::new(&program);
    command.args(["-c", "echo ready; read x"]).uid(user).gid(user);
    let target = Target::start(&mut command);
    std::fs::remove_dir_all(&folder).unwrap();
    target
}

/// Goal: a process of the caller that executes a program of root with the set-user-ID bit is root's
/// from then on: it is refused, and nothing is done to it any more; requests that are under way
/// meanwhile do not get hold of it either.
#[test]
fn a_program_that_makes_root_is_of_root() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("sh");
    let installed = Command::new("install").args(["-m", "4755", "/bin/sh"]).arg(&program).status();
    assert!(installed.unwrap().success());
    let stage = Stage::new();
    let Some(mut speaker) = Speaker::of(&stage, USER, USER) else { return };
    let mut command = Command::new("sh");
    let script = "echo ready; read x; exec \"$0\" -p -c 'id -u; read x'";
    command.args(["-c", script]).arg(&program).uid(USER).gid(USER);
    let mut target = Target::start(&mut command);
    let pid = target.pid();
    stage.give_memory(pid, 10);
    assert_eq!(speaker.asks_about(pid), "allowed");
    writeln!(target.0.stdin.as_mut().unwrap(), "go").unwrap();
    let refused = wait_for("it is another program", || {
        Some(speaker.asks_about(pid)).filter(|told| told != "allowed")
    });
    let mut user = String::new();
    BufReader::new(target.0.stdout.as_mut().unwrap()).read_line(&mut user).unwrap();
    if user.trim() != "0" {
        eprintln!("skipped: the file system of {} has no set-user-ID", folder.path().display());
        return;
    }
    assert_eq!(refused, "other-user");
    let start = json!({ "order": order(&[pid]) });
    assert_eq!(verdict(&speaker.call("io.nodeward.Moves.Start", &start)), "other-user");
    assert_eq!(stage.pages_on_one(pid), 0);
}

/// Goal: the moves of one user are nobody else's: not to be watched, cancelled, or read.
#[test]
fn moves_have_owners() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let Some(mut owner) = Speaker::of(&stage, USER, USER) else { return };
    let mut other = Speaker::of(&stage, OTHER, OTHER).unwrap();
    stage.give_memory(owner.0.pid(), 10);
    let reply = owner.call("io.nodeward.Moves.Start", &json!({ "order": order(&[]) }));
    let number = &reply["parameters"]["move"];
    for method in ["Progress", "Cancel", "Account"] {
        let method = format!("io.nodeward.Moves.{method}");
        let refused = other.call(&method, &json!({ "move": number }));
        assert_eq!(refused["error"], "io.nodeward.Moves.NoSuchMove", "{method}");
    }
    wait_for_moves(&mut owner);
    let account = owner.call("io.nodeward.Moves.Account", &json!({ "move": number }));
    assert_eq!(account["parameters"]["report"]["processes"][0]["account"]["moved"], 10);
}

/// Goal: in a pid namespace of its own a process names pids as it sees them: its 1 is not our 1;
/// ours it cannot name at all; replies have its numbers.
#[test]
fn pids_are_those_of_the_caller() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let Some((mut speaker, first)) = Speaker::in_pid_namespace(&stage) else { return };
    let ours = Target::of(USER, USER);
    let described = speaker.call("io.nodeward.Agent.Describe", &json!({}));
    assert_eq!(described["parameters"]["pid"], 1, "{described}");
    stage.give_memory(first, 10);
    for parameters in [json!({ "pid": 1 }), json!({})] {
        let shown = speaker.call("io.nodeward.Residency.Show", &parameters);
        assert_eq!(shown["parameters"]["pid"], 1, "{shown}");
        assert_eq!(shown["parameters"]["kinds"]["anonymous"]["pages"], 10);
    }
    assert_eq!(speaker.asks_about(ours.pid()), "no-such-process", "one that it does not see");
}

/// Goal: root of a container's user namespace is a user like others: it may touch what is in that
/// namespace, and not what has the same id outside.
#[test]
fn root_of_a_container_is_a_user() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let user = USER.to_string();
    let started = Speaker::start(&stage, |command| {
        let inner = std::mem::replace(command, Command::new("setpriv"));
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        command.args(["unshare", "--user", "--map-root-user"]);
        command.arg(inner.get_program()).args(inner.get_args());
    });
    let Some(mut speaker) = started else { return };
    let outside = Target::of(USER, USER);
    let described = speaker.call("io.nodeward.Agent.Describe", &json!({}));
    let described = &described["parameters"];
    assert_eq!((&described["uid"], &described["everything"]), (&json!(USER), &json!(false)));
    stage.give_memory(speaker.0.pid(), 10);
    assert_eq!(speaker.asks_about(speaker.0.pid()), "allowed");
    assert_eq!(speaker.asks_about(outside.pid()), "other-user-namespace");
    assert_eq!(speaker.asks_about(Pid::of_this_process()), "other-user");
}

/// Goal: root without CAP_SYS_PTRACE, as in a container without capabilities, is a user like
/// others.
#[test]
fn root_without_capabilities_is_a_user() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let started = Speaker::start(&stage, |command| {
        let inner = std::mem::replace(command, Command::new("setpriv"));
        command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
        command.arg(inner.get_program()).args(inner.get_args());
    });
    let Some(mut speaker) = started else { return };
    let theirs = Target::of(USER, USER);
    stage.give_memory(speaker.0.pid(), 10);
    assert_eq!(speaker.asks_about(speaker.0.pid()), "allowed");
    assert_eq!(speaker.asks_about(theirs.pid()), "other-user");
    assert_eq!(speaker.asks_about(Pid::of_this_process()), "more-privileges");
}

/// Goal: a process that ended is never taken for the next with its number. A hundred processes of a
/// user end, each while requests name it, and get their numbers back as processes of root: not one
/// of those is admitted, and no request, whenever it comes, is told of its 20 pages.
#[test]
fn a_pid_that_comes_back_is_another_process() {
    if !is_root() {
        return;
    }
    let stage = Stage::new();
    let Some(mut speaker) = Speaker::of(&stage, USER, USER) else { return };
    let mut reused = 0;
    for _ in 0..100 {
        let theirs = Target::of(USER, USER);
        let pid = theirs.pid();
        stage.give_memory(pid, 10);
        let is_over = AtomicBool::new(false);
        let next = std::thread::scope(|scope| {
            let asks = scope.spawn(|| asked_until(&mut speaker, pid, &is_over));
            let next = next_with_number(&stage, theirs);
            is_over.store(true, Ordering::Relaxed);
            let told = asks.join().unwrap();
            assert!(!told.contains(&20), "pages of another process: {told:?}");
            next
        });
        let Some(next) = next else { return };
        // Otherwise another test beside this one has taken the number.
        if next.pid() == pid {
            assert_eq!(speaker.asks_about(pid), "other-user");
            reused += 1;
        }
    }
    assert!(reused > 0, "no number came back in 100 attempts");
}

/// Asks for the memory of a process again and again, at least once. Returns the numbers of pages
/// that it heard.
fn asked_until(speaker: &mut Speaker, pid: Pid, is_over: &AtomicBool) -> BTreeSet<u64> {
    let mut told = BTreeSet::new();
    loop {
        let reply = speaker.call("io.nodeward.Residency.Show", &json!({ "pid": pid }));
        told.extend(reply["parameters"]["kinds"]["anonymous"]["pages"].as_u64());
        if is_over.load(Ordering::Relaxed) {
            return told;
        }
    }
}

/// Ends a process, and starts one of root, which gets its number if nobody is faster, and 20 pages.
fn next_with_number(stage: &Stage, ended: Target) -> Option<Target> {
    let last_pid = "/proc/sys/kernel/ns_last_pid";
    let pid = ended.pid();
    drop(ended);
    if std::fs::write(last_pid, (pid.number() - 1).to_string()).is_err() {
        eprintln!("skipped: {last_pid} cannot be written, so that no number comes back");
        return None;
    }
    let next = Target::of(0, 0);
    if next.pid() == pid {
        stage.give_memory(pid, 20);
    }
    Some(next)
}

/// Goal: a caller that has ended, but whose socket somebody else holds, may do nothing.
#[test]
fn a_caller_that_has_ended_may_do_nothing() {
    let stage = Stage::new();
    let started = Speaker::start(&stage, |command| {
        // The child goes on with the socket and our pipes once its parent is gone.
        // It has been served before, so that it was known while it lived.
        let fork = "syswrite(S, '{\"method\":\"io.nodeward.Agent.Describe\"}' . \"\\0\"); \
                    { local $/ = \"\\0\"; <S>; } $caller = $$; \
                    if (fork) { exit } sleep 0.01 while getppid() == $caller;";
        *command = Command::new("perl");
        command.args(["-e", &SPEAKER.replace("FORK", fork)]).arg(stage.path());
    });
    let Some(mut speaker) = started else { return };
    // (`wait` would close its input.)
    wait_until("the caller has ended", || speaker.0.0.try_wait().unwrap().is_some());
    let reply = speaker.call("io.nodeward.Residency.Show", &json!({}));
    assert_eq!(verdict(&reply), "no-such-process", "{reply}");
    let other = speaker.call("io.nodeward.Residency.Show", &json!({ "pid": 1 }));
    assert_eq!(verdict(&other), "caller-gone");
}

/// Goal: the rule, one condition after the other: a target that differs from the caller in one of
/// them is refused for that one.
#[test]
fn the_rule() {
    let agent = own_credentials().unwrap();
    let user = |permitted: u64| {
        let mut credentials = agent.clone();
        credentials.status.users = [7; 3];
        credentials.status.groups = [8; 3];
        credentials.status.permitted = permitted;
        credentials.dumpable = true;
        credentials
    };
    let with = |change: fn(&mut Credentials)| {
        let mut credentials = user(0);
        change(&mut credentials);
        credentials
    };
    let rights = Rights::new(7, 8, user(0), &agent);
    assert_eq!(rights.may_touch(&user(0)), Ok(()));
    for (target, reason) in [
        (with(|it| it.status.users[0] = 1), Refusal::OtherUser),
        (with(|it| it.status.users[1] = 1), Refusal::OtherUser),
        (with(|it| it.status.users[2] = 0), Refusal::OtherUser),
        (with(|it| it.status.groups[2] = 0), Refusal::OtherGroup),
        (with(|it| it.dumpable = false), Refusal::NotDumpable),
        (with(|it| it.user_namespace = Some(NamespaceId::new(0))), Refusal::OtherUserNamespace),
        (with(|it| it.user_namespace = None), Refusal::MorePrivileges),
        (with(|it| it.status.permitted = 1), Refusal::MorePrivileges),
    ] {
        assert_eq!(rights.may_touch(&target), Err(reason), "{target:?}");
    }
    // A caller with capabilities may touch those that have no others; unless it became somebody
    // else since it connected.
    let capable = Rights::new(7, 8, user(0b11), &agent);
    assert_eq!(capable.may_touch(&user(0b10)), Ok(()));
    assert_eq!(capable.may_touch(&user(0b100)), Err(Refusal::MorePrivileges));
    let mut changed = user(u64::MAX);
    changed.status.users[1] = 0;
    let changed = Rights::new(7, 8, changed, &agent);
    assert_eq!(changed.may_touch(&user(1)), Err(Refusal::MorePrivileges));
    assert!(!changed.everything);
    // Root is root by its id and by CAP_SYS_PTRACE, bit 19.
    let root = |permitted: u64| {
        let mut credentials = user(permitted);
        (credentials.status.users, credentials.status.groups) = ([0; 3], [0; 3]);
        Rights::new(0, 0, credentials, &agent)
    };
    assert!(root(1 << 19).everything);
    assert!(!root(!(1 << 19)).everything);
}

/// Goal: the words of refusals are those of the protocol, each once.
#[test]
fn refusals_have_names() {
    for reason in Refusal::ALL {
        assert_eq!(serde_json::to_value(reason).unwrap(), json!(reason.name()));
        assert!(!reason.advice().is_empty());
    }
    let names: BTreeSet<_> = Refusal::ALL.map(Refusal::name).into();
    assert_eq!(names.len(), Refusal::ALL.len());
}

/// Asks as [`USER`], with an order; `None` where no program can speak for him.
pub fn ask_as_user(stage: &Stage, method: &str, order: &Order) -> Option<Value> {
    let mut speaker = Speaker::of(stage, USER, USER)?;
    Some(speaker.call(method, &json!({ "order": order })))
}
