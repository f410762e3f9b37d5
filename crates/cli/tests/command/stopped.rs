//! Ctrl-C and SIGTERM end every command soon, whatever it waits for or works at. Each of these
//! would go on for hours; one that ends before it was asked to fails the test.

use std::collections::BTreeSet;
use std::io::{PipeReader, PipeWriter, Write as _};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use nodeward_linux::test_wait::wait_until;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_default;

use crate::full_output::{QUESTIONS, command};
use crate::outcome::{NODEWARD, is_long};

/// A second, on a machine that is many times as slow.
const SOON: Duration = Duration::from_secs(30);
/// The documented code of an end that was asked for.
const INTERRUPTED: i32 = 130;
/// The numbers of system calls, which /proc shows.
const READ: &str = if cfg!(target_arch = "x86_64") { "0" } else { "63" };
const WRITE: &str = if cfg!(target_arch = "x86_64") { "1" } else { "64" };

/// A command that goes on until a signal ends it.
struct RunningCommand {
    words: String,
    child: Option<Child>,
}

impl RunningCommand {
    fn start(command: &mut Command) -> Self {
        take_signals();
        Self { words: format!("{command:?}"), child: Some(command.spawn().unwrap()) }
    }

    fn piped(words: &str) -> Self {
        Self::start(command(words).stdout(Stdio::piped()))
    }

    fn child(&mut self) -> &mut Child {
        self.child.as_mut().unwrap()
    }

    fn wait_until(&mut self, what: &str, is_so: impl Fn(&Path) -> bool) {
        let proc = format!("/proc/{}", self.child().id());
        wait_until(&format!("{what}: {}", self.words), || {
            assert_eq!(self.child().try_wait().unwrap(), None, "{} has ended", self.words);
            is_so(Path::new(&proc))
        });
    }

    /// Waits until one of its threads is inside a system call, of which /proc shows the number, and
    /// then the arguments.
    fn wait_for_call(&mut self, shown: &str) {
        self.wait_until("it makes a call", |proc| {
            let tasks = std::fs::read_dir(proc.join("task")).into_iter().flatten().flatten();
            let call = |task: std::fs::DirEntry| text(&task.path().join("syscall"));
            tasks.map(call).any(|call| call.starts_with(shown))
        });
    }

    /// Waits until it catches signals, and works.
    fn wait_for_work(&mut self) {
        self.wait_for_signals();
        self.wait_for_cpu_time();
    }

    /// Waits until it catches Ctrl-C and SIGTERM (bits 1 and 14).
    fn wait_for_signals(&mut self) {
        self.wait_until("it catches signals", |proc| {
            let status = text(&proc.join("status"));
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            caught.is_some_and(|mask| mask & 0x4002 == 0x4002)
        });
    }

    /// Waits until it has used 50 ms more of CPU time: fields 14 and 15, in hundredths of a second.
    fn wait_for_cpu_time(&mut self) {
        let ticks = |proc: &Path| {
            let stat = text(&proc.join("stat"));
            let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
            fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
        };
        let before = ticks(Path::new(&format!("/proc/{}", self.child().id())));
        self.wait_until("it works", |proc| ticks(proc) >= before + 5);
    }

    /// Sends a signal, and returns what the command left.
    fn end_by(mut self, signal: Signal) -> Output {
        let asked = Instant::now();
        kill_process(Pid::from_child(self.child()), signal).unwrap();
        wait_until(&format!("it ends: {}", self.words), || {
            self.child().try_wait().unwrap().is_some()
        });
        let took = asked.elapsed();
        assert!(took < SOON, "{}: {took:?} after {signal:?}", self.words);
        self.child.take().unwrap().wait_with_output().unwrap()
    }

    /// Checks that it ends by the signal, as a program that does not catch it.
    fn ends_by(self, signal: Signal) {
        let words = self.words.clone();
        let output = self.end_by(signal);
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{words}: {output:?}");
    }

