//! Runs other programs: shows the command, and on failure reports which one it was and how it
//! ended.

use std::borrow::Cow;
use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::repository;

/// Returns the cargo that started us, in the root of the workspace.
pub fn cargo() -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(repository::root());
    command
}

/// Shows the command and runs it; any end but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    succeeded(command, status)
}

/// The same, and passes every line that the command writes, to stdout or stderr, to `each`.
pub fn run_with_lines(command: &mut Command, mut each: impl FnMut(&str)) -> Result<()> {
    eprintln!("$ {}", command_line(command));
    run_piped(command, |line| {
        show(line)?;
        each(&line_text(line));
        Ok(())
    })
}

/// The same, but shows the command and its output together when it has ended.
pub fn run_held_back(command: &mut Command, mut each: impl FnMut(&str)) -> Result<()> {
    let mut shown = format!("$ {}\n", command_line(command)).into_bytes();
    let result = run_piped(command.stdin(Stdio::null()), |line| {
        each(&line_text(line));
        shown.extend_from_slice(line);
        Ok(())
    });
    show(&shown)?;
    result
}

/// Runs a command and passes each line that it writes, its end included.
fn run_piped(command: &mut Command, each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (reader, mut child) = spawn_piped(command.env("CARGO_TERM_COLOR", "never"))?;
    read_lines(reader, &mut child, each)?;
    let status = child.wait().context("cannot wait for a child")?;
    succeeded(command, status)
}

fn line_text(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line))
}

fn show(output: &[u8]) -> Result<()> {
    io::stdout().write_all(output).context("cannot write what a program said")
}

/// Starts a command whose stdout and stderr go into one pipe, in the order of its writes.
fn spawn_piped(command: &mut Command) -> Result<(PipeReader, Child)> {
    let (reader, writer) = io::pipe().context("cannot make a pipe")?;
    let errors = writer.try_clone().context("cannot make a pipe")?;
    let child = command.stdout(writer).stderr(errors).spawn();
    // Drops our ends of the pipe, which would keep it open.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    Ok((reader, child.with_context(|| missing(command))?))
}

/// Reads lines until the pipe is closed. If the child left a process behind that holds the other
/// end, until the child has ended and nothing arrived for a while.
fn read_lines(
    from: PipeReader,
    child: &mut Child,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    const QUIET: Duration = Duration::from_secs(10);
    let lines = lines(from);
    loop {
        match lines.recv_timeout(QUIET) {
            Ok(line) => each(&line)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                if child.try_wait().context("cannot ask after a child")?.is_some() {
                    eprintln!("warning: a process that it left behind still holds its output");
                    return Ok(());
                }
            }
        }
    }
}

/// Reads lines, ends included, in a thread of its own.
fn lines(from: PipeReader) -> mpsc::Receiver<Vec<u8>> {
    let (give, take) = mpsc::channel();
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            if give.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    take
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{}` ended with {status}; its own words stand above", command_line(command));
    }
    Ok(())
}

/// Shows the command, runs it, and returns its exit code.
pub fn run_for_exit_code(command: &mut Command) -> Result<ExitCode> {
    let code = status(command)?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Runs the command without showing it and returns its stdout.
pub fn stdout_of(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::piped()).output().with_context(|| missing(command))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}: {}", command_line(command), output.status, words.trim());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("the output of `{}` is not UTF-8", command_line(command)))
}

/// Returns whether the command runs and succeeds; prints nothing.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Returns the path of a program, also from Debian's directories of administration tools.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(more).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Formats the command as one would type it, without its environment.
pub fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn status(command: &mut Command) -> Result<ExitStatus> {
    eprintln!("$ {}", command_line(command));
    command.status().with_context(|| missing(command))
}

fn missing(command: &Command) -> String {
    format!(
        "failed to start `{}`; is it installed? `cargo xtask setup` may help",
        command_line(command)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(script: &str) -> (Result<()>, Vec<String>) {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        let result =
            run_with_lines(command.args(["-c", script]), |line| lines.push(line.to_owned()));
        (result, lines)
    }

    /// Goal: both outputs are read in the order in which they were written, any bytes, to the end.
    #[test]
    fn both_outputs_are_read_in_their_order() {
        let (result, lines) = read_of("echo a; echo b >&2; printf 'c\\377\\nd'");
        result.expect("success");
        assert_eq!(lines, ["a", "b", "c\u{fffd}", "d"]);
    }

    fn read_held_back(script: &str) -> (Result<()>, Vec<String>) {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        let result =
            run_held_back(command.args(["-c", script]), |line| lines.push(line.to_owned()));
        (result, lines)
    }

    /// Goal: held back or not, the same lines are read.
    #[test]
    fn output_that_is_held_back_is_read() {
        let (result, lines) = read_held_back("echo a; echo b >&2; exit 3");
        assert!(result.expect_err("it fails").to_string().contains("`sh -c"));
        assert_eq!(lines, ["a", "b"]);
    }

    #[test]
    fn a_failure_is_told_with_the_command() {
        let (result, lines) = read_of("echo a; exit 3");
        assert!(result.expect_err("it fails").to_string().contains("`sh -c"));
        assert_eq!(lines, ["a"]);
    }

    /// Goal: a process that is left behind with the pipe open is not waited for. It would take 1000
    /// s.
    #[test]
    fn what_is_left_behind_is_not_waited_for() {
        let start = std::time::Instant::now();
        for read in [read_of, read_held_back] {
            let (result, lines) = read("sleep 1000 & echo $!");
            result.expect("success");
            assert!(start.elapsed() < Duration::from_secs(500));
            succeeds(Command::new("kill").args(&lines));
        }
    }
}
