//! A running machine. It ends when this value is dropped, or when the thread that started it ends.
//!
//! Its three standard descriptors are its connections: 0 the serial port to the guest, 1 the
//! monitor, 2 the log. A machine therefore leaves nothing in any directory, whatever happens to the
//! lab.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use nodeward_lab_agent::protocol::{Frame, VERSION};

use crate::console::GuestEnd;
use crate::monitor::Monitor;
use crate::qemu::{self, QemuMachine};

/// Time limit of a boot: forty times the time on an otherwise idle machine.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);
const NO_START: &str = "the hypervisor did not start";
const NO_BOOT: &str = "the guest did not boot";

/// A running machine.
#[derive(Debug)]
pub struct Vm {
    child: Child,
    /// The serial port to the guest.
    pub port: UnixStream,
    /// The hypervisor's monitor.
    pub monitor: Monitor,
    log: File,
}

impl Vm {
    /// Starts the hypervisor; the guest boots, or waits to be restored.
    pub fn start(machine: &QemuMachine) -> Result<Self> {
        let log = tempfile::Builder::new().append(true).tempfile();
        let log = log.context("cannot make a temporary file")?.into_file();
        let (port, guest_port) = UnixStream::pair()?;
        let (monitor, guest_monitor) = UnixStream::pair()?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", qemu::PROGRAM])
            .args(qemu::command_line(machine)?)
            .stdin(OwnedFd::from(guest_port))
            .stdout(OwnedFd::from(guest_monitor))
            .stderr(log.try_clone()?);
        let child = command.spawn().context("cannot run setpriv: install util-linux")?;
        drop(command); // closes this side's copies of the guest's ends
        let (mut child, mut log) = (child, log);
        match Monitor::new(monitor) {
            Ok(monitor) => Ok(Self { child, port, monitor, log }),
            Err(why) => {
                kill_and_wait(&mut child);
                Err(why.context(GuestEnd::read(NO_START, &mut log)))
            }
        }
    }

    /// Waits until a booting guest reports that it is ready.
    pub fn await_ready(&mut self) -> Result<()> {
        self.port.set_read_timeout(Some(BOOT_TIMEOUT))?;
        let frame = Frame::read_from(&mut self.port);
        let frame = frame.map_err(|why| match why.kind() {
            ErrorKind::WouldBlock => {
                self.with_console_tail(anyhow!("no word in {BOOT_TIMEOUT:?}"), NO_BOOT)
            }
            _ => self.with_console_tail(why.into(), NO_BOOT),
        })?;
        let known = frame == Frame::Ready(VERSION);
        ensure!(known, "the guest's first process is of another version of the lab: {frame:?}");
        Ok(())
    }

    /// Adds what the console tells to an error.
    pub fn with_console_tail(&mut self, why: anyhow::Error, what: &'static str) -> anyhow::Error {
        kill_and_wait(&mut self.child);
        why.context(GuestEnd::read(what, &mut self.log))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        kill_and_wait(&mut self.child);
    }
}

/// Kills the hypervisor; it has nothing to save.
fn kill_and_wait(child: &mut Child) {
    let ended = child.kill().and_then(|()| child.wait());
    if let Err(why) = ended {
        eprintln!("nodeward-lab: cannot end the hypervisor: {why}");
    }
}
