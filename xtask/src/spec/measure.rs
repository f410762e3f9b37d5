//! Runs the command of a promise and reads its number.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, Result};
use serde_json::{Map, Number, Value};

use super::table::Promise;

/// Exit code of a command that cannot run on this machine.
const EXIT_SKIPPED: i32 = 77;
/// Exit code of `timeout` when it had to stop the command.
const EXIT_STOPPED: i32 = 124;
/// Maximum time of a command: to make a release twice takes 45 minutes beside other work.
const SECONDS_MAX: u32 = 7_200;

/// The effort of a command. `Smoke` sets `NODEWARD_SPEC_SMOKE=1` and judges no number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effort {
    Full,
    Smoke,
}

/// The result of a promise.
#[derive(Clone, Debug, PartialEq)]
pub enum PromiseResult {
    /// The command printed a number, with further recorded values.
    Measured { verdict: PromiseVerdict, number: Number, record: Map<String, Value> },
    /// It cannot run on this machine: not shown, hence not held.
    Skipped { why: String },
    /// It ran and measured nothing.
    Failed { why: String },
}

/// The comparison of the number with its bound.
#[derive(Clone, Debug, PartialEq)]
pub enum PromiseVerdict {
    Holds,
    Broken,
    /// The promise does not apply to such a host.
    NotPromised {
        why: String,
    },
    /// A smoke run, where the bound does not count.
    NotJudged,
}

impl PromiseResult {
    /// Returns whether the result is as required.
    pub fn is_good(&self) -> bool {
        match self {
            PromiseResult::Measured { verdict, .. } => *verdict != PromiseVerdict::Broken,
            PromiseResult::Skipped { .. } | PromiseResult::Failed { .. } => false,
        }
    }

    /// Withdraws the verdict on a promise that does not apply to this host, with the reason.
    pub fn for_host(mut self, outside: Option<String>) -> PromiseResult {
        if let (PromiseResult::Measured { verdict, .. }, Some(why)) = (&mut self, outside)
            && *verdict != PromiseVerdict::NotJudged
        {
            *verdict = PromiseVerdict::NotPromised { why };
        }
        self
    }
}

/// Runs the command; `timeout` is that program, with its directory and variables set.
pub fn measure(mut timeout: Command, promise: &Promise, effort: Effort) -> Result<PromiseResult> {
    eprintln!("\n== {}\n$ {}", promise.id, promise.command);
    let limit = SECONDS_MAX.to_string();
    timeout.args(["--kill-after=10", &limit, "sh", "-c", &promise.command]);
    if effort == Effort::Smoke {
        timeout.env("NODEWARD_SPEC_SMOKE", "1");
    }
    timeout.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = timeout.spawn().context("failed to start `timeout`; install coreutils")?;
    let said = listen(child)?;
    Ok(judge(&said, promise, effort))
}

/// The output and status of a command.
struct CommandEnd {
    status: ExitStatus,
    stdout: String,
    stderr_last: String,
}

/// Collects stdout, and shows stderr at once.
fn listen(mut child: Child) -> Result<CommandEnd> {
    let talk =
        child.stderr.take().map(|stderr| thread::spawn(move || echo(BufReader::new(stderr))));
    let mut stdout = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut stdout).context("the command's stdout is not UTF-8")?;
    }
    let status = child.wait().context("waiting for the command")?;
    let stderr_last = talk.and_then(|thread| thread.join().ok()).unwrap_or_default();
    Ok(CommandEnd { status, stdout, stderr_last })
}

/// Copies lines to stderr. Returns the last one that is not blank.
fn echo(lines: impl BufRead) -> String {
    let mut last = String::new();
    for line in lines.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        // Our own stderr may be closed; the command's number still counts.
        let _ = writeln!(std::io::stderr(), "{line}");
        if !line.trim().is_empty() {
            line.trim().clone_into(&mut last);
        }
    }
    last
}

fn judge(said: &CommandEnd, promise: &Promise, effort: Effort) -> PromiseResult {
    let last = |otherwise: &str| match said.stderr_last.as_str() {
        "" => otherwise.to_owned(),
        words => words.to_owned(),
    };
    match said.status.code() {
        Some(0) => number_of(&said.stdout, promise, effort),
        Some(EXIT_SKIPPED) => PromiseResult::Skipped { why: last("the command gave no reason") },
        Some(EXIT_STOPPED) => PromiseResult::Failed { why: format!("not done in {SECONDS_MAX} s") },
        _ => {
            PromiseResult::Failed { why: format!("{}: {}", said.status, last("no word on stderr")) }
        }
    }
}

