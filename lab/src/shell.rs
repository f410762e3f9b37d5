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
use nodeward_lab_agent::protocol::{Frame, Input, TerminalSize};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::run::{self, GuestRun, Sinks};
use crate::vm::Vm;

/// Ctrl-], which three times in a row ends the guest.
const ESCAPE_KEY: u8 = 0x1d;
const ESCAPE_KEY_REPEATS: usize = 3;
/// Exit code of a guest that was ended that way: killed.
const ESCAPED_EXIT_CODE: i32 = 128 + 9;
const PIECE_BYTES: usize = 4 << 10;

/// Hint printed before a shell on a terminal.
pub const ESCAPE_HELP: &str = "exit or Ctrl-D leaves it; Ctrl-] three times ends it at once";

/// Returns whether a shell would have a terminal.
pub fn on_terminal() -> bool {
    isatty(io::stdin())
}

/// Runs the command of `run`, a shell, in a guest that is ready, on our standard streams. Returns
/// its exit code, or `None` after a timeout.
pub fn run_shell(vm: &mut Vm, run: &GuestRun) -> Result<Option<i32>> {
    let raw = on_terminal().then(RawTerminal::begin).transpose()?;
    let input = match raw {
        Some(_) => Input::Terminal(terminal_size()?),
        None => Input::Stream,
    };
    let deadline = run::deadline(run);
    run::send(vm, run, input, deadline)?;
    let wire = GuestConnection::new(&vm.port)?;
    wire.watch_signals()?;
    wire.forward_input(raw.is_some());
    let mut sinks = Sinks { stdout: &mut io::stdout(), stderr: &mut io::stderr() };
    let followed = run::forward_output(vm, deadline, &mut sinks);
    match wire.exit_code.get() {
        Some(code) => Ok(Some(*code)),
        None => followed,
    }
}

fn terminal_size() -> Result<TerminalSize> {
    let size = tcgetwinsize(io::stdin()).context("cannot ask for the size of the terminal")?;
    Ok(TerminalSize { rows: size.ws_row, columns: size.ws_col })
}

/// A terminal in raw mode, until this is dropped.
struct RawTerminal(Termios);

impl RawTerminal {
    fn begin() -> Result<Self> {
        let before = tcgetattr(io::stdin()).context("cannot ask for the terminal's modes")?;
        let mut raw = before.clone();
        raw.make_raw();
        set(&raw).context("cannot set the terminal's modes")?;
        Ok(Self(before))
    }
}

impl Drop for RawTerminal {
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
struct GuestConnection {
    port: Arc<Mutex<UnixStream>>,
    /// The exit code of a guest that was cut off from here.
    exit_code: Arc<OnceLock<i32>>,
}

impl GuestConnection {
    fn new(port: &UnixStream) -> Result<Self> {
        let port = port.try_clone().context("cannot share the port to the guest")?;
        Ok(Self { port: Arc::new(Mutex::new(port)), exit_code: Arc::default() })
    }

    fn send(&self, frame: &Frame) -> io::Result<()> {
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        frame.write_to(&mut *port)
    }

    /// Cuts the guest off: the reader of its output sees the end.
    fn disconnect(&self, code: i32) {
        let _ = self.exit_code.set(code);
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
                match (signal, terminal_size()) {
                    (SIGWINCH, Ok(size)) => drop(wire.send(&Frame::Resize(size))),
                    (SIGWINCH, Err(_)) => {}
                    _ => wire.disconnect(128 + signal),
                }
            }
        });
        Ok(())
    }

    fn forward_input(&self, terminal: bool) {
        let wire = self.clone();
        thread::spawn(move || {
            let mut keys = EscapeSequence::default();
            let left =
                wire.pass_on(&mut io::stdin().lock(), |typed| terminal && keys.is_complete(typed));
            if left.is_ok_and(|left| left) {
                wire.disconnect(ESCAPED_EXIT_CODE);
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
struct EscapeSequence(usize);

impl EscapeSequence {
    /// Returns whether the sequence is complete somewhere in the typed keys.
    fn is_complete(&mut self, typed: &[u8]) -> bool {
        typed.iter().any(|key| {
            self.0 = if *key == ESCAPE_KEY { self.0 + 1 } else { 0 };
            self.0 == ESCAPE_KEY_REPEATS
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_end_it_however_they_arrive() {
        let ends = |pieces: &[&[u8]]| {
            let mut keys = EscapeSequence::default();
            pieces.iter().any(|typed| keys.is_complete(typed))
        };
        assert!(ends(&[b"ls\r\x1d\x1d\x1d"]));
        assert!(ends(&[b"\x1d", b"\x1d", b"\x1d"]));
        assert!(!ends(&[b"\x1d\x1d", b"x", b"\x1d"]));
    }
}
