//! The agent of a daemon on this machine, and the verbs that go through it. Moves between nodes are
//! in the lab: this machine may have one.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nodeward_linux::test_wait::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::balance_daemon::{DaemonProcess, command};
use crate::outcome::NODEWARD;
use crate::placement::Sleeper;
use crate::terminal::TestTerminal;

/// A user who owns nothing here.
const USER: u32 = 54_321;

/// A daemon with an agent.
pub struct Place {
    folder: tempfile::TempDir,
    pub daemon: DaemonProcess,
}

impl Place {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        let daemon = Self::daemon(folder.path());
        Self { folder, daemon }
    }

    fn daemon(folder: &Path) -> DaemonProcess {
        let mut command = command(folder);
        let socket = folder.join("agent.sock");
        command.arg("--socket").arg(&socket);
        let daemon = DaemonProcess::start(command);
        wait_until("the agent answers", || UnixStream::connect(&socket).is_ok());
        daemon
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// Kills the daemon, and starts another one.
    pub fn restart(&mut self) {
        self.daemon.kill();
        self.daemon = Self::daemon(self.folder.path());
    }

    /// Runs a verb through the agent.
    pub fn run(&self, words: &[&str]) -> Output {
        run(words, &self.socket())
    }
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn run(words: &[&str], socket: &Path) -> Output {
    let agent = format!("--agent={}", socket.display());
    Command::new(NODEWARD).args(words).arg(agent).output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    for word in words {
        assert!(told(output).contains(word), "no '{word}': {output:?}");
    }
    assert!(output.stdout.is_empty(), "{output:?}");
}

fn own_pid() -> String {
    std::process::id().to_string()
}

/// Goal: `show` and `explain` through the agent print what they print without it, in both forms.
#[test]
fn shows_and_explains() {
    let place = Place::start();
    let pid = own_pid();
    let shown = place.run(&["show", &pid, "--json"]);
    assert!(shown.status.success(), "{shown:?}");
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["schema"], "nodeward.residency/1");
    assert_eq!(shown["processes"][0]["pid"], json!(std::process::id()));
    assert!(shown["processes"][0]["total"]["pages"].as_u64().unwrap() > 0);
    let text = String::from_utf8(place.run(&["show", &pid, "--exact"]).stdout).unwrap();
    assert!(text.starts_with(&format!("process {pid}: every page counted")), "{text}");
    place.daemon.round_with(|round| round["round"].as_u64() >= Some(2));
    let explained = place.run(&["explain", &pid]);
    let text = String::from_utf8(explained.stdout).unwrap();
    assert!(text.starts_with(&format!("process {pid}")), "{text}");
    let explained = place.run(&["explain", &pid, "--json"]).stdout;
    let explained: Value = serde_json::from_slice(&explained).unwrap();
    assert_eq!(explained["schema"], "nodeward.explain/1");
    assert_eq!(explained["processes"][0]["pid"], json!(std::process::id()));
}

/// Goal: `top` has the homes and reasons of the agent, and says so. When the agent is gone it says
/// that, and goes on.
#[test]
fn is_watched() {
    let place = Place::start();
    place.daemon.round_with(|round| round["round"].as_u64() >= Some(2));
    let words = ["top", "--batch", "--json", "--iterations", "1", "--interval", "100ms"];
    let refresh = place.run(&words);
    assert!(refresh.status.success(), "{refresh:?}");
    let refresh: Value = serde_json::from_slice(&refresh.stdout).unwrap();
    assert_eq!((&refresh["decided_by"], &refresh["notices"]), (&json!("agent"), &json!([])));
    let agent = format!("--agent={}", place.socket().display());
    let mut terminal = TestTerminal::start(&["top", "--interval", "200ms", &agent], 100, 24);
    terminal.shows("homes of the agent");
    place.daemon.signal(Signal::KILL);
    terminal.shows("homes of the agent; ");
    terminal.keys("q");
    assert_eq!(terminal.end().code(), Some(0));
}

