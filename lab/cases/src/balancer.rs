//! `nodeward balance` as a child process, round by round.
//!
//! No case depends on time: guests are slow, and the interval between rounds depends on the cost of
//! sampling. Cases wait for rounds, up to a maximum number.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use nodeward_linux::test_wait::TestDeadline;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;

use crate::case_outcome::CaseOutcome;
use crate::disk::PAGE;
use crate::guest::{self, write, write_optional};
use crate::load::LoadProcess;
use crate::nodeward::run_command;
use crate::numa_maps::{PagesByNode, pages_within};

/// Maximum number of rounds until an expected event, however fast they are.
const ROUNDS_MAX: usize = 150;
/// Options for quick decisions, with JSON output and few messages.
const BALANCE_ARGS: [&str; 5] =
    ["balance", "--json", "--quiet", "--interval=100ms", "--run-time-min=100ms"];
/// The switch of the kernel's NUMA balancing.
pub const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// One round, as `--json` prints it.
#[derive(Clone, Debug, Deserialize)]
pub struct RoundLine {
    #[serde(rename = "patrol")]
    pub is_fast: bool,
    pub settled: bool,
    pub stands_back: bool,
    pub looked: u64,
    pub threads: u64,
    pub moved_pages: u64,
    pub nudged: u64,
    pub processes: Vec<RoundProcess>,
    pub segments: Vec<RoundSegment>,
    pub news: Vec<Value>,
}

/// One process of a round.
#[derive(Clone, Debug, Deserialize)]
pub struct RoundProcess {
    pub entity: u64,
    pub pid: u32,
    pub home: Option<Value>,
    pub reason: String,
    pub memory_reason: Option<String>,
}

/// One segment of a round.
#[derive(Clone, Debug, Deserialize)]
pub struct RoundSegment {
    pub users: u32,
    pub reason: String,
}

impl RoundLine {
    /// Returns the row of a process, if there is one.
    pub fn process(&self, pid: u32) -> Option<&RoundProcess> {
        self.processes.iter().find(|row| row.pid == pid)
    }

    /// Returns the single home node of a process.
    pub fn home(&self, pid: u32) -> Option<u32> {
        u32::try_from(self.process(pid)?.home.as_ref()?["node"].as_u64()?).ok()
    }

    /// Returns whether a process has this reason.
    pub fn has_reason(&self, pid: u32, reason: &str) -> bool {
        self.process(pid).is_some_and(|row| row.reason == reason)
    }
}

/// The directory of balancers' state and standard error.
#[derive(Clone, Debug)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// Creates a new place, writable for everyone.
    pub fn new(name: &str) -> Self {
        let place = Self(PathBuf::from(format!("/tmp/balance-{name}")));
        fs::create_dir_all(&place.0).expect("a folder");
        guest::run("chmod", &["777", &place.0.to_string_lossy()]);
        place
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
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
        let mut command = self.command(&BALANCE_ARGS.join(" "));
        command.args(words.split_whitespace());
        command
    }

    /// Starts a balancer.
    pub fn start(&self, words: &str) -> BalancerProcess {
        BalancerProcess::spawn(&mut self.balance(words))
    }

    /// Starts a balancer for another user.
    pub fn start_as(&self, user: u32, words: &str) -> BalancerProcess {
        BalancerProcess::spawn(self.balance(words).uid(user).gid(user))
    }

    /// Returns the ledger, the newest operation first.
    pub fn ledger(&self) -> Vec<Value> {
        let output = self.command("ledger --json").output().expect("nodeward starts");
        let mut list: Value = serde_json::from_slice(&output.stdout).expect("a ledger");
        serde_json::from_value(list["operations"].take()).expect("operations")
    }

    /// Returns the addresses of all pages that an operation of the ledger moved.
    pub fn moved_addresses(&self, operation: &Value) -> Vec<u64> {
        let words = format!("ledger --json --runs {}", operation["id"]);
        let full: Value = run_command(&mut self.command(&words)).json_after_exit(0);
        let runs = full["processes"].as_array().into_iter().flatten();
        let runs = runs.flat_map(|process| process["moved"]["runs"].as_array().expect("runs"));
        let address = |value: &Value| u64::from_str_radix(value.as_str()?, 16).ok();
        let range = |run: &Value| Some(address(&run["start"])?..address(&run["end"])?);
        let pages = |run| range(run).expect("a run").step_by(PAGE as usize);
        runs.flat_map(pages).collect()
    }
}

/// A running balancer. It is killed when the value is dropped.
#[derive(Debug)]
pub struct BalancerProcess {
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
pub struct BalancerExit {
    pub code: Option<i32>,
    pub moved_pages: u64,
    pub news: Vec<Value>,
    pub stderr: String,
}

impl BalancerProcess {
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