fn number_of(stdout: &str, promise: &Promise, effort: Effort) -> PromiseResult {
    let (number, record) = match read(stdout, promise.bound.unit.as_deref()) {
        Ok(read) => read,
        Err(why) => return PromiseResult::Failed { why },
    };
    let verdict = match effort {
        Effort::Smoke => PromiseVerdict::NotJudged,
        Effort::Full if promise.bound.holds(&number) => PromiseVerdict::Holds,
        Effort::Full => PromiseVerdict::Broken,
    };
    PromiseResult::Measured { verdict, number, record }
}

/// Parses the last line of stdout: an object with `measured`, in the unit of the bound.
fn read(stdout: &str, unit: Option<&str>) -> Result<(Number, Map<String, Value>), String> {
    let line = stdout.trim_end().lines().last().unwrap_or_default();
    let record: Map<String, Value> = serde_json::from_str(line)
        .map_err(|error| format!("the last line of stdout is not a JSON object: {error}"))?;
    let Some(Value::Number(measured)) = record.get("measured") else {
        return Err("the JSON on stdout has no number `measured`".to_owned());
    };
    let given = record.get("unit").and_then(Value::as_str);
    if given != unit {
        let (given, unit) = (given.unwrap_or("no unit"), unit.unwrap_or("none"));
        return Err(format!("measured in {given}, but the bound's unit is {unit}"));
    }
    Ok((measured.clone(), record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::table::parse;

    /// Runs a real shell, to test the whole path from the row to the finding.
    fn find(bound: &str, command: &str, effort: Effort) -> PromiseResult {
        let row = format!("| id | promise | bound | command |\n| a.b | p | {bound} | {command} |");
        let promise = parse(&row).unwrap().remove(0);
        measure(Command::new("timeout"), &promise, effort).unwrap()
    }

    fn why(finding: PromiseResult) -> String {
        match finding {
            PromiseResult::Skipped { why } => format!("skipped: {why}"),
            PromiseResult::Failed { why } => format!("failed: {why}"),
            other => panic!("{other:?}"),
        }
    }

    fn measured(finding: &PromiseResult) -> (PromiseVerdict, Option<u64>) {
        match finding {
            PromiseResult::Measured { verdict, number, .. } => (verdict.clone(), number.as_u64()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_last_line_counts_and_the_bound_decides() {
        let command = r#"echo noise; echo '{"measured": 2, "unit": "ms", "n": 3}'"#;
        let verdict = |bound, effort| measured(&find(bound, command, effort));
        assert_eq!(verdict("< 3 ms", Effort::Full), (PromiseVerdict::Holds, Some(2)));
        assert_eq!(verdict("< 2 ms", Effort::Full), (PromiseVerdict::Broken, Some(2)));
        assert_eq!(verdict("< 2 ms", Effort::Smoke), (PromiseVerdict::NotJudged, Some(2)));
    }

    #[test]
    fn smoke_is_told_to_the_command() {
        let command = r#"echo "{\"measured\": ${NODEWARD_SPEC_SMOKE:-0}}""#;
        let number = |effort| measured(&find("> 0", command, effort)).1;
        assert_eq!((number(Effort::Smoke), number(Effort::Full)), (Some(1), Some(0)));
    }

    #[test]
    fn a_command_that_cannot_run_is_skipped_with_its_reason() {
        let finding = find("> 0", "echo 'no second node' >&2; exit 77", Effort::Full);
        assert!(!finding.is_good());
        assert_eq!(why(finding), "skipped: no second node");
    }

    #[test]
    fn what_does_not_measure_failed() {
        let full = |command| why(find("> 0", command, Effort::Full));
        assert!(full("true").starts_with("failed: the last line of stdout is not a JSON object"));
        assert!(full("echo '{}'").ends_with("no number `measured`"));
        assert!(full("echo gone >&2; exit 3").ends_with(": gone"));
        let unit = full(r#"echo '{"measured": 1, "unit": "s"}'"#);
        assert_eq!(unit, "failed: measured in s, but the bound's unit is none");
    }
}
