//! Runs the guest's one command and sends its output to the host while it runs.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use nodeward_lab_agent::protocol::{Frame, Input, Request, TerminalSize};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};

use crate::input;
use crate::output::OutputForwarder;

/// Search path of programs; files from the host go to the first directory by default.
const PATH: &str = "/bin:/usr/bin:/sbin:/usr/sbin";

/// Runs the command to its end. Returns its exit code, or 128 plus the signal that ended it.
pub fn run(request: &Request, port: &File) -> Result<i32> {
    let mut carriers = OutputForwarder::new(port)?;
    let child = match request.input {
        Input::Terminal(size) => spawn_on_terminal(request, size, port, &mut carriers)?,
        _ => spawn_on_pipes(request, port, &mut carriers)?,
    };
    let code = reap_until(child.id())?;
    carriers.finish();
    Ok(code)
}

/// Starts the command with streams, and a thread that forwards each.
fn spawn_on_pipes(request: &Request, port: &File, carriers: &mut OutputForwarder) -> Result<Child> {
    let stdin = if request.input == Input::Stream { Stdio::piped() } else { Stdio::null() };
    let mut command = command(&request.argv, request)?;
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command, request)?;
    if let Some(stdin) = child.stdin.take() {
        input::forward_input(port, stdin.into())?;
    }
    if let Some(stdout) = child.stdout.take() {
        carriers.forward(stdout, Frame::Stdout)?;
    }
    if let Some(stderr) = child.stderr.take() {
        carriers.forward(stderr, Frame::Stderr)?;
    }
    Ok(child)
}

/// Starts the command on a terminal of its own, in a session of its own, so that keys become
/// signals there.
fn spawn_on_terminal(
    request: &Request,
    size: TerminalSize,
    port: &File,
    carriers: &mut OutputForwarder,
) -> Result<Child> {
    let (ours, theirs) =
        input::open_terminal(size).context("cannot open a terminal in the guest")?;
    let session = ["/bin/busybox", "setsid", "-c"].map(str::to_owned);
    let mut command = command(&[&session[..], &request.argv].concat(), request)?;
    command.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs);
    let child = spawn(command, request)?;
    input::forward_input(port, ours.try_clone()?.into())?;
    carriers.forward(ours, Frame::Stdout)?;
    Ok(child)
}

fn command(argv: &[String], request: &Request) -> Result<Command> {
    let (program, arguments) = argv.split_first().context("the command is empty")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs([("PATH", PATH), ("HOME", "/root"), ("TERM", "dumb")])
        .envs(request.env.iter().map(|(key, value)| (key, value)))
        .current_dir("/root");
    Ok(command)
}

/// Spawns the command. Takes it by value, so that our copies of the child's streams are closed.
fn spawn(mut command: Command, request: &Request) -> Result<Child> {
    let name = request.argv.first().map_or("", String::as_str);
    command.spawn().with_context(|| format!("cannot start '{name}' in the guest"))
}

/// Waits for any child, as the first process must, until the wanted one has ended.
fn reap_until(wanted: u32) -> Result<i32> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if is_child(pid, wanted) => return Ok(code(status)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(why).context("cannot wait for the command"),
        }
    }
}

fn is_child(pid: Pid, wanted: u32) -> bool {
    u32::try_from(pid.as_raw_nonzero().get()).is_ok_and(|pid| pid == wanted)
}

fn code(status: WaitStatus) -> i32 {
    let by_signal = status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or(by_signal).unwrap_or(255)
}