    fn next(&mut self) -> Option<RoundLine> {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the balancer's output can be read");
        if line.is_empty() {
            return None;
        }
        let round: RoundLine =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.moved_pages += round.moved_pages;
        self.nudged += round.nudged;
        self.news.extend(round.news.iter().cloned());
        Some(round)
    }

    /// Returns the next round, without fast rounds.
    pub fn next_round(&mut self) -> RoundLine {
        loop {
            match self.next() {
                Some(round) if round.is_fast => {}
                Some(round) => return round,
                None => panic!("the balancer ended: {:?} {}", self.child.wait(), self.stderr()),
            }
        }
    }

    /// Returns the next round, which is due at once because the settings are read again. Otherwise
    /// an idle balancer would wait long before it.
    pub fn reload_and_next_round(&mut self) -> RoundLine {
        self.signal(Signal::HUP);
        self.next_round()
    }

    /// Waits for a round that satisfies a condition.
    pub fn wait_for_round(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&RoundLine) -> bool,
    ) -> RoundLine {
        let patience = TestDeadline::start();
        for number in 0.. {
            let round = self.next_round();
            if is_so(&round) {
                return round;
            }
            let may_go_on = number < ROUNDS_MAX || !patience.has_passed();
            assert!(
                may_go_on,
                "{number} rounds in vain until {what}: {round:?}\n{} pages moved, news {:?}\n{}",
                self.moved_pages,
                self.news,
                self.stderr()
            );
        }
        unreachable!("there is always a next number")
    }

    /// Waits until some of a load's memory is on node 1: a move is in progress.
    pub fn wait_for_arrivals(&mut self, load: &LoadProcess) {
        self.wait_for_round("pages arrive", |_| pages_on(load, 1) > ARRIVED);
    }

    /// Waits until a load's memory is at its home according to /proc. Returns the home.
    pub fn wait_until_home(&mut self, load: &LoadProcess) -> u32 {
        let mut home = None;
        self.wait_for_round("memory is at home", |round| {
            home = round.home(load.pid());
            home.is_some_and(|home| is_mostly_on(load, home))
        });
        home.expect("it has a home")
    }

    /// Ends it as systemd does.
    pub fn stop(self) -> BalancerExit {
        self.signal(Signal::TERM);
        self.end()
    }

    /// Waits for the end of a balancer that was told to end. A second signal would end it at once.
    pub fn end(mut self) -> BalancerExit {
        while self.next().is_some() {}
        let code = self.child.wait().expect("our child can be waited for").code();
        let news = std::mem::take(&mut self.news);
        BalancerExit { code, moved_pages: self.moved_pages, news, stderr: self.stderr() }
    }

    /// Kills it, so that it cannot react.
    pub fn kill(mut self) {
        self.child.kill().expect("our child can be killed");
        self.child.wait().expect("our child can be waited for");
    }
}

impl Drop for BalancerProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl BalancerExit {
    /// Checks that it ended without errors.
    pub fn assert_success(self) -> Self {
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
pub fn is_mostly_on(load: &LoadProcess, node: u32) -> bool {
    share_permille(load, node) >= HOME_MILLI
}

/// More pages than a load has there from the start, beside its memory.
const ARRIVED: u64 = 100;

fn pages(load: &LoadProcess) -> PagesByNode {
    pages_within(load.pid(), &load.range())
}

fn pages_on(load: &LoadProcess, node: u32) -> u64 {
    pages(load).get(&node).copied().unwrap_or(0)
}

/// Checks that all of a load's memory is still on a node.
pub fn assert_stayed(load: &LoadProcess, node: u32) {
    // Other mappings may have some pages elsewhere.
    assert!(pages_on(load, node) >= load.ready.pages, "{:?}", pages(load));
}

/// Returns the share of a load's memory on a node, in thousandths.
pub fn share_permille(load: &LoadProcess, node: u32) -> u64 {
    let pages = pages(load);
    let all: u64 = pages.values().sum();
    pages.get(&node).copied().unwrap_or(0) * 1000 / all.max(1)
}

/// Returns options that name loads.
pub fn pid_options(loads: &[&LoadProcess]) -> String {
    loads.iter().map(|load| format!("--pid {} ", load.pid())).collect()
}

/// Switches the kernel's NUMA balancing off.
pub fn disable_numa_balancing() -> CaseOutcome {
    write_optional(NUMA_BALANCING, "0")
}

/// Starts a load that may run on CPU 1 only, with its memory on node 0: its home is node 1.
pub fn start_load_away(words: &str) -> LoadProcess {
    guest::pin_this_thread(&[1]);
    let load = LoadProcess::start(&format!("--node 0 --unbind {words}"));
    guest::pin_this_thread(&[0, 1]);
    load
}

/// Puts a process into a cgroup.
pub fn enter_cgroup(folder: &str, pid: u32) {
    write(&format!("{folder}/cgroup.procs"), &pid.to_string());
}
