//! One command in one guest: what is asked, what came of it, and the talk in between.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nodeward_lab_agent::wire::{Frame, Input, Request};
use nodeward_lab_counts::Counts;

use crate::count::Count;
use crate::kernel::Kernel;
use crate::payload::{self, GuestFile};
use crate::scenario::Scenario;
use crate::vm::Vm;

/// What a run that was cut off ends with, as timeout(1) has it.
pub const TIMED_OUT: i32 = 124;
const SEED_BYTES: usize = 64;

/// A command to run in a guest.
#[derive(Debug, Clone)]
pub struct Run {
    /// The machine.
    pub scenario: Scenario,
    /// What it boots.
    pub kernel: Kernel,
    /// Files that it finds, programs with their libraries.
    pub files: Vec<GuestFile>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables for the program.
    pub env: Vec<(String, String)>,
    /// How long the command may take, not counting boot.
    pub timeout: Duration,
    /// Further arguments for the kernel.
    pub append: String,
    /// Boot afresh, even where a snapshot could be had.
    pub cold: bool,
    /// Have the host find room for all memory before the command starts. Without, the guest waits
    /// for the host whenever it touches a page for the first time: on virtual hosts for longer than
    /// moving it takes.
    pub populate: bool,
    /// Count accesses to memory.
    pub count: Option<Count>,
}

impl Run {
    /// A program with arguments on a machine; 6.12, no files, sixty seconds.
    pub fn new<S: Into<String>>(scenario: Scenario, command: impl IntoIterator<Item = S>) -> Self {
        Self {
            scenario,
            kernel: Kernel::V6_12,
            files: Vec::new(),
            command: command.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            timeout: Duration::from_secs(60),
            append: String::new(),
            cold: false,
            populate: false,
            count: None,
        }
    }

    /// A line for the guest's shell on a machine.
    pub fn shell(scenario: Scenario, line: &str) -> Self {
        Self::new(scenario, ["sh", "-c", line])
    }
}

/// What a command wrote and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The exit code; 128 plus the signal for a command that a signal ended; 124 for one cut off.
    pub code: i32,
    /// Whether the command was cut off because its time was over.
    pub timed_out: bool,
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
    /// What was counted, of a run that was.
    pub counts: Option<Counts>,
}

/// How a command ended whose output went elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, or `None` if its time was over.
    pub code: Option<i32>,
    /// What was counted, of a run that was.
    pub counts: Option<Counts>,
}

/// Where a command's output goes while it runs.
pub struct Sinks<'a> {
    /// Takes the standard output.
    pub stdout: &'a mut dyn Write,
    /// Takes the standard error.
    pub stderr: &'a mut dyn Write,
}

/// When a run that begins now is over; never, if that is too far away to tell.
pub type Deadline = Option<Instant>;

/// Runs a command in a guest that is ready; its exit code, or `None` if its time was over.
pub fn drive(vm: &mut Vm, run: &Run, sinks: &mut Sinks) -> Result<Option<i32>> {
    let deadline = deadline(run);
    send(vm, run, Input::Nothing, deadline)?;
    follow(vm, deadline, sinks)
}

/// When a run that begins now is over.
pub fn deadline(run: &Run) -> Deadline {
    Instant::now().checked_add(run.timeout)
}

/// Passes on what the command writes, until its end.
pub fn follow(vm: &mut Vm, deadline: Deadline, sinks: &mut Sinks) -> Result<Option<i32>> {
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

/// Sends the files and the command, which will read `input`.
pub fn send(vm: &mut Vm, run: &Run, input: Input, deadline: Deadline) -> Result<()> {
    ensure!(!run.command.is_empty(), "no command given");
    vm.port.set_write_timeout(deadline.map(left))?;
    let sent = payload::send(&run.files, &mut vm.port)
        .and_then(|()| Ok(Frame::Run(request(run, input)?).write_to(&mut vm.port)?));
    sent.context("cannot send files and command to the guest")
}

fn request(run: &Run, input: Input) -> Result<Request> {
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

/// The next frame, or `None` if the time is over.
fn receive(vm: &mut Vm, deadline: Deadline) -> Result<Option<Frame>> {
    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
        return Ok(None);
    }
    vm.port.set_read_timeout(deadline.map(left))?;
    match Frame::read_from(&mut vm.port) {
        Ok(frame) => Ok(Some(frame)),
        Err(why) if why.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(why) => Err(vm.explain(anyhow!(why), "the guest ended before its command did")),
    }
}

/// The time until a deadline; at least a little, because sockets take none at all for no limit.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn pass_on(sink: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    sink.write_all(bytes).and_then(|()| sink.flush()).context("cannot pass the output on")
}
