//! The console of a machine that ended too early: what of it tells why.
//!
//! One crash is the emulator's. A kernel changes its own code while other CPUs run it: it puts a
//! breakpoint (int3) over an instruction, and all CPUs have passed it before the new instruction is
//! there. QEMU's CPUs can still execute the breakpoint later, when the kernel has none there any
//! more, and then it panics. QEMU 7.2 does so within a minute if a guest switches
//! `kernel.sched_schedstats` on and off without pause.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use anyhow::Result;

/// Lines that are shown of a console.
const LINES: usize = 12;
/// Lines that are shown of a crash: its reason, the first call trace, and the registers.
const CRASH_LINES: usize = 60;
/// Machines in a row in which the emulator may crash.
const MACHINES_MAX: usize = 3;
/// How a kernel begins to tell that it crashes.
const CRASH_STARTS: [&str; 7] = [
    "BUG:",
    "Oops",
    "int3:",
    "divide error",
    "general protection",
    "invalid opcode",
    "stack segment",
];
const PANIC: &str = "Kernel panic";
const BREAKPOINT: &str = "int3:";

/// How a machine ended that should not have.
#[derive(Debug)]
pub struct GuestEnd {
    what: &'static str,
    console: String,
    /// Whether its kernel met a breakpoint of its own that it had taken away.
    pub is_emulators_fault: bool,
}

impl GuestEnd {
    /// Reads it from a console: its last lines, or those of the crash of its kernel.
    pub fn read(what: &'static str, log: &mut File) -> Self {
        let mut bytes = Vec::new();
        match log.seek(SeekFrom::Start(0)).and_then(|_| log.read_to_end(&mut bytes)) {
            Err(why) => Self {
                what,
                console: format!("its console cannot be read: {why}"),
                is_emulators_fault: false,
            },
            Ok(_) => Self::of_text(what, &String::from_utf8_lossy(&bytes)),
        }
    }

    fn of_text(what: &'static str, text: &str) -> Self {
        let lines: Vec<&str> =
            text.lines().map(str::trim_end).filter(|it| !it.is_empty()).collect();
        let crash = crash_of(&lines);
        let is_emulators_fault = crash.is_some_and(|crash| crash[0].contains(BREAKPOINT));
        let last = &lines[lines.len().saturating_sub(LINES)..];
        let (how, shown) = match crash {
            _ if lines.is_empty() => ("its console is empty", last),
            Some(crash) if is_emulators_fault => (
                "QEMU made its kernel crash, by a breakpoint that was not there any more; run it \
                 again:",
                crash,
            ),
            Some(crash) => ("its kernel crashed:", crash),
            None => ("its console ends with:", last),
        };
        let console = [&[how], shown].concat().join("\n    ");
        Self { what, console, is_emulators_fault }
    }
}

impl fmt::Display for GuestEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}; {}", self.what, self.console)
    }
}

/// Runs in new machines until one ends without such a crash of the emulator's, and tells of each.
/// What a guest did is lost with it, so another one begins from nothing.
///
/// # Errors
/// All others, and that crash in the last of the machines.
pub fn unless_emulator_crashes<T>(mut run: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..MACHINES_MAX {
        let ended = run();
        let crash = ended.as_ref().err().and_then(|why| why.downcast_ref::<GuestEnd>());
        match crash.filter(|end| end.is_emulators_fault) {
            Some(end) => eprintln!("nodeward-lab: {end}nodeward-lab: it runs again"),
            None => return ended,
        }
    }
    run()
}

/// Returns the lines of the crash by which a kernel ended, from its reason on, or else from some
/// lines before its panic on.
fn crash_of<'a>(lines: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let panic = lines.iter().rposition(|line| line.contains(PANIC))?;
    let is_start = |line: &&str| CRASH_STARTS.iter().any(|start| line.contains(start));
    let start = lines[..panic].iter().position(is_start);
    let start = start.unwrap_or(panic.saturating_sub(LINES));
    let crash = &lines[start..];
    Some(&crash[..crash.len().min(CRASH_LINES)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        GuestEnd::of_text("it ended", text).to_string()
    }

    /// Goal: a crash is shown from its reason on; a console without one by its last lines.
    #[test]
    fn a_crash_tells_its_reason() {
        let boot: String = (0..30).map(|line| format!("[ 0.{line}] boot {line}\n")).collect();
        assert_eq!(told("\n  \n"), "it ended; its console is empty\n");
        let calm = told(&boot);
        assert!(calm.starts_with("it ended; its console ends with:\n    [ 0.18] b"), "{calm}");
        let crash = "[ 9.1] BUG: unable to handle page fault\n[ 9.1] RIP: 0010:f+0x1/0x2\n\n";
        let panic = "[ 9.2] Kernel panic - not syncing: Fatal exception\n";
        assert_eq!(
            told(&format!("{boot}{crash}{panic}")),
            "it ended; its kernel crashed:\n    [ 9.1] BUG: unable to handle page fault\n    \
             [ 9.1] RIP: 0010:f+0x1/0x2\n    [ 9.2] Kernel panic - not syncing: Fatal exception\n"
        );
        // A panic without a reason before it; and a reason that the kernel survived.
        let panicked = told(&format!("{boot}{panic}"));
        assert!(panicked.contains("its kernel crashed:\n    [ 0.18] boot 18"), "{panicked}");
        assert!(told(&format!("{crash}{boot}")).contains("its console ends with"));
    }

    /// Goal: a kernel that dies of a breakpoint in its own code is told from one that dies of
    /// anything else, a breakpoint in a later crash included.
    #[test]
    fn breakpoints_are_the_emulators() {
        let ended = |reason: &str| {
            let text = format!("boot\n[ 9.1] {reason}\n[ 9.2] Kernel panic - not syncing\n");
            let end = GuestEnd::of_text("it ended", &text);
            (end.is_emulators_fault, end.to_string().contains("run it again"))
        };
        assert_eq!(ended("Oops: int3: 0000 [#1] PREEMPT SMP"), (true, true));
        assert_eq!(ended("Oops: 0002 [#1] PREEMPT SMP"), (false, false));
        assert_eq!(ended("BUG: x\n[ 9.1] Oops: int3: 0000 [#1]"), (false, false));
    }

    /// Goal: after a crash of the emulator's another machine runs, three at most; any other error
    /// is told at once.
    #[test]
    fn only_the_emulators_crashes_are_forgiven() {
        let runs = |reasons: &[&str]| {
            let mut left = reasons.iter();
            let mut count = 0;
            let ended = unless_emulator_crashes(|| {
                count += 1;
                let Some(reason) = left.next() else { return Ok(()) };
                let text = format!("[ 9.1] {reason}\n[ 9.2] Kernel panic\n");
                let end = GuestEnd::of_text("it ended", &text);
                Err(anyhow::anyhow!("no more frames").context(end).context("the lab runs"))
            });
            (count, ended.is_ok())
        };
        let breakpoint = "Oops: int3: 0000 [#1]";
        assert_eq!(runs(&[]), (1, true));
        assert_eq!(runs(&[breakpoint, breakpoint]), (3, true));
        assert_eq!(runs(&[breakpoint, breakpoint, breakpoint]), (3, false));
        assert_eq!(runs(&["BUG: x"]), (1, false));
        assert_eq!(runs(&[breakpoint, "BUG: x"]), (2, false));
    }
}
