//! A shell in a guest: input is forwarded as it is typed, and output is shown.
//!
//! On a terminal the guest's shell has a terminal too, and this one only passes keys on: Ctrl-C is
//! for the programs there. A special key sequence therefore ends the guest itself.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use nodeward_lab_agent::wire::{Frame, Input, Size};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::run::{self, Run, Sinks};
use crate::vm::Vm;

/// Ctrl-], which three times in a row ends the guest.
const LEAVE: u8 = 0x1d;
const LEAVE_TIMES: usize = 3;
/// Exit code of a guest that was ended that way: killed.
const LEFT: i32 = 128 + 9;
const PIECE_BYTES: usize = 4 << 10;

/// Hint printed before a shell on a terminal.
pub const HOW_TO_LEAVE: &str = "exit or Ctrl-D leaves it; Ctrl-] three times ends it at once";

/// Returns whether a shell would have a terminal.
pub fn on_terminal() -> bool {
    isatty(io::stdin())
}

/// Runs the command of `run`, a shell, in a guest that is ready, on our standard streams. Returns
/// its exit code, or `None` after a timeout.
pub fn drive(vm: &mut Vm, run: &Run) -> Result<Option<i32>> {
    let raw = on_terminal().then(Raw::begin).transpose()?;
    let input = match raw {
        Some(_) => Input::Terminal(size()?),
        None => Input::Stream,
    };
    let deadline = run::deadline(run);
    run::send(vm, run, input, deadline)?;
    let wire = Wire::new(&vm.port)?;
    wire.watch_signals()?;
    wire.take_input(raw.is_some());
    let mut sinks = Sinks { stdout: &mut io::stdout(), stderr: &mut io::stderr() };
    let followed = run::follow(vm, deadline, &mut sinks);
    match wire.cut.get() {
        Some(code) => Ok(Some(*code)),
        None => followed,
    }
}

fn size() -> Result<Size> {
    let size = tcgetwinsize(io::stdin()).context("cannot ask for the size of the terminal")?;
    Ok(Size { rows: size.ws_row, columns: size.ws_col })
}

/// A terminal in raw mode, until this is dropped.
struct Raw(Termios);

impl Raw {
    fn begin() -> Result<Self> {
        let before = tcgetattr(io::stdin()).context("cannot ask for the terminal's modes")?;
        let mut raw = before.clone();
        raw.make_raw();
        set(&raw).context("cannot set the terminal's modes")?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Err(why) = set(&self.0) {
            eprintln!("nodeward-lab: the terminal keeps its modes ({why}): try `reset`");
        }
    }
}

fn set(modes: &Termios) -> rustix::io::Result<()> {
    tcsetattr(io::stdin(), OptionalActions::Now, modes)
}

/// The connection to the guest, for threads that write to it beside the main one.
#[derive(Clone)]
struct Wire {
    port: Arc<Mutex<UnixStream>>,
    /// The exit code of a guest that was cut off from here.
    cut: Arc<OnceLock<i32>>,
}

impl Wire {
    fn new(port: &UnixStream) -> Result<Self> {
        let port = port.try_clone().context("cannot share the port to the guest")?;
        Ok(Self { port: Arc::new(Mutex::new(port)), cut: Arc::default() })
    }

    fn send(&self, frame: &Frame) -> io::Result<()> {
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        frame.write_to(&mut *port)
    }

    /// Cuts the guest off: the reader of its output sees the end.
    fn cut(&self, code: i32) {
        let _ = self.cut.set(code);
        let port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = port.shutdown(Shutdown::Both);
    }

    /// Starts a thread that reports new window sizes, and that ends the guest in order, with the
    /// terminal restored, on a termination signal.
    fn watch_signals(&self) -> Result<()> {
        let signals = Signals::new([SIGWINCH, SIGTERM, SIGINT, SIGHUP]);
        let mut signals = signals.context("cannot watch signals")?;
        let wire = self.clone();
        thread::spawn(move || {
            for signal in &mut signals {
                match (signal, size()) {
                    (SIGWINCH, Ok(size)) => drop(wire.send(&Frame::Resize(size))),
                    (SIGWINCH, Err(_)) => {}
                    _ => wire.cut(128 + signal),
                }
            }
        });
        Ok(())
    }

    fn take_input(&self, terminal: bool) {
        let wire = self.clone();
        thread::spawn(move || {
            let mut keys = Keys::default();
            let left = wire.pass_on(&mut io::stdin().lock(), |typed| terminal && keys.end(typed));
            if left.is_ok_and(|left| left) {
                wire.cut(LEFT);
            }
        });
    }

    /// Forwards input until its end, or until `leave` accepts it. A guest that takes no more input
    /// is about to end.
    fn pass_on(
        &self,
        from: &mut impl Read,
        mut leave: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<bool> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let typed = match from.read(&mut piece) {
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                count => &piece[..count.unwrap_or(0)],
            };
            if leave(typed) {
                return Ok(true);
            }
            self.send(&Frame::Stdin(typed.to_vec()))?;
            if typed.is_empty() {
                return Ok(false);
            }
        }
    }
}

/// State of the key sequence that ends a guest.
#[derive(Default)]
struct Keys(usize);

impl Keys {
    /// Returns whether the sequence is complete somewhere in the typed keys.
    fn end(&mut self, typed: &[u8]) -> bool {
        typed.iter().any(|key| {
            self.0 = if *key == LEAVE { self.0 + 1 } else { 0 };
            self.0 == LEAVE_TIMES
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_end_it_however_they_arrive() {
        let ends = |pieces: &[&[u8]]| {
            let mut keys = Keys::default();
            pieces.iter().any(|typed| keys.end(typed))
        };
        assert!(ends(&[b"ls\r\x1d\x1d\x1d"]));
        assert!(ends(&[b"\x1d", b"\x1d", b"\x1d"]));
        assert!(!ends(&[b"\x1d\x1d", b"x", b"\x1d"]));
    }
}
