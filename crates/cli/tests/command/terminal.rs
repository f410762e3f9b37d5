//! The command on a terminal of a test: keys are typed, and the screen is what a terminal would
//! show.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::outcome::NODEWARD;

/// Longer than anything takes; only a failure waits for it.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The command with its terminal.
pub struct TestTerminal {
    ours: Option<File>,
    theirs: Option<File>,
    child: Child,
    screen: Arc<Mutex<vt100::Parser>>,
    /// The thread that shows what is written, and whether it is to end.
    reader: Option<JoinHandle<()>>,
    is_closing: Arc<AtomicBool>,
}

impl TestTerminal {
    /// Starts the command with these words.
    pub fn start(words: &[&str], columns: u16, rows: u16) -> Self {
        let mut command = Command::new(NODEWARD);
        command.args(words).env("NODEWARD_STATE_DIR", "/nonexistent").env("LC_ALL", "C");
        Self::run(&command, columns, rows)
    }

    /// Starts a command as the leader of a session on the terminal.
    pub fn run(wanted: &Command, columns: u16, rows: u16) -> Self {
        let (ours, theirs) = open();
        resize(&ours, columns, rows);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(wanted.get_program()).args(wanted.get_args());
        command.env("TERM", "xterm");
        for (name, value) in wanted.get_envs() {
            value.map(|value| command.env(name, value));
        }
        let end = || OwnedFd::from(theirs.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let parser = vt100::Parser::new(at_least_one(rows), at_least_one(columns), 0);
        let screen = Arc::new(Mutex::new(parser));
        let is_closing = Arc::<AtomicBool>::default();
        let (from, told) = (ours.try_clone().unwrap(), Arc::clone(&is_closing));
        let shown = Arc::clone(&screen);
        let reader = Some(thread::spawn(move || keep(from, &shown, &told)));
        Self { ours: Some(ours), theirs: Some(theirs), child, screen, reader, is_closing }
    }

    /// Returns its pid.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Types.
    pub fn keys(&mut self, keys: &str) {
        self.ours.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Returns what the screen shows.
    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen is so.
    pub fn wait(&mut self, what: &str, is_so: impl Fn(&vt100::Screen) -> bool) {
        let start = Instant::now();
        while !is_so(self.screen.lock().unwrap().screen()) {
            assert_eq!(self.child.try_wait().unwrap(), None, "{what}: ended:\n{}", self.text());
            assert!(start.elapsed() < TIMEOUT, "{what}: not in:\n{}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the screen shows a text.
    pub fn shows(&mut self, text: &str) {
        self.wait(text, |screen| screen.contents().contains(text));
    }

    /// Waits until the screen no longer shows a text.
    pub fn hides(&mut self, text: &str) {
        self.wait(&format!("without {text}"), |screen| !screen.contents().contains(text));
    }

    /// Changes the size of the terminal.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        let mut screen = self.screen.lock().unwrap();
        screen.set_size(at_least_one(rows), at_least_one(columns));
        resize(self.ours.as_ref().unwrap(), columns, rows);
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Closes the terminal.
    pub fn close(&mut self) {
        self.is_closing.store(true, Ordering::Relaxed);
        self.reader.take().unwrap().join().unwrap();
        (self.ours, self.theirs) = (None, None);
    }

    /// Waits for the end.
    pub fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < TIMEOUT, "it does not end:\n{}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Checks that the terminal is as before: lines, echo and signals; the first screen, with a
    /// cursor. What was written before the end comes a little later.
    pub fn is_restored(&self) {
        let modes = tcgetattr(self.theirs.as_ref().unwrap()).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG));
        let start = Instant::now();
        loop {
            let screen = self.screen.lock().unwrap();
            if !screen.screen().alternate_screen() && !screen.screen().hide_cursor() {
                return;
            }
            drop(screen);
            assert!(start.elapsed() < TIMEOUT, "the screen is left:\n{}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for TestTerminal {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens a terminal, and returns its two ends.
fn open() -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    (File::from(ours), File::options().read(true).write(true).open(path).unwrap())
}

fn at_least_one(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN)
}

fn resize(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

/// Shows what is written, until nobody writes any more or the terminal is closed.
fn keep(mut from: File, screen: &Mutex<vt100::Parser>, is_closing: &AtomicBool) {
    let mut piece = [0; 4096];
    let tick = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while !is_closing.load(Ordering::Relaxed) {
        if poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&tick)) == Ok(0) {
            continue;
        }
        let Ok(count @ 1..) = from.read(&mut piece) else { return };
        screen.lock().unwrap().process(&piece[..count]);
    }
}
