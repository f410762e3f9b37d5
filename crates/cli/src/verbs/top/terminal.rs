//! The terminal: its modes while the screen is shown, and as they were afterwards, however this
//! program ends.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use anyhow::{Context as _, Result, bail};
use ratatui_core::layout::Rect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::stop_signals::do_before_end;

/// The other screen, without a cursor; lines are not continued in the next row.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
/// The reverse, in the reverse order; colours off.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The modes before, while they are changed. Whoever ends the program puts them back: the screen, a
/// signal, a panic.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Some thread panicked, and the screen was left.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// The screen is shown until this is dropped.
pub struct TerminalGuard;

impl TerminalGuard {
    /// Shows the screen.
    ///
    /// # Errors
    /// If there is no terminal.
    pub fn enter() -> Result<Self> {
        let modes = tcgetattr(io::stdin()).context("cannot read the modes of the terminal")?;
        let mut raw = modes.clone();
        raw.make_raw();
        restore_on_panic();
        do_before_end(restore);
        *before() = Some(modes);
        let guard = Self;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)
            .context("cannot change the modes of the terminal")?;
        let mut out = io::stdout().lock();
        out.write_all(ENTER).and_then(|()| out.flush()).context("cannot write to the terminal")?;
        Ok(guard)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore();
    }
}

/// Checks that there is a terminal.
///
/// # Errors
/// If there is none that can show a screen.
pub fn check() -> Result<()> {
    let instead = "give --batch to print text (nodeward top --batch --iterations 1)";
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        bail!("standard input and output must be a terminal for a screen; {instead}");
    }
    let kind = std::env::var_os("TERM").unwrap_or_default();
    if kind.is_empty() || kind == "dumb" {
        bail!("the terminal (TERM) cannot show a screen; {instead}");
    }
    Ok(())
}

/// Returns the size of the terminal; nothing if it has none.
pub fn area() -> Rect {
    let size = tcgetwinsize(io::stdout()).ok();
    size.map_or_else(Rect::default, |size| Rect::new(0, 0, size.ws_col, size.ws_row))
}

/// Returns whether the screen was left because of a panic.
pub fn has_panicked() -> bool {
    HAS_PANICKED.load(Ordering::Relaxed)
}

/// Puts the terminal back as it was, once. Does not wait for a terminal that takes no output.
pub fn restore() {
    let Some(modes) = before().take() else { return };
    // There is nothing else to do about a terminal that is gone.
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    if is_writable() {
        // Not by its lock: another thread may wait in it for the terminal.
        let _ = rustix::io::write(io::stdout().as_fd(), LEAVE);
    }
}

fn is_writable() -> bool {
    let out = io::stdout();
    let mut fds = [PollFd::new(&out, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().contains(PollFlags::OUT)
}

fn before() -> MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the message of a panic be read.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            HAS_PANICKED.store(true, Ordering::Relaxed);
            restore();
            tell(panicked);
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::OwnedFd;
    use std::process::Command;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::LocalModes;

    use super::*;

    /// Set for the process that panics.
    const PART: &str = "NODEWARD_TEST_PART";
    const PANICS: &str = "verbs::top::terminal::tests::panics";

    /// A part of the test below.
    #[test]
    fn panics() {
        if std::env::var_os(PART).is_some() {
            let _guard = TerminalGuard::enter().unwrap();
            panic!("on purpose");
        }
    }

    /// Goal: after a panic the terminal is as before, and its message is behind the screen, where
    /// it can be read.
    #[test]
    fn a_panic_restores_the_terminal() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(path).unwrap();
        let end = || OwnedFd::from(theirs.try_clone().unwrap());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", PANICS, "--nocapture"]).env(PART, "1");
        command.stdin(end()).stdout(end()).stderr(end());
        let mut child = command.spawn().unwrap();
        drop(command);
        let modes = theirs.try_clone().unwrap();
        drop(theirs);
        let reader = std::thread::spawn(move || {
            let (mut from, mut written, mut piece) = (File::from(ours), Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = from.read(&mut piece) {
                written.extend_from_slice(&piece[..count]);
            }
            String::from_utf8(written).unwrap()
        });
        assert!(!child.wait().unwrap().success());
        let modes_after = tcgetattr(&modes).unwrap().local_modes;
        assert!(modes_after.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG));
        drop(modes);
        let written = reader.join().unwrap();
        let left = written.find("\x1b[?1049l").expect("the screen is left");
        let told = written.find("on purpose").expect("the message is told");
        assert!(left < told, "{written:?}");
    }
}