/// Goal: a placement that the agent looked for is that which is saved without it, but for its time;
/// it is restored by the agent, which has nothing to move then. One of too many runs for a request
/// is refused with what to do.
#[test]
fn keeps_placements() {
    let place = Place::start();
    let sleeper = Sleeper::start();
    let pid = sleeper.pid().to_string();
    let file = |name: &str| place.folder.path().join(name).display().to_string();
    let [by_agent, direct] = [file("by-agent"), file("direct")];
    let save = ["placement", "save", &pid];
    assert!(place.run(&[&save[..], &[&by_agent]].concat()).status.success());
    let without = Command::new(NODEWARD).args(save).arg(&direct).output().unwrap();
    assert!(without.status.success(), "{without:?}");
    let [mut told, mut expected] = [&by_agent, &direct]
        .map(|path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() });
    assert!(!told["processes"][0]["mappings"].as_array().unwrap().is_empty());
    for document in [&mut told, &mut expected] {
        document["saved_unix_ms"] = json!(0);
    }
    assert_eq!(told, expected);
    let restore = ["placement", "restore", &pid, &by_agent, "--threads", "--json", "--quiet"];
    let restored = place.run(&restore);
    assert_eq!(restored.status.code(), Some(0), "{restored:?}");
    let report: Value = serde_json::from_slice(&restored.stdout).unwrap();
    assert_eq!(report["account"]["moved"], 0);
    let kept = report["placement"]["before_pages"].as_object().unwrap();
    assert!(kept.values().filter_map(Value::as_u64).sum::<u64>() > 0, "{report}");
    assert_eq!(report["placement"]["threads"][0]["outcome"], "on-its-node");
    // 10,000 runs of a page, on nodes by turns, take 14 bytes each at least.
    let run = |at: usize| json!([at * 4096, 4096, at % 2]);
    let mappings = expected["processes"][0]["mappings"].as_array_mut().unwrap();
    mappings.last_mut().unwrap()["kind"] = json!("heap");
    mappings.last_mut().unwrap()["runs"] = (0..10_000).map(run).collect();
    std::fs::write(&direct, expected.to_string()).unwrap();
    let refused = place.run(&["placement", "restore", &pid, &direct, "--dry-run"]);
    assert_refused(&refused, 2, &["direct", "the agent takes 128 KiB", "--only", "as root"]);
}

/// Goal: whoever asks for what is not there, or not his, is told what to do; each has its code.
#[test]
fn refusals_have_reasons_and_codes() {
    let place = Place::start();
    let nowhere = place.folder.path().join("nowhere");
    let no_agent = run(&["show", &own_pid()], &nowhere);
    assert_refused(&no_agent, 3, &["no agent answers at", "nowhere", "balance.socket"]);
    assert_refused(&place.run(&["show", "4194304"]), 5, &["no such process"]);
    let of_machine = Command::new(NODEWARD)
        .args(["show", "1", "--agent", "--machine", "sim:two-socket"])
        .output()
        .unwrap();
    assert_refused(&of_machine, 2, &["--agent", "--machine"]);
    assert_refused(&place.run(&["explain", "pinned"]), 2, &["name a PID"]);
    assert_refused(&place.run(&["move", "1", "0"]), 2, &["no process is named"]);
    assert_refused(&place.run(&["move", "1", "0", "0-0"]), 2, &[]);
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: another user needs root");
        return;
    }
    let program = place.folder.path().join("nodeward");
    assert!(Command::new("cp").arg(NODEWARD).arg(&program).status().unwrap().success());
    let mut of_root = Command::new(&program);
    of_root.args(["show", &own_pid(), &format!("--agent={}", place.socket().display())]);
    let refused = of_root.uid(USER).gid(USER).output().unwrap();
    assert_refused(&refused, 4, &["not yours", "another user", "as root"]);
}

/// Goal: when the agent is killed, who waits for it is told and has a code; the next one takes the
/// socket over, which the killed one left, and removes it at its end.
#[test]
fn a_killed_agent_leaves_a_socket() {
    let place = Place::start();
    let mut waiting = UnixStream::connect(place.socket()).unwrap();
    place.daemon.signal(Signal::KILL);
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(&mut waiting, &mut rest);
    assert!(rest.is_empty());
    assert!(place.socket().exists());
    assert_refused(&place.run(&["show", &own_pid()]), 3, &["no agent answers"]);
    let Place { folder, daemon } = place;
    drop(daemon);
    let next = Place::daemon(folder.path());
    let place = Place { folder, daemon: next };
    assert!(place.run(&["show", &own_pid()]).status.success());
    place.daemon.signal(Signal::TERM);
    let (code, told) = place.daemon.end();
    assert_eq!(code, Some(0), "{told}");
    assert!(!place.folder.path().join("agent.sock").exists());
}

