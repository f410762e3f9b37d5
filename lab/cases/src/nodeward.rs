//! `nodeward` as a child process, with its output.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

use nodeward_model::{Account, SkipReason};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::load::LoadProcess;
use crate::numa_maps::PagesByNode;

/// The report of a move, as `--json` prints it.
#[derive(Clone, Debug, Deserialize)]
pub struct MoveJson {
    pub processes: Vec<ProcessJson>,
    pub account: Account,
    pub interrupted: bool,
    pub deadline_over: bool,
    pub error: Option<String>,
}

/// The part of a report about one process.
#[derive(Clone, Debug, Deserialize)]
pub struct ProcessJson {
    pub account: Account,
    pub before_pages: PagesByNode,
    pub after_pages: Option<PagesByNode>,
    pub life: String,
}

impl ProcessJson {
    /// Returns the pages by node that the last look found.
    pub fn after(&self) -> &PagesByNode {
        self.after_pages.as_ref().expect("a move that nobody stopped is verified")
    }
}

/// The report of a move of files, as `--json` prints it.
#[derive(Clone, Debug, Deserialize)]
pub struct FilesReport {
    pub looked: FilesScan,
    pub account: Account,
    pub before_pages: PagesByNode,
    pub after_pages: Option<PagesByNode>,
    pub interrupted: bool,
}

/// The part of a report about the files themselves.
#[derive(Clone, Debug, Deserialize)]
pub struct FilesScan {
    pub files: u64,
    pub files_cached: u64,
    pub cached_bytes: u64,
    pub others: u64,
    pub problems: u64,
    pub first_problems: Vec<ScanProblem>,
}

/// A file that was left out.
#[derive(Clone, Debug, Deserialize)]
pub struct ScanProblem {
    pub path: String,
    pub trouble: String,
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Self {
            code: output.status.code().expect("nodeward is not ended by a signal"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Parses its standard output.
    pub fn json<T: for<'de> Deserialize<'de>>(&self) -> T {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Parses its output, after a check of its exit code.
    pub fn json_after_exit<T: for<'de> Deserialize<'de>>(&self, code: i32) -> T {
        assert_eq!(self.code, code, "{self:?}");
        self.json()
    }

    /// Returns the report of a move that ended with this code.
    pub fn report_after_exit(&self, code: i32) -> MoveJson {
        self.json_after_exit(code)
    }

    /// Checks that it was refused with this code and one line that has these words in it.
    pub fn assert_refused(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "one clear line: {self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "'{word}' is missing: {self:?}");
        }
    }
}

/// Runs nodeward with these words to its end.
pub fn nodeward(words: &str) -> CommandOutput {
    run_command(&mut command(words))
}

/// As [`nodeward()`], for another user.
pub fn nodeward_as(user: u32, words: &str) -> CommandOutput {
    run_command(command(words).uid(user).gid(user))
}

/// Moves the memory of a load.
pub fn move_load(load: &LoadProcess, words: &str) -> CommandOutput {
    nodeward(&format!("move --json --quiet {} {words}", load.pid()))
}

/// As [`move_load`], for another user.
pub fn move_load_as(user: u32, load: &LoadProcess, words: &str) -> CommandOutput {
    nodeward_as(user, &format!("move --json --quiet {} {words}", load.pid()))
}

/// A move in progress.
#[derive(Debug)]
pub struct RunningMove(Child);

impl RunningMove {
    /// Starts moving the memory of a load.
    pub fn start(load: &LoadProcess, words: &str) -> Self {
        Self::begin(&format!("{} {words}", load.pid()))
    }

    /// Starts moving the memory that these words name.
    pub fn begin(words: &str) -> Self {
        Self::of_verb(&format!("move --json --quiet {words}"))
    }

    /// Starts any verb.
    pub fn of_verb(words: &str) -> Self {
        let mut command = command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("nodeward starts"))
    }

    /// Returns whether it takes Ctrl-C and SIGTERM, bits 1 and 14 of the signals that it catches.
    pub fn takes_signals(&self) -> bool {
        let caught = self.status_mask("SigCgt:");
        caught >> 1 & 1 == 1 && caught >> 14 & 1 == 1
    }

    /// Returns its effective capabilities, a bit for each.
    pub fn capabilities(&self) -> u64 {
        self.status_mask("CapEff:")
    }

    fn status_mask(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix(field));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("our child can be signalled");
    }

    /// Kills it, so that it cannot react.
    pub fn kill(mut self) {
        self.0.kill().expect("our child can be killed");
        self.0.wait().expect("our child can be waited for");
    }

    /// Waits for its end.
    pub fn finish(self) -> CommandOutput {
        CommandOutput::of(self.0.wait_with_output().expect("nodeward can be waited for"))
    }
}

/// Returns the reasons and counts that a case expects.
pub fn skip_counts<const N: usize>(expected: [(SkipReason, u64); N]) -> BTreeMap<SkipReason, u64> {
    expected.into()
}

/// Runs a command to its end.
pub fn run_command(command: &mut Command) -> CommandOutput {
    CommandOutput::of(command.output().expect("the program starts"))
}

fn command(words: &str) -> Command {
    let mut command = Command::new("nodeward");
    command.args(words.split_whitespace()).stdin(Stdio::null());
    command
}
