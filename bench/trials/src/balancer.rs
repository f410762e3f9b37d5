//! `nodeward balance` as a child process, round by round.
//!
//! No case depends on time: guests are slow, and the interval between rounds depends on the cost of
//! sampling. Cases wait for rounds, up to a maximum number.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use nodeward_linux::patience::Patience;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;

use crate::guest::{set, write};
use crate::load::Load;
use crate::numa_maps::{Nodes, nodes_within};
use crate::{Ran, guest};

/// Maximum number of rounds until an expected event, however fast they are.
const ROUNDS_MAX: usize = 150;
/// Options for quick decisions, with JSON output and few messages.
const USUAL: [&str; 5] =
    ["balance", "--json", "--quiet", "--interval=100ms", "--run-time-min=100ms"];
/// The switch of the kernel's NUMA balancing.
pub const KERNELS: &str = "/proc/sys/kernel/numa_balancing";

/// One round, as `--json` prints it.
#[derive(Clone, Debug, Deserialize)]
pub struct Round {
    pub patrol: bool,
    pub settled: bool,
    pub stands_back: bool,
    pub looked: u64,
    pub threads: u64,
    pub moved_pages: u64,
    pub nudged: u64,
    pub processes: Vec<Row>,
    pub news: Vec<Value>,
}

/// One process of a round.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    pub entity: u64,
    pub pid: u32,
    pub home: Option<Value>,
    pub reason: String,
    pub memory_reason: Option<String>,
}

impl Round {
    /// Returns the row of a process, if there is one.
    pub fn of(&self, pid: u32) -> Option<&Row> {
        self.processes.iter().find(|row| row.pid == pid)
    }

    /// Returns the single home node of a process.
    pub fn home(&self, pid: u32) -> Option<u32> {
        u32::try_from(self.of(pid)?.home.as_ref()?["node"].as_u64()?).ok()
    }

    /// Returns whether a process has this reason.
    pub fn is_because(&self, pid: u32, reason: &str) -> bool {
        self.of(pid).is_some_and(|row| row.reason == reason)
    }
}

/// The directory of balancers' state and standard error.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

impl Place {
    /// Creates a new place, writable for everyone.
    pub fn new(name: &str) -> Self {
        let place = Self(PathBuf::from(format!("/tmp/balance-{name}")));
        fs::create_dir_all(&place.0).expect("a folder");
        guest::run("chmod", &["777", &place.0.to_string_lossy()]);
        place
    }

    /// Returns the directory.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Returns the command `nodeward` with these words, for this place.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new("nodeward");
        command.args(words.split_whitespace()).stdin(Stdio::null());
        command.env("NODEWARD_STATE_DIR", &self.0);
        command
    }

    /// Returns a `balance` command with the usual options.
    pub fn balance(&self, words: &str) -> Command {
        let mut command = self.command(&USUAL.join(" "));
        command.args(words.split_whitespace());
        command
    }

    /// Starts a balancer.
    pub fn start(&self, words: &str) -> Balance {
        Balance::spawn(&mut self.balance(words))
    }

    /// Starts a balancer for another user.
    pub fn start_as(&self, user: u32, words: &str) -> Balance {
        Balance::spawn(self.balance(words).uid(user).gid(user))
    }

    /// Returns the ledger, the newest operation first.
    pub fn ledger(&self) -> Vec<Value> {
        let output = self.command("ledger --json").output().expect("nodeward starts");
        let mut list: Value = serde_json::from_slice(&output.stdout).expect("a ledger");
        serde_json::from_value(list["operations"].take()).expect("operations")
    }
}

/// A running balancer. It is killed when the value is dropped.
#[derive(Debug)]
pub struct Balance {
    child: Child,
    output: BufReader<ChildStdout>,
    errors: PathBuf,
    /// Base pages that it moved, over all rounds that were read.
    pub moved_pages: u64,
    /// Threads that it moved, over all rounds that were read.
    pub nudged: u64,
    /// All notices so far.
    pub news: Vec<Value>,
}

/// The output of a balancer until its end.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub moved_pages: u64,
    pub news: Vec<Value>,
    pub stderr: String,
}

impl Balance {
    /// Starts this command, with its standard error in a file.
    pub fn spawn(command: &mut Command) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let errors = PathBuf::from(format!("/tmp/balance-errors-{number}"));
        let to = File::create(&errors).expect("a file");
        let mut child = command.stdout(Stdio::piped()).stderr(to).spawn().expect("nodeward starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output, errors, moved_pages: 0, nudged: 0, news: Vec::new() }
    }

