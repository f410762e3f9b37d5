//! Targets of moves: `nodeward-load` as a child process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::PageLocation;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::numa_maps::{PagesByNode, pages_of, pages_within};

/// Pages that two workers move by their first calls of 50 ms each at 16 MiB/s, the highest rate of
/// cases: 2 x
/// 205. The moved pages of a call in which a process ends are freed with it.
const FIRST_CALLS_PAGES: u64 = 410;

/// The load's report when its memory is in place.
#[derive(Clone, Debug, Deserialize)]
pub struct LoadReady {
    pub range: String,
    pub hot: String,
    pub pages: u64,
    pub pinned: u64,
    pub huge_bytes: Option<u64>,
    pub children: Vec<u32>,
}

/// The load's report at its end.
#[derive(Debug, Deserialize)]
pub struct LoadDone {
    pub writes: u64,
    pub checks: u64,
    pub mismatches: u64,
    pub races: u64,
}

/// A running load. It is killed when the value is dropped.
#[derive(Debug)]
pub struct LoadProcess {
    child: Child,
    output: BufReader<ChildStdout>,
    pub ready: LoadReady,
}

impl LoadProcess {
    /// Starts a load with these arguments and waits until its memory is in place.
    pub fn start(arguments: &str) -> Self {
        Self::spawn(&mut command(arguments))
    }

    /// As [`LoadProcess::start`], for another user.
    pub fn start_as(user: u32, arguments: &str) -> Self {
        Self::spawn(command(arguments).uid(user).gid(user))
    }

    /// Starts a load by way of another program, which becomes the load.
    pub fn start_through(program: impl AsRef<OsStr>, words: &str) -> Self {
        Self::spawn(Command::new(program).args(words.split_whitespace()))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("nodeward-load starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let ready = line(&mut output);
        Self { child, output, ready }
    }

    /// Returns its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the id of a thread that is not its first.
    pub fn other_thread(&self) -> String {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("threads");
        let ids = tasks.flatten().map(|entry| entry.file_name().into_string().expect("a number"));
        ids.filter(|id| *id != self.pid().to_string()).max().expect("a second thread")
    }

    /// Returns the addresses of its memory.
    pub fn range(&self) -> Range<u64> {
        addresses(&self.ready.range)
    }

    /// Returns the addresses that it writes all the time.
    pub fn hot(&self) -> Range<u64> {
        addresses(&self.ready.hot)
    }

    /// Returns the places of its pages by /proc/PID/numa_maps, once two reads agree.
    pub fn pages_by_node(&self) -> PagesByNode {
        stable(|| pages_of(self.pid()))
    }

    /// As [`LoadProcess::pages_by_node`], for the mappings that hold the load's memory.
    pub fn memory_by_node(&self) -> PagesByNode {
        stable(|| pages_within(self.pid(), &self.range()))
    }

    /// Returns the place of each page of its memory, from its first address on.
    pub fn page_locations(&self) -> Vec<PageLocation> {
        let pid = nodeward_model::Pid::new(self.pid()).expect("a pid");
        let process = Linux::open().open_process(pid).expect("our child");
        let Range { start, end } = self.range();
        let mut places = Vec::new();
        process
            .locations(nodeward_model::Range::new(start, end), &mut places)
            .expect("we are root");
        places
    }

    /// Waits until some of its memory is on node 1: a move is in progress, and its first calls have
    /// returned.
    pub fn wait_for_arrivals(&self) {
        crate::guest::wait_until("pages arrive", || {
            pages_within(self.pid(), &self.range())
                .get(&1)
                .is_some_and(|&pages| pages > FIRST_CALLS_PAGES)
        });
    }

    /// Stops all its threads, and waits until they have stopped.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        crate::guest::wait_until("every thread is stopped", || {
            let threads = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
            let stat = |thread: std::fs::DirEntry| {
                std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default()
            };
            threads.map(stat).all(|stat| stat.contains(") T "))
        });
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our child can be signalled");
    }

    /// Ends it, and checks that its memory held what was written.
    pub fn end(mut self) -> LoadDone {
        self.signal(Signal::TERM);
        let done: LoadDone = line(&mut self.output);
        let status = self.child.wait().expect("our child can be waited for");
        assert_eq!((done.mismatches, status.code()), (0, Some(0)), "memory was lost: {done:?}");
        assert!(done.checks > 0, "nothing was checked: {done:?}");
        done
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        // It may have ended by itself, as some cases expect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn addresses(text: &str) -> Range<u64> {
    let number = |text| u64::from_str_radix(text, 16).expect("a hexadecimal number");
    let (start, end) = text.split_once('-').expect("START-END");
    number(start)..number(end)
}

fn command(arguments: &str) -> Command {
    let mut command = Command::new("nodeward-load");
    command.args(arguments.split_whitespace());
    command
}

fn line<T: for<'de> Deserialize<'de>>(output: &mut impl BufRead) -> T {
    let mut line = String::new();
    output.read_line(&mut line).expect("the load's output can be read");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("the load said '{line}': {error}"))
}

/// Repeats a read until it is stable: a process faults in its last pages some time after it
/// reported ready.
fn stable(look: impl Fn() -> PagesByNode) -> PagesByNode {
    let mut last = look();
    crate::guest::wait_until("the process has all its pages", || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let now = look();
        let same = now == last;
        last = now;
        same
    });
    last
}