    /// Checks that it ends with its documented code; returns what it told.
    fn ends_in_order(self, signal: Signal) -> String {
        let words = self.words.clone();
        let output = self.end_by(signal);
        assert_eq!(output.status.code(), Some(INTERRUPTED), "{words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Checks that it ends in either way: nobody misses its result.
    fn ends_soon(self, signal: Signal) {
        let words = self.words.clone();
        let status = self.end_by(signal).status;
        let is_in_order = status.code() == Some(INTERRUPTED);
        assert!(is_in_order || status.signal() == Some(signal.as_raw()), "{words}: {status}");
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.child.iter_mut().for_each(|child| child.kill().unwrap());
    }
}

/// Makes signals end commands that start from now on, also where whoever runs the tests ignores
/// them: exec keeps what is ignored, and resets what is caught.
fn take_signals() {
    static TAKEN: Once = Once::new();
    TAKEN.call_once(|| {
        for signal in [SIGINT, SIGTERM] {
            register_conditional_default(signal, Arc::new(AtomicBool::new(true))).unwrap();
        }
    });
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A pipe without room.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    rustix::fs::fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    while writer.write(&[0]).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// Goal: a command whose results nobody reads ends: each verb, in long tests each question.
#[test]
fn while_it_writes() {
    let mut verbs = BTreeSet::new();
    let verb = |words: &str| words.split_whitespace().next().map(str::to_owned);
    let questions = QUESTIONS.iter().filter(|words| verbs.insert(verb(words)) || is_long());
    for (words, signal) in questions.zip([Signal::INT, Signal::TERM].into_iter().cycle()) {
        let (_reader, writer) = full_pipe();
        let mut running = RunningCommand::start(command(words).stdout(writer));
        running.wait_for_call(&format!("{WRITE} 0x1 "));
        running.ends_by(signal);
    }
}

/// Goal: likewise as another program.
#[test]
fn while_it_writes_as_numad() {
    let folder = tempfile::tempdir().unwrap();
    let numad = folder.path().join("numad");
    std::os::unix::fs::symlink(NODEWARD, &numad).unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let (_reader, writer) = full_pipe();
        let mut running =
            RunningCommand::start(Command::new(&numad).args(["-w", "1"]).stdout(writer));
        running.wait_for_call(&format!("{WRITE} 0x1 "));
        running.ends_by(signal);
    }
}

/// Goal: a balancer ends that is blocked by its messages, in the middle of its rounds.
#[test]
fn while_it_tells_of_a_round() {
    let (_reader, writer) = full_pipe();
    let words = "balance --machine sim:balance-2012 --for 9999s --verbose";
    let mut running = RunningCommand::start(command(words).stdout(Stdio::null()).stderr(writer));
    running.wait_for_call(&format!("{WRITE} 0x2 "));
    running.ends_by(Signal::TERM);
}

/// Goal: a command ends whose input does not come: a list of addresses, a machine, samples.
#[test]
fn while_it_waits_for_input() {
    let us = std::process::id();
    for (words, begin) in [
        (format!("move {us} 0 0 --addresses -"), ""),
        (format!("move {us} --hot -"), "7f0000001000 0 7\n"),
        ("show --hwloc /dev/stdin".to_owned(), "<?xml"),
    ] {
        for signal in [Signal::INT, Signal::TERM] {
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(begin.as_bytes()).unwrap();
            let mut running =
                RunningCommand::start(command(&words).stdin(reader).stdout(Stdio::null()));
            running.wait_for_call(&format!("{READ} "));
            running.ends_by(signal);
        }
    }
}

/// Goal: a command ends that waits for an agent, which accepts the connection and says nothing.
#[test]
fn while_it_waits_for_an_agent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let us = std::process::id();
    for verb in [
        format!("move {us} 0 0"),
        format!("move {us} 0 0 --dry-run"),
        format!("show {us}"),
        format!("explain {us}"),
        "group list".to_owned(),
    ] {
        for signal in [Signal::INT, Signal::TERM] {
            let words = format!("{verb} --agent={}", path.to_str().unwrap());
            let running = RunningCommand::piped(&words);
            let (_connection, _) = listener.accept().unwrap();
            running.ends_by(signal);
        }
    }
}

/// Goal: what watches for a time ends before.
#[test]
fn while_it_watches() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = RunningCommand::piped("show --window 9999s");
        running.wait_until("it sleeps", |proc| text(&proc.join("wchan")).contains("nanosleep"));
        running.ends_by(signal);
    }
}

