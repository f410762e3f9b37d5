//! A shell in a guest: on a terminal, where keys become signals and sizes change, and without a
//! terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nodeward_lab::{GuestKernel, open_for_test};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// Longer than anything takes; only a failure waits for it.
const TIMEOUT: Duration = Duration::from_secs(120);
const INTERRUPT: &str = "\x03";
const ESCAPE: &str = "\x1d\x1d\x1d";

/// `nodeward-lab shell` on a terminal of this test.
struct Terminal {
    ours: File,
    theirs: File,
    child: Child,
    shown: Arc<Mutex<String>>,
    /// Length of the output that was already expected.
    read: usize,
}

impl Terminal {
    /// Waits for the first prompt. `None` where the lab cannot run.
    fn open(rows: u16, columns: u16) -> Option<Self> {
        open_for_test(&GuestKernel::V6_12)?;
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(path).unwrap();
        let ours = File::from(ours);
        resize(&ours, rows, columns);
        let child = Command::new("setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_nodeward-lab"), "shell"])
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs.try_clone().unwrap())
            .spawn()
            .unwrap();
        let shown = keep(ours.try_clone().unwrap());
        let mut terminal = Self { ours, theirs, child, shown, read: 0 };
        terminal.expect("/root # ");
        Some(terminal)
    }

    fn type_in(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// Returns whether a text was shown after the last expected one.
    fn found(&mut self, text: &str) -> bool {
        let shown = self.shown();
        let found = shown[self.read..].find(text);
        self.read += found.map_or(0, |at| at + text.len());
        found.is_some()
    }

    fn expect(&mut self, text: &str) {
        let start = Instant::now();
        while !self.found(text) {
            assert!(start.elapsed() < TIMEOUT, "no {text:?} in:\n{}", self.shown());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end. Returns the exit code.
    fn end(&mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < TIMEOUT, "it does not end:\n{}", self.shown());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns whether the terminal's modes are as before: lines, echo and signals.
    fn is_restored(&self) -> bool {
        let modes = tcgetattr(&self.theirs).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads what is shown; ends with the test.
fn keep(mut from: File) -> Arc<Mutex<String>> {
    let shown = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&shown);
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count) = from.read(&mut piece) {
            kept.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    });
    shown
}

fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

/// Goal: commands run; Ctrl-C ends the program that runs there and not the shell; the shell knows
/// the window size and its changes; its exit code is returned, and the terminal is restored.
/// (Quotes keep the typed text from looking like its output.)
#[test]
fn a_shell_on_a_terminal() {
    let Some(mut terminal) = Terminal::open(33, 99) else { return };
    assert!(terminal.shown().contains("Ctrl-] three times"), "how to leave:\n{}", terminal.shown());
    assert!(!terminal.is_restored(), "keys are not passed on");
    terminal.type_in("stty size\r");
    terminal.expect("33 99");

    terminal.type_in("sh -c 'echo star\"\"ted; exec sleep 86400'\r");
    terminal.expect("started");
    terminal.type_in(INTERRUPT);
    terminal.expect("/root # ");
    terminal.type_in("echo co\"\"de $?\r");
    terminal.expect("code 130"); // 128 + SIGINT

    resize(&terminal.ours, 44, 111);
    terminal.type_in("until stty size | grep '^44 [1]11'; do sleep 0.1; done\r");
    terminal.expect("44 111");

    terminal.type_in("exit 7\r");
    assert_eq!(terminal.end(), Some(7));
    assert!(terminal.is_restored());
}

/// Goal: a guest that accepts no keys can be left.
#[test]
fn three_keys_end_a_guest_that_does_nothing_else() {
    let Some(mut terminal) = Terminal::open(24, 80) else { return };
    terminal.type_in("trap '' INT; echo star\"\"ted; sleep 86400\r");
    terminal.expect("started");
    terminal.type_in(ESCAPE);
    assert_eq!(terminal.end(), Some(137)); // 128 + SIGKILL
    assert!(terminal.is_restored());
}

/// Goal: on a termination signal, the terminal is restored.
#[test]
fn a_signal_ends_it_in_order() {
    let Some(mut terminal) = Terminal::open(24, 80) else { return };
    let pid = Pid::from_raw(terminal.child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(terminal.end(), Some(143)); // 128 + SIGTERM
    assert!(terminal.is_restored());
}

fn piped(script: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nodeward-lab"))
        .arg("shell")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, script) = (child.stdin.take().unwrap(), script.to_owned());
    let (done, written) = mpsc::channel();
    thread::spawn(move || done.send(stdin.write_all(script.as_bytes()).is_ok()));
    let output = child.wait_with_output().unwrap();
    assert!(written.recv().unwrap(), "not all was read");
    output
}

/// Goal: without a terminal the lines come from standard input, even many of them; streams stay
/// apart, and the end of the input ends the shell.
#[test]
fn without_a_terminal_lines_come_from_standard_input() {
    if open_for_test(&GuestKernel::V6_12).is_none() {
        return;
    }
    let lines: String = (0..20_000).map(|line| format!(": {line}\n")).collect();
    let output = piped(&format!("{lines}tty\necho end >&2\n(exit 5)\n"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "not a tty\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "end\n");
    assert_eq!(output.status.code(), Some(5));
}
