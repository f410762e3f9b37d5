//! The balancer as a daemon on this machine: its lock, its signals, its state, and its behaviour
//! without permission to write or to sample.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use nodeward_linux::test_wait::{receive, wait_for};
use rustix::process::{Pid, Signal, kill_process};

use crate::outcome::NODEWARD;

/// A daemon that balances only this test, with its output.
pub struct DaemonProcess {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    told
}

/// Returns the command of a daemon with its settings and its state in a directory.
pub fn command(dir: &Path) -> Command {
    let mut command = Command::new(NODEWARD);
    let config = dir.join("config.toml");
    if !config.exists() {
        std::fs::write(&config, "").unwrap();
    }
    command.args(["balance", "--json", "--pid", &std::process::id().to_string(), "--config"]);
    command.arg(config).env("NODEWARD_STATE_DIR", dir.join("state"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl DaemonProcess {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Returns the next round.
    pub fn round(&self) -> serde_json::Value {
        serde_json::from_str(&receive(&self.stdout, "a round is told")).unwrap()
    }

    /// Returns the next round that is as wanted.
    pub fn round_with(&self, is_wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        loop {
            let round = self.round();
            if is_wanted(&round) {
                return round;
            }
        }
    }

    /// Waits for a line on stderr that has the words.
    pub fn says(&self, words: &str) {
        self.line(words);
    }

    /// Returns the next line on stderr that has the words.
    pub fn line(&self, words: &str) -> String {
        loop {
            let line = receive(&self.stderr, &format!("it says '{words}'"));
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Returns its pid.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills it, and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end. Returns its exit code, and what it still had to say.
    pub fn end(self) -> (Option<i32>, String) {
        self.end_while(|| ())
    }

    /// Does something again and again until it ends, likewise.
    pub fn end_while(mut self, again: impl Fn()) -> (Option<i32>, String) {
        let ended = wait_for("the daemon ends", || {
            again();
            self.child.try_wait().unwrap()
        });
        (ended.code(), self.stderr.iter().collect::<Vec<_>>().join("\n"))
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Goal: a second daemon is refused, and names the first; a dry run is always possible.
#[test]
fn two_daemons() {
    let dir = tempfile::tempdir().unwrap();
    let first = DaemonProcess::start(command(dir.path()));
    first.round();
    let second = command(dir.path()).output().unwrap();
    let told = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(3), "{told}");
    assert!(told.contains(&format!("process {}", first.child.id())), "{told}");
    assert!(told.contains("runs already"), "{told}");
    let dry = command(dir.path()).arg("--dry-run").output().unwrap();
    assert_eq!(dry.status.code(), Some(0), "{}", String::from_utf8_lossy(&dry.stderr));
}

/// Goal: SIGTERM ends a service without failure; so does Ctrl-C a daemon.
#[test]
fn signals_end_it() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = tempfile::tempdir().unwrap();
        let daemon = DaemonProcess::start(command(dir.path()));
        daemon.round();
        daemon.signal(signal);
        let (code, told) = daemon.end();
        assert_eq!(code, Some(0), "{told}");
    }
}

/// Goal: a killed daemon leaves nothing that prevents the next one from continuing.
#[test]
fn kill_and_restart() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let daemon = DaemonProcess::start(command(dir.path()));
        daemon.round();
        daemon.signal(Signal::KILL);
        let (code, told) = daemon.end();
        assert_eq!(code, None, "{told}");
        assert!(!told.contains("anew") && !told.contains("noticed"), "{told}");
    }
    // A damaged state is reported and replaced.
    std::fs::write(dir.path().join("state/balance.state"), "nonsense").unwrap();
    let daemon = DaemonProcess::start(command(dir.path()));
    daemon.says("begins anew");
    assert_eq!(daemon.round()["round"], 1);
}

/// Goal: SIGHUP applies new settings; invalid ones are reported, and the old ones stay.
#[test]
fn settings_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    let daemon = DaemonProcess::start(command(dir.path()));
    daemon.round();
    std::fs::write(&config, "[balance]\ninterval = 'never'\n").unwrap();
    daemon.signal(Signal::HUP);
    daemon.says("line 2 (balance.interval)");
    daemon.round();
    std::fs::write(&config, "[balance]\nexcept-cgroups = ['/no/such/group']\n").unwrap();
    daemon.signal(Signal::HUP);
    daemon.says("no/such/group");
    daemon.round();
    std::fs::write(&config, "[balance]\ninterval = '100ms'\n").unwrap();
    daemon.signal(Signal::HUP);
    daemon.says("the settings were read again");
    // Samples may be rarer than that where they cost too much, but the interval is never less.
    assert!(daemon.round()["interval_ns"].as_u64().unwrap() > 0);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().0, Some(0));
}