/// Goal: a watch that is to last for hours ends with the page of what it saw, and says so.
#[test]
fn while_it_watches_for_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    for signal in [Signal::INT, Signal::TERM] {
        let words = "report --system --for 600s --quiet -o";
        let mut running = RunningCommand::start(command(words).arg(&file).stdout(Stdio::piped()));
        running.wait_for_work();
        let told = running.ends_in_order(signal);
        assert!(told.contains(", stopped early: "), "{told}");
        let page = text(&file);
        assert!(page.contains("it was to last 10 min") && page.ends_with("</html>\n"), "{page}");
        std::fs::remove_file(&file).unwrap();
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

/// Goal: a watch over who moves pages ends at once, in the middle of a round, with what it counted.
#[test]
fn while_it_watches_who_moves() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = RunningCommand::piped("watch --interval 3600s --json");
        running.wait_for_signals();
        let told = running.ends_in_order(signal);
        assert!(told.contains(r#""ended":"stopped""#), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

/// Goal: a daemon ends between two rounds, and in the middle of them.
#[test]
fn while_it_balances() {
    for words in [
        "balance --machine sim:balance-2012 --for 9999s --json",
        "balance --machine sim:balance-2012 --for 9999s --dry-run --json",
    ] {
        for (signal, code) in [(Signal::INT, INTERRUPTED), (Signal::TERM, 0)] {
            let mut running = RunningCommand::start(command(words).stdout(Stdio::null()));
            running.wait_for_work();
            assert_eq!(running.end_by(signal).status.code(), Some(code), "{words}");
        }
    }
}

/// Goal: a simulation ends with its report so far; what has no result before its end ends at once,
/// and leaves no half of a page.
#[test]
fn while_it_simulates() {
    let folder = tempfile::tempdir().unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = RunningCommand::piped("sim two-socket --limit 86400s --json");
        running.wait_for_work();
        assert!(running.ends_in_order(signal).contains(r#""ended":"stopped""#));
        for words in ["sim compare --docs", "reproduce --docs"] {
            let mut running = RunningCommand::start(command(words).arg(folder.path()));
            running.wait_for_cpu_time();
            running.ends_by(signal);
        }
        let mut running = RunningCommand::piped("sim swarm --seeds 99999999");
        running.wait_for_work();
        running.ends_soon(signal);
        let mut running = RunningCommand::piped("sim swarm --figure canary --from 3");
        running.wait_for_cpu_time();
        running.ends_by(signal);
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

/// Goal: a measurement ends, however long each of its parts would take.
#[test]
fn while_it_measures() {
    let calls =
        nodeward_pager::BareCalls::open().is_ok().then_some("bench calls --samples 1000000");
    let pages = ["bench pager --time 9999s --size 64MiB", "bench pool --time 9999s --bytes 16MiB"];
    for words in pages.into_iter().chain(calls) {
        let mut running = RunningCommand::piped(words);
        running.wait_for_work();
        running.ends_soon(Signal::TERM);
    }
    for words in
        ["bench agent --figure latency --time 9999s", "bench balance --figure decision --runs 1000"]
    {
        let mut running = RunningCommand::piped(words);
        running.wait_for_cpu_time();
        running.ends_by(Signal::INT);
    }
}
