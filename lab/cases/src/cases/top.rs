//! Moves that are ordered on the screen of `nodeward top`.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::load::LoadProcess;
use crate::nodeward::nodeward;

pub const CASES: [(&str, CaseFn); 1] = [("top_moves_and_undoes", moves_and_undoes)];

/// Longer than anything takes; only a failure waits for it.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Until a key has an answer, or is pressed again.
const ANSWER: Duration = Duration::from_secs(5);
/// 64 MiB in pages of 4 KiB.
const PAGES: u64 = 16_384;

/// `nodeward top` on a terminal, and what it has written since the last key.
struct TopScreen {
    child: Child,
    ours: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl TopScreen {
    fn start(words: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).expect("ours");
        unlockpt(&ours).expect("unlocked");
        let path = ptsname(&ours, Vec::new()).expect("named").into_string().expect("a text");
        let theirs = File::options().read(true).write(true).open(path).expect("its other end");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).expect("sized");
        let end = || OwnedFd::from(theirs.try_clone().expect("another handle"));
        let mut command = Command::new("nodeward");
        command.arg("top").args(words).env("TERM", "xterm");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn();
        let (ours, written) = (File::from(ours), Arc::<Mutex<Vec<u8>>>::default());
        let (mut from, kept) = (ours.try_clone().expect("another handle"), Arc::clone(&written));
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                kept.lock().expect("unpoisoned").extend_from_slice(&piece[..count]);
            }
        });
        Self { child: child.expect("nodeward starts"), ours, written }
    }

    fn keys(&mut self, keys: &str) {
        self.written.lock().expect("unpoisoned").clear();
        self.ours.write_all(keys.as_bytes()).expect("a terminal");
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("unpoisoned")).into_owned()
    }

    /// Waits for a text, for some time; returns whether it came.
    fn shows_within(&self, text: &str, time: Duration) -> bool {
        let began = Instant::now();
        while !self.text().contains(text) {
            if began.elapsed() > time {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        true
    }

    fn shows(&self, text: &str) {
        assert!(self.shows_within(text, TIMEOUT), "no '{text}' in {:?}", self.text());
    }
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until(what: &str, screen: &TopScreen, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TIMEOUT, "{what}: {:?}", screen.text());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Goal: what is ordered, planned and said yes to on the screen moves, 64 MiB from node 0 to node
/// 1; taking it back brings all of it to node 0, and the ledger has both, each as a command that
/// says what it did.
fn moves_and_undoes() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 64MiB --threads 0");
    let on = |node: u32| load.memory_by_node().get(&node).copied().unwrap_or(0);
    assert_eq!(on(0), PAGES);
    let pid = load.pid().to_string();
    let mut screen = TopScreen::start(&["--sort", "pid", "--filter", &pid]);
    screen.shows(&pid);
    // Only what differs is drawn, so words may be cut, unless all is drawn anew (Ctrl-L).
    screen.keys("m\x0c");
    screen.shows("FROM");
    screen.keys(&"\x7f".repeat(20));
    screen.keys("0 1\r");
    screen.shows(&format!("of process {pid} (nodeward-load)?"));
    assert_eq!(on(0), PAGES, "a plan moves nothing");
    screen.keys("y");
    wait_until("all is on node 1", &screen, || on(1) == PAGES);
    // The move has moved everything, and may still be looking at it.
    let began = Instant::now();
    loop {
        screen.keys("u");
        if screen.shows_within(&format!("of process {pid} (nodeward-load)?"), ANSWER) {
            break;
        }
        assert!(began.elapsed() < TIMEOUT, "no plan in {:?}", screen.text());
    }
    screen.keys("y");
    wait_until("all is on node 0 again", &screen, || on(0) == PAGES);
    let list = || nodeward("ledger").stdout;
    wait_until("both have ended", &screen, || !list().contains("running"));
    assert!(list().contains(&format!("nodeward move {pid} 0 1")), "{}", list());
    assert!(list().contains("nodeward undo "), "{}", list());
    screen.keys("q");
    wait_until("it ends", &screen, || {
        !std::path::Path::new(&format!("/proc/{}/exe", screen.child.id())).exists()
    });
    load.end();
    Ok(())
}
