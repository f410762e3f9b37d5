//! Running other programs: show the command, and when it fails say which one and how it ended.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// The cargo that started us, in the root of the workspace.
pub fn cargo() -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(workspace::root());
    command
}

/// Shows the command and runs it; any end but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("`{}` ended with {status}; its own words stand above", shown(command));
    }
    Ok(())
}

/// Shows the command, runs it, and hands on its exit code.
pub fn hand_over(command: &mut Command) -> Result<ExitCode> {
    let code = status(command)?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Runs the command without showing it and returns its stdout.
pub fn read(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::piped()).output().with_context(|| missing(command))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}: {}", shown(command), output.status, words.trim());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("the output of `{}` is not UTF-8", shown(command)))
}

/// Whether the command runs and succeeds; says nothing.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// The path of a program, searched where Debian puts the tools of administrators too.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(more).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// The command as one would type it, without its environment.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn status(command: &mut Command) -> Result<ExitStatus> {
    eprintln!("$ {}", shown(command));
    command.status().with_context(|| missing(command))
}

fn missing(command: &Command) -> String {
    format!("failed to start `{}`; is it installed? `cargo xtask setup` may help", shown(command))
}
