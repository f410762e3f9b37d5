//! One command in one guest: the request, the result, and the protocol in between.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nodeward_lab_agent::protocol::{Frame, Input, Request};
use nodeward_lab_counts::CounterSnapshot;

use crate::count::CountOptions;
use crate::kernel::GuestKernel;
use crate::payload::{self, GuestFile};
use crate::scenario::LabMachine;
use crate::vm::Vm;

/// Exit code of a run that timed out, as in timeout(1).
pub const TIMED_OUT: i32 = 124;
const SEED_BYTES: usize = 64;

/// A command to run in a guest.
#[derive(Debug, Clone)]
pub struct GuestRun {
    /// The machine.
    pub scenario: LabMachine,
    /// The kernel.
    pub kernel: GuestKernel,
    /// Files to bring along, programs with their libraries.
    pub files: Vec<GuestFile>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment variables of the program.
    pub env: Vec<(String, String)>,
    /// Time limit of the command, without boot.
    pub timeout: Duration,
    /// Further arguments for the kernel.
    pub append: String,
    /// Boot afresh, even if a snapshot exists.
    pub cold: bool,
    /// Make the host allocate all memory before the command starts. Otherwise the guest waits for
    /// the host whenever it touches a page for the first time: on virtual hosts longer than moving
    /// the page takes.
    pub populate: bool,
    /// Let one thread of the host emulate all CPUs in turns. Where guests share CPUs of the host
    /// that takes a fifth to a third less CPU time: no CPU waits for another that does not run. But
    /// a CPU's turn lasts up to 100 ms, so little happens while another is in the middle of
    /// something.
    pub take_turns: bool,
    /// Count accesses to memory.
    pub count: Option<CountOptions>,
}

impl GuestRun {
    /// Creates a run of a program with arguments; kernel 6.12, no files, sixty seconds.
    pub fn new<S: Into<String>>(
        scenario: LabMachine,
        command: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            scenario,
            kernel: GuestKernel::V6_12,
            files: Vec::new(),
            command: command.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            timeout: Duration::from_secs(60),
            append: String::new(),
            cold: false,
            populate: false,
            take_turns: false,
            count: None,
        }
    }

    /// Creates a run of a line for the guest's shell.
    pub fn shell(scenario: LabMachine, line: &str) -> Self {
        Self::new(scenario, ["sh", "-c", line])
    }
}

/// The output of a command, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutput {
    /// The exit code; 128 plus the signal if a signal ended the command; 124 after a timeout.
    pub code: i32,
    /// Whether the command timed out.
    pub timed_out: bool,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// The counts of a counted run.
    pub counts: Option<CounterSnapshot>,
}

/// The end of a command whose output went elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunExit {
    /// Its exit code, or `None` after a timeout.
    pub code: Option<i32>,
    /// The counts of a counted run.
    pub counts: Option<CounterSnapshot>,
}

/// Receivers of a command's output while it runs.
pub struct Sinks<'a> {
    /// Receives the standard output.
    pub stdout: &'a mut dyn Write,
    /// Receives the standard error.
    pub stderr: &'a mut dyn Write,
}

/// The end of a run's time limit; `None` if that is too far away to represent.
pub type Deadline = Option<Instant>;

/// Runs a command in a guest that is ready. Returns its exit code, or `None` after a timeout.
pub fn run_command(vm: &mut Vm, run: &GuestRun, sinks: &mut Sinks) -> Result<Option<i32>> {
    let deadline = deadline(run);
    send(vm, run, Input::Nothing, deadline)?;
    forward_output(vm, deadline, sinks)
}

/// Returns the deadline of a run that begins now.
pub fn deadline(run: &GuestRun) -> Deadline {
    Instant::now().checked_add(run.timeout)
}

/// Passes on the command's output until its end.
pub fn forward_output(vm: &mut Vm, deadline: Deadline, sinks: &mut Sinks) -> Result<Option<i32>> {
    loop {
        let Some(frame) = receive(vm, deadline)? else { return Ok(None) };
        match frame {
            Frame::Stdout(bytes) => pass_on(sinks.stdout, &bytes)?,
            Frame::Stderr(bytes) => pass_on(sinks.stderr, &bytes)?,
            Frame::Exit(code) => return Ok(Some(code)),
            Frame::Failed(why) => bail!("{why}"),
            other => bail!("the guest said {other:?} out of turn"),
        }
    }
}

/// Sends the files and the command with its kind of input.
pub fn send(vm: &mut Vm, run: &GuestRun, input: Input, deadline: Deadline) -> Result<()> {
    ensure!(!run.command.is_empty(), "no command given");
    vm.port.set_write_timeout(deadline.map(time_left))?;
    let sent = payload::send(&run.files, &mut vm.port)
        .and_then(|()| Ok(Frame::Run(request(run, input)?).write_to(&mut vm.port)?));
    sent.context("cannot send files and command to the guest")
}

fn request(run: &GuestRun, input: Input) -> Result<Request> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let mut seed = vec![0; SEED_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut seed)?;
    Ok(Request {
        argv: run.command.clone(),
        env: run.env.clone(),
        now_ns: u64::try_from(now.as_nanos())?,
        seed,
        input,
    })
}

/// Returns the next frame, or `None` after the deadline.
fn receive(vm: &mut Vm, deadline: Deadline) -> Result<Option<Frame>> {
    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
        return Ok(None);
    }
    vm.port.set_read_timeout(deadline.map(time_left))?;
    match Frame::read_from(&mut vm.port) {
        Ok(frame) => Ok(Some(frame)),
        Err(why) if why.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(why) => {
            Err(vm.with_console_tail(anyhow!(why), "the guest ended before its command did"))
        }
    }
}

/// Returns the time until a deadline; never 0, because sockets take 0 for no limit.
fn time_left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn pass_on(sink: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    sink.write_all(bytes).and_then(|()| sink.flush()).context("cannot pass the output on")
}