/// Goal: a pipe in place of the settings file is reported as a pipe, and the daemon goes on with
/// its settings until it is told to end.
#[test]
fn a_pipe_is_no_settings_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    let daemon = DaemonProcess::start(command(dir.path()));
    daemon.round();
    std::fs::remove_file(&config).unwrap();
    assert!(Command::new("mkfifo").arg(&config).status().unwrap().success());
    daemon.signal(Signal::HUP);
    let told = daemon.line("the settings stay as they were");
    assert!(told.contains(config.to_str().unwrap()), "{told}");
    let words = "put a file there, or name another: it is a pipe (FIFO), and must be";
    assert!(told.contains(words), "{told}");
    daemon.round();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().0, Some(0));
}

/// Goal: systemd is notified of start, keep-alive, status and end.
#[test]
fn systemd_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = command(dir.path());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "3600000000");
    let daemon = DaemonProcess::start(command);
    daemon.round();
    daemon.signal(Signal::HUP);
    daemon.says("were read again");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().0, Some(0));
    let mut heard = Vec::new();
    socket.set_nonblocking(true).unwrap();
    let mut bytes = [0; 300];
    while let Ok(length) = socket.recv(&mut bytes) {
        heard.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
    }
    assert_eq!(heard[0], "READY=1\n", "{heard:?}");
    assert_eq!(heard.last().unwrap(), "STOPPING=1\n");
    for word in ["WATCHDOG=1", "STATUS=", "RELOADING=1"] {
        assert!(heard.iter().any(|line| line.starts_with(word)), "{word}: {heard:?}");
    }
}

/// Goal: where nothing can be written, one line says so, with all consequences and the remedy of
/// the cause; balancing goes on.
#[test]
fn no_place_for_its_state() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    std::fs::write(&file, "").unwrap();
    let missing = "make the directory (mkdir -p; StateDirectory=";
    // A directory cannot be created as or below a file, or in /proc, not even by root.
    for (state, remedy) in [
        (file.as_path(), "no directory stands there: remove it"),
        (&file.join("state"), missing),
        (Path::new("/proc/nodeward/state"), missing),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = command(dir.path());
        command.env("NODEWARD_STATE_DIR", state);
        let daemon = DaemonProcess::start(command);
        daemon.round();
        daemon.round();
        daemon.signal(Signal::TERM);
        let (code, told) = daemon.end();
        assert_eq!(code, Some(0), "{told}");
        let about = ["cannot", "state", "ledger", "notice"];
        let is_about = |line: &&str| about.iter().any(|word| line.contains(word));
        let lines: Vec<_> = told.lines().filter(is_about).collect();
        let [line] = lines[..] else { panic!("one line: {told}") };
        let words = format!("cannot keep anything in {}; {remedy}", state.display());
        assert!(line.contains(&words), "{told}");
        assert!(!line.contains("free space"), "{told}");
    }
}

/// Goal: with a umask of 0 the daemon creates nothing that others may read or write.
#[test]
fn its_files_are_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let words = command(dir.path());
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(words.get_program());
    command.args(words.get_args()).env("NODEWARD_STATE_DIR", dir.path().join("state"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let daemon = DaemonProcess::start(command);
    daemon.round();
    daemon.round();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().0, Some(0));
    let state = dir.path().join("state");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&state), 0o700);
    let mut names = Vec::new();
    for entry in state.read_dir().unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["balance.lock", "balance.notes", "balance.state"]);
}

/// Goal: a user with few permissions is told so in one line, once.
#[test]
fn little_is_permitted() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = dir.path().join("nodeward");
    // The copy is made by another process: a child that another test starts at this moment would
    // inherit our file open for writing until its exec, and a file that is open for writing cannot
    // be executed.
    assert!(Command::new("cp").arg(NODEWARD).arg(&program).status().unwrap().success());
    let mut command = Command::new(&program);
    command.args(["balance", "--json", "--pid", &std::process::id().to_string()]);
    command.env("NODEWARD_STATE_DIR", dir.path().join("state")).env("NODEWARD_CONFIG", "/dev/null");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).uid(65534).gid(65534);
    let daemon = DaemonProcess::start(command);
    let denied = daemon.round()["news"].to_string();
    assert!(denied.contains("denied"), "{denied}");
    let again = daemon.round()["news"].to_string();
    assert!(!again.contains("denied"), "said twice: {again}");
    daemon.says("may not be balanced by us");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().0, Some(0));
}

/// Goal: a process that is named by pid and does not exist is told, with its code, before anything
/// is balanced or written.
#[test]
fn a_process_that_does_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    for words in ["--dry-run", "--once", "--for 1s"] {
        let mut command = Command::new(NODEWARD);
        command.args(["balance", "--pid", "4194303"]).args(words.split(' '));
        let output = command.env("NODEWARD_STATE_DIR", folder.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), told.lines().count()), (Some(5), 1), "{words}: {told}");
        assert!(told.contains("4194303"), "{told}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