/// Goal: an agent that goes away in the middle of an answer is a failure, not a success.
#[test]
fn an_agent_that_ends_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1000]);
        let _ = stream.write_all(b"{\"parameters\":{");
    });
    let lost = run(&["show", &own_pid()], &path);
    server.join().unwrap();
    assert_refused(&lost, 6, &["the agent ended meanwhile", "ledger"]);
}

/// Goal: what is no socket is not touched, and an agent that is in use is not replaced; a balancer
/// without its agent would not be what was asked for, so it does not start.
#[test]
fn other_files_are_left_alone() {
    let place = Place::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("precious");
    std::fs::write(&file, "x").unwrap();
    for (path, code, words) in
        [(file.clone(), 2, "is no socket"), (place.socket(), 3, "another program listens at")]
    {
        let refused = command(folder.path()).arg("--socket").arg(&path).output().unwrap();
        assert_refused(&refused, code, &[words]);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
    let relative = command(folder.path()).args(["--socket", "x"]).output().unwrap();
    assert_refused(&relative, 2, &["absolute path"]);
}

/// Goal: a socket that another program puts in the place of ours while we run stays when we end.
#[test]
fn another_socket_in_our_place_stays() {
    let place = Place::start();
    std::fs::remove_file(place.socket()).unwrap();
    let _theirs = UnixListener::bind(place.socket()).unwrap();
    place.daemon.signal(Signal::TERM);
    let (code, told) = place.daemon.end();
    assert_eq!(code, Some(0), "{told}");
    assert!(place.folder.path().join("agent.sock").exists());
}

/// Goal: a user who may neither make a socket there nor connect to the one that is there is told
/// that, and that one stays.
#[test]
fn a_place_of_others_is_left_alone() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: another user needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let program = folder.path().join("nodeward");
    assert!(Command::new("cp").arg(NODEWARD).arg(&program).status().unwrap().success());
    let left = folder.path().join("left.sock");
    drop(UnixListener::bind(&left).unwrap());
    std::fs::set_permissions(&left, std::fs::Permissions::from_mode(0o600)).unwrap();
    for socket in [folder.path().join("new.sock"), left.clone()] {
        let mut command = Command::new(&program);
        command.args(["balance", "--pid", &own_pid(), "--config", "/dev/null", "--socket"]);
        let refused = command.arg(&socket).uid(USER).gid(USER).output().unwrap();
        let words = ["cannot listen at", socket.to_str().unwrap(), "Permission denied"];
        assert_refused(&refused, 6, &words);
    }
    assert!(left.exists());
}

/// Goal: the socket that a service manager hands over is served, whatever the settings name, and
/// its file stays at the end; what is no socket is refused.
#[test]
fn a_socket_is_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manager.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let unused = folder.path().join("unused.sock");
    let with_descriptor = |descriptor: Stdio| {
        let daemon = command(folder.path());
        // As sd_listen_fds(3) has it: the descriptor is 3, and the pid is the program's own.
        let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" \"$@\"";
        let mut handing = Command::new("sh");
        handing.args(["-c", script]).arg(daemon.get_program()).args(daemon.get_args());
        handing.arg("--socket").arg(&unused).stdin(descriptor);
        handing.env("NODEWARD_STATE_DIR", folder.path().join("state"));
        handing.stdout(Stdio::piped()).stderr(Stdio::piped());
        handing
    };
    let no_socket = with_descriptor(Stdio::null()).output().unwrap();
    let words = ["the socket of the service manager cannot be used"];
    assert_refused(&no_socket, 2, &words);
    let daemon = DaemonProcess::start(with_descriptor(OwnedFd::from(listener).into()));
    daemon.round();
    let shown = run(&["show", &own_pid()], &path);
    assert!(shown.status.success(), "{shown:?}");
    daemon.signal(Signal::TERM);
    let (code, told) = daemon.end();
    assert_eq!(code, Some(0), "{told}");
    assert_eq!((path.exists(), unused.exists()), (true, false));
}
