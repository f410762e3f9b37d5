//! What `nodeward top` costs beside many processes that sleep, and how soon it answers a key. It
//! runs on a terminal of this program, as whole.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::args::{TopFigure, TopOptions};
use crate::cpu_share::cpu_share;
use crate::numbers::{all_rounded, median, ms, rounded};
use crate::snapshot_cost::CrowdProcess;

const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
/// The first refreshes sample all that is on the screen.
const WARM_UP: Duration = Duration::from_secs(3);
/// Longer than any answer takes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Keys that go round the looks, each with what only the next look shows: its heads are drawn over
/// blanks and other letters, so all of their letters are written.
const ROUND: [(&str, &str); 3] = [("?", "KEYS"), ("g", "GROUP"), ("g", "NAME")];
/// The time between two keys: not a divisor of a refresh, so that some keys meet one.
const PAUSE: Duration = Duration::from_millis(37);

/// Measures one figure.
pub fn measure(options: &TopOptions) -> Result<Value> {
    let crowd = CrowdProcess::sleeping(options.beside.processes)?;
    let mut top = ShownTop::start(options)?;
    top.wait_for("NAME")?;
    thread::sleep(WARM_UP);
    let measured = match options.figure {
        TopFigure::Cpu => cpu_share(top.child.id(), Duration::from_nanos(options.beside.time))?,
        TopFigure::Key => keys(&mut top, options.keys)?,
    };
    drop((top, crowd));
    Ok(measured)
}

/// The time from a key to the picture that answers it.
fn keys(top: &mut ShownTop, rounds: u32) -> Result<Value> {
    let mut times = Vec::new();
    for (key, shows) in (0..rounds).flat_map(|_| ROUND) {
        thread::sleep(PAUSE);
        top.drain();
        let pressed = Instant::now();
        top.ours.write_all(key.as_bytes())?;
        top.wait_for(shows)?;
        times.push(pressed.elapsed());
    }
    let mut times_ms = ms(&times);
    times_ms.sort_by(f64::total_cmp);
    let at = times_ms.len() * 99 / 100;
    let p99 = times_ms.get(at).or(times_ms.last()).copied().context("no key was pressed")?;
    let slowest: Vec<f64> = times_ms.iter().rev().take(5).copied().collect();
    Ok(json!({
        "measured": rounded(p99),
        "unit": "ms",
        "median_ms": rounded(median(&times_ms)),
        "slowest_ms": all_rounded(&slowest),
        "keys": times_ms.len(),
    }))
}

/// A running `nodeward top`, and what it writes.
struct ShownTop {
    child: Child,
    ours: File,
    written: Receiver<Vec<u8>>,
    /// What was written and not waited for.
    rest: Vec<u8>,
}

impl ShownTop {
    fn start(options: &TopOptions) -> Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let path = ptsname(&ours, Vec::new())?.into_string()?;
        let theirs = OwnedFd::from(File::options().read(true).write(true).open(path)?);
        tcsetwinsize(&ours, SIZE)?;
        let mut command = Command::new(&options.beside.program);
        command.args(["top", "--interval", "1s"]).env("TERM", "xterm");
        command.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs);
        let child = command.spawn().context("cannot start nodeward top")?;
        let ours = File::from(ours);
        let written = written(ours.try_clone()?);
        Ok(Self { child, ours, written, rest: Vec::new() })
    }

    fn drain(&mut self) {
        self.rest.clear();
        while self.written.try_recv().is_ok() {}
    }

    /// Waits until it has written a text.
    fn wait_for(&mut self, text: &str) -> Result<()> {
        let found = |rest: &[u8]| rest.windows(text.len()).any(|part| part == text.as_bytes());
        while !found(&self.rest) {
            match self.written.recv_timeout(TIMEOUT) {
                Ok(bytes) => self.rest.extend_from_slice(&bytes),
                Err(_) => {
                    bail!("no '{text}' in: {}", String::from_utf8_lossy(&self.rest).escape_debug())
                }
            }
        }
        Ok(())
    }
}

impl Drop for ShownTop {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing left to do.
        let _ = self.ours.write_all(b"q");
        let _ = self.child.wait();
    }
}

/// Reads what is written, on a thread that ends with the terminal.
fn written(mut from: File) -> Receiver<Vec<u8>> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut piece = [0; 8192];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            if tell.send(piece[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    told
}
