//! Standard input of the command: a terminal or a pipe that the host fills.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context, Result};
use nodeward_lab_agent::protocol::{Frame, TerminalSize};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetwinsize, tcsetwinsize};

/// Opens a terminal of a size. Returns the host's end and the command's.
pub fn open_terminal(size: TerminalSize) -> Result<(File, File)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let path = ptsname(&ours, Vec::new())?;
    let path = path.to_str().context("a terminal's name that is no text")?;
    let theirs = open(Path::new(path)).with_context(|| format!("cannot open {path}"))?;
    resize(&theirs, size)?;
    Ok((File::from(ours), theirs))
}

/// Opens a terminal without making it the controlling one: the first process leads no session.
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn resize(terminal: &File, size: TerminalSize) -> rustix::io::Result<()> {
    let before = tcgetwinsize(terminal)?;
    tcsetwinsize(terminal, Winsize { ws_row: size.rows, ws_col: size.columns, ..before })
}

/// Starts to forward input from the host, until the host ends it.
pub fn forward_input(port: &File, to: OwnedFd) -> Result<()> {
    let mut port = port.try_clone().context("cannot read the host's input")?;
    std::thread::spawn(move || {
        let mut to = Some(File::from(to));
        while let Ok(frame) = Frame::read_from(&mut port) {
            apply_frame(frame, &mut to);
        }
    });
    Ok(())
}

/// Forwards a frame. A command that no longer reads is no error; its input is dropped.
fn apply_frame(frame: Frame, to: &mut Option<File>) {
    let Some(file) = to else { return };
    let taken = match frame {
        Frame::Stdin(bytes) if !bytes.is_empty() => file.write_all(&bytes).is_ok(),
        Frame::Resize(size) => resize(file, size).is_ok(),
        _ => false,
    };
    if !taken {
        *to = None;
    }
}