    /// Returns its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its standard error so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.errors).expect("a file")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our child can be signalled");
    }

    fn next(&mut self) -> Option<Round> {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the balancer's output can be read");
        if line.is_empty() {
            return None;
        }
        let round: Round = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.moved_pages += round.moved_pages;
        self.nudged += round.nudged;
        self.news.extend(round.news.iter().cloned());
        Some(round)
    }

    /// Returns the next round, without fast rounds.
    pub fn round(&mut self) -> Round {
        loop {
            match self.next() {
                Some(round) if round.patrol => {}
                Some(round) => return round,
                None => panic!("the balancer ended: {:?} {}", self.child.wait(), self.stderr()),
            }
        }
    }

    /// Returns the next round, which is due at once because the settings are read again. Otherwise
    /// an idle balancer would wait long before it.
    pub fn round_now(&mut self) -> Round {
        self.signal(Signal::HUP);
        self.round()
    }

    /// Waits for a round that satisfies a condition.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&Round) -> bool) -> Round {
        let patience = Patience::begin();
        for number in 0.. {
            let round = self.round();
            if is_so(&round) {
                return round;
            }
            let may_go_on = number < ROUNDS_MAX || !patience.is_over();
            assert!(
                may_go_on,
                "{number} rounds in vain until {what}: {round:?}\n{}",
                self.stderr()
            );
        }
        unreachable!("there is always a next number")
    }

    /// Waits until some of a load's memory is on node 1: a move is in progress.
    pub fn until_arrivals(&mut self, load: &Load) {
        self.until("pages arrive", |_| pages_on(load, 1) > ARRIVED);
    }

    /// Waits until a load's memory is at its home according to /proc. Returns the home.
    pub fn until_home(&mut self, load: &Load) -> u32 {
        let mut home = None;
        self.until("memory is at home", |round| {
            home = round.home(load.pid());
            home.is_some_and(|home| is_on(load, home))
        });
        home.expect("it has a home")
    }

    /// Ends it as systemd does.
    pub fn stop(self) -> Ended {
        self.signal(Signal::TERM);
        self.end()
    }

    /// Waits for the end of a balancer that was told to end. A second signal would end it at once.
    pub fn end(mut self) -> Ended {
        while self.next().is_some() {}
        let code = self.child.wait().expect("our child can be waited for").code();
        let news = std::mem::take(&mut self.news);
        Ended { code, moved_pages: self.moved_pages, news, stderr: self.stderr() }
    }

    /// Kills it, so that it cannot react.
    pub fn kill(mut self) {
        self.child.kill().expect("our child can be killed");
        self.child.wait().expect("our child can be waited for");
    }
}

impl Drop for Balance {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Checks that it ended without errors.
    pub fn well(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.count("failed"), 0, "{self:?}");
        self
    }

    /// Returns the number of notices of a kind.
    pub fn count(&self, kind: &str) -> usize {
        self.news.iter().filter(|news| news["kind"] == kind).count()
    }
}

/// Share of a process's memory that must be at home, in thousandths.
const HOME_MILLI: u64 = 950;

/// Returns whether that share of a load's memory is on a node.
pub fn is_on(load: &Load, node: u32) -> bool {
    share_milli(load, node) >= HOME_MILLI
}

/// More pages than a load has there from the start, beside its memory.
const ARRIVED: u64 = 100;

fn pages(load: &Load) -> Nodes {
    nodes_within(load.pid(), &load.range())
}

fn pages_on(load: &Load, node: u32) -> u64 {
    pages(load).get(&node).copied().unwrap_or(0)
}

/// Checks that all of a load's memory is still on a node.
pub fn assert_stayed(load: &Load, node: u32) {
    // Other mappings may have some pages elsewhere.
    assert!(pages_on(load, node) >= load.ready.pages, "{:?}", pages(load));
}

/// Returns the share of a load's memory on a node, in thousandths.
pub fn share_milli(load: &Load, node: u32) -> u64 {
    let pages = pages(load);
    let all: u64 = pages.values().sum();
    pages.get(&node).copied().unwrap_or(0) * 1000 / all.max(1)
}

/// Returns options that name loads.
pub fn named(loads: &[&Load]) -> String {
    loads.iter().map(|load| format!("--pid {} ", load.pid())).collect()
}

/// Switches the kernel's NUMA balancing off.
pub fn alone() -> Ran {
    set(KERNELS, "0")
}

/// Starts a load that may run on CPU 1 only, with its memory on node 0: its home is node 1.
pub fn load_away(words: &str) -> Load {
    guest::run_on(&[1]);
    let load = Load::start(&format!("--node 0 --unbind {words}"));
    guest::run_on(&[0, 1]);
    load
}

/// Puts a process into a cgroup.
pub fn enter(folder: &str, pid: u32) {
    write(&format!("{folder}/cgroup.procs"), &pid.to_string());
}
