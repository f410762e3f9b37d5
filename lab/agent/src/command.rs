//! Runs the one command and carries its output to the host while it runs.

use std::fs::File;
use std::io::{Read, Result as IoResult};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use nodeward_lab_agent::wire::{Frame, Request};
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};

/// Programs are looked for here; files from the host stand in the first by default.
const PATH: &str = "/bin:/usr/bin:/sbin:/usr/sbin";
/// How long output may still arrive, through children left behind, after the command has ended.
const DRAIN: Duration = Duration::from_millis(300);
const PIECE_BYTES: usize = 64 << 10;

/// Runs the command to its end; its exit code, or 128 plus the signal that ended it.
pub fn run(request: &Request, port: &File) -> Result<i32> {
    let mut child = spawn(request)?;
    let port = Arc::new(Mutex::new(port.try_clone()?));
    let ended = carry_both(&mut child, &port);
    let code = reap_until(child.id())?;
    while ended.recv_timeout(DRAIN).is_ok() {}
    Ok(code)
}

fn spawn(request: &Request) -> Result<Child> {
    let (program, arguments) = request.argv.split_first().context("the command is empty")?;
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs([("PATH", PATH), ("HOME", "/root"), ("TERM", "dumb")])
        .envs(request.env.iter().map(|(key, value)| (key, value)))
        .current_dir("/root")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start '{program}' in the guest"))
}

/// Starts a carrier per stream; the receiver ends when both have.
fn carry_both(child: &mut Child, port: &Arc<Mutex<File>>) -> Receiver<()> {
    let (alive, ended) = channel();
    if let Some(stdout) = child.stdout.take() {
        carry(stdout, Frame::Stdout, port, &alive);
    }
    if let Some(stderr) = child.stderr.take() {
        carry(stderr, Frame::Stderr, port, &alive);
    }
    ended
}

fn carry<R: Read + Send + 'static>(
    mut stream: R,
    frame: fn(Vec<u8>) -> Frame,
    port: &Arc<Mutex<File>>,
    alive: &Sender<()>,
) {
    let (port, alive) = (Arc::clone(port), alive.clone());
    std::thread::spawn(move || {
        if let Err(why) = pump(&mut stream, frame, &port) {
            eprintln!("nodeward-lab-init: output is lost: {why}");
        }
        drop(alive);
    });
}

fn pump(stream: &mut impl Read, frame: fn(Vec<u8>) -> Frame, port: &Mutex<File>) -> IoResult<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
        frame(piece[..count].to_vec()).write_to(&mut *port)?;
    }
}

/// Waits for any child, as the first process must, until the one asked for has ended.
fn reap_until(wanted: u32) -> Result<i32> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if is(pid, wanted) => return Ok(code(status)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why).context("cannot wait for the command"),
        }
    }
}

fn is(pid: Pid, wanted: u32) -> bool {
    u32::try_from(pid.as_raw_nonzero().get()).is_ok_and(|pid| pid == wanted)
}

fn code(status: WaitStatus) -> i32 {
    let by_signal = status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or(by_signal).unwrap_or(255)
}
