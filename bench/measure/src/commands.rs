//! The compared commands, each run and timed as a whole.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The exit code of `nodeward move` if some pages stayed.
const PAGES_STAYED: i32 = 1;

/// A direction of a move between two nodes.
#[derive(Clone, Copy, Debug)]
pub enum Direction {
    /// From node 0 to node 1.
    Forward,
    /// From node 1 to node 0.
    Backward,
}

impl Direction {
    /// Returns `Forward` for even turns and `Backward` for odd ones.
    pub fn of_round(turn: u32) -> Self {
        if turn.is_multiple_of(2) { Self::Forward } else { Self::Backward }
    }

    fn words(self) -> [&'static str; 2] {
        match self {
            Self::Forward => ["0", "1"],
            Self::Backward => ["1", "0"],
        }
    }
}

/// A command that moves a process.
#[derive(Clone, Debug)]
pub enum MoveCommand {
    /// `migratepages`, the command in common use: one thread, no account.
    Migratepages,
    /// `nodeward move` with options.
    Nodeward(Vec<String>),
}

impl MoveCommand {
    /// Moves a process. Returns the time from the start of the command to its end.
    pub fn run(&self, pid: u32, way: Direction) -> Result<Duration> {
        timed(&mut self.command(pid, way))
    }

    /// Moves a process, some pages of which may stay.
    pub fn run_as_far_as_possible(&self, pid: u32, way: Direction) -> Result<Duration> {
        Ok(timed_output(&mut self.command(pid, way), &[0, PAGES_STAYED])?.0)
    }

    fn command(&self, pid: u32, way: Direction) -> Command {
        let pid = pid.to_string();
        let mut command = match self {
            Self::Migratepages => Command::new("migratepages"),
            Self::Nodeward(_) => Command::new("nodeward"),
        };
        if let Self::Nodeward(options) = self {
            command.args(["move", "--json"]).args(options);
        }
        command.arg(pid).args(way.words());
        command
    }

    /// Returns the name of the command for readers.
    pub fn name(&self) -> String {
        match self {
            Self::Migratepages => "migratepages".to_owned(),
            Self::Nodeward(options) => ["nodeward move"]
                .into_iter()
                .chain(options.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}

/// Runs a command, which must succeed, and hides its output. Returns its duration.
pub fn timed(command: &mut Command) -> Result<Duration> {
    Ok(timed_output(command, &[0])?.0)
}

/// Runs a command like [`timed`], and returns its time and its output, which must be JSON.
pub fn timed_json(command: &mut Command) -> Result<(Duration, Value)> {
    let (took, output) = timed_output(command, &[0])?;
    Ok((took, serde_json::from_slice(&output).context("a command did not print JSON")?))
}

/// Runs a command, which must end with one of these codes.
fn timed_output(command: &mut Command, codes: &[i32]) -> Result<(Duration, Vec<u8>)> {
    command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    let begin = Instant::now();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    let took = begin.elapsed();
    let words = || String::from_utf8_lossy(&output.stderr).into_owned();
    let is_well = output.status.code().is_some_and(|code| codes.contains(&code));
    ensure!(is_well, "{program}: {}: {}", output.status, words());
    Ok((took, output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a command that fails is no measurement, and the error contains its message.
    #[test]
    fn only_success_is_timed() {
        assert!(timed(Command::new("sleep").arg("0.02")).unwrap() >= Duration::from_millis(20));
        let error = timed(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
        assert!(timed(&mut Command::new("/no/such/program")).is_err());
    }
}
