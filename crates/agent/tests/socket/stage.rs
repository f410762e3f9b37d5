//! An agent of a fake machine, whose processes are real ones by pid, credentials and life. Only
//! their memory is fake, because this kernel may have one node.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use nodeward_agent::limits::MoveLimits;
use nodeward_agent::wire::{Order, WirePair};
use nodeward_agent::{Agent, AgentOptions, Explained, Journal};
use nodeward_balancer::{CalledGroups, SharedGroups};
use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_model::{NodeId, Page, Pid};
use serde_json::{Value, json};

/// A user and a group that own nothing here.
pub const USER: u32 = 54_321;
/// A second user and group that own nothing here.
pub const OTHER: u32 = 54_322;

/// Moves without a ledger.
const NO_JOURNAL: Journal =
    Journal { begin: |_| None, end: |_, _| unreachable!("none was begun"), read: |_| None };

/// An agent, its machine, and the folder of its socket.
pub struct Stage {
    pub agent: Agent,
    pub machine: Arc<FakeMachine>,
    pub groups: Arc<SharedGroups>,
    folder: tempfile::TempDir,
    kept: Mutex<Vec<Target>>,
}

impl Stage {
    pub fn new() -> Self {
        Self::with(MoveLimits::default())
    }

    pub fn with(limits: MoveLimits) -> Self {
        Self::start(limits, NO_JOURNAL, 0)
    }

    /// A stage whose metrics name this many processes at most.
    pub fn naming(metrics_processes: usize) -> Self {
        Self::start(MoveLimits::default(), NO_JOURNAL, metrics_processes)
    }

    /// A stage whose moves have a ledger.
    pub fn with_journal(journal: Journal) -> Self {
        Self::start(MoveLimits::default(), journal, 0)
    }

    fn start(limits: MoveLimits, journal: Journal, metrics_processes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Arc::new(FakeMachine::new(true));
        let path = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        // Other users come in, too.
        for path in [folder.path(), &path] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let options = AgentOptions {
            limits,
            explainer: |pid, report, row, json| {
                let document = json!({ "pid": pid, "round": report.round, "row": row.is_ok() });
                let explained = Explained { document, text: format!("process {pid}\n") };
                serde_json::to_writer(json, &explained).unwrap();
            },
            journal,
            metrics_processes,
        };
        let groups = Arc::new(SharedGroups::new(machine.clone(), CalledGroups::default()));
        let agent = Agent::start(listener, machine.clone(), Arc::clone(&groups), options).unwrap();
        Self { agent, machine, groups, folder, kept: Mutex::default() }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    pub fn connect(&self) -> Conversation {
        Conversation::new(UnixStream::connect(self.path()).unwrap())
    }

    /// Gives a real process fake memory: this many pages on node 0.
    pub fn give_memory(&self, pid: Pid, pages: usize) {
        let pages = vec![Page::on(NodeId(0)); pages];
        self.machine.spawn(pid, FakeProcess::with_pages(&pages));
    }

    /// Lets a process live until the test has ended.
    pub fn keep(&self, target: Target) -> Pid {
        let pid = target.pid();
        self.kept.lock().unwrap().push(target);
        pid
    }

    /// Returns the pages of a process on node 1.
    pub fn pages_on_one(&self, pid: Pid) -> u64 {
        let process = self.machine.process(pid).unwrap();
        process.residency().get(&NodeId(1)).copied().unwrap_or(0)
    }
}

/// A connection on which one talks in raw messages.
pub struct Conversation {
    pub stream: BufReader<UnixStream>,
}

impl Conversation {
    pub fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(nodeward_linux::test_wait::TIMEOUT)).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Returns the next reply; `None` at the end of the connection.
    pub fn reply(&mut self) -> Option<Value> {
        let mut bytes = Vec::new();
        let read = self.stream.read_until(0, &mut bytes);
        // What a server that closes has not read makes the end an error.
        if read.is_err() || bytes.pop() != Some(0) {
            return None;
        }
        Some(serde_json::from_slice(&bytes).unwrap())
    }

    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let text = json!({ "method": method, "parameters": parameters }).to_string();
        self.send(text.as_bytes());
        self.send(b"\0");
        self.reply().expect("a reply")
    }

    /// Waits until the agent has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        // What it has not read makes the end an error.
        let _ = self.stream.read_to_end(&mut rest);
        rest.is_empty()
    }
}

/// A process that ends with the test.
pub struct Target(pub Child);

impl Target {
    /// Starts a process that says when it runs, and then waits for ever.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    /// A shell with these ids.
    pub fn of(user: u32, group: u32) -> Self {
        let mut command = shell();
        command.uid(user).gid(group);
        Self::start(&mut command)
    }

    /// A shell of the same user.
    pub fn of_caller() -> Self {
        Self::start(&mut shell())
    }

    pub fn pid(&self) -> Pid {
        Pid::new(self.0.id()).unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A shell that waits, as [`Target::start`] wants it.
pub fn shell() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "echo ready; read x"]);
    command
}

/// An order of everything from node 0 to node 1.
pub fn order(pids: &[Pid]) -> Order {
    let pids = (!pids.is_empty()).then(|| pids.to_vec());
    let pairs = vec![WirePair { from: NodeId(0), to: NodeId(1) }];
    Order { pids, pairs, ..Order::default() }
}

/// Returns whether the caller is root with all capabilities, so that children may have other ids.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: children with other users need root");
    }
    root
}
