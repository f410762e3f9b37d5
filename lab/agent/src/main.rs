//! The first process of a lab guest: sets the guest up, takes one request, runs it, reports.
//!
//! Errors before the port is open go to the console, which the host shows when a boot fails.

#![forbid(unsafe_code)]

mod command;
mod host_request;
mod input;
mod output;
mod port;
mod setup;

use std::time::Duration;

use anyhow::{Context, Result};
use nodeward_lab_agent::protocol::{Frame, VERSION};
use rustix::system::{RebootCommand, reboot};

/// Time that the host has to take the answer and end the machine before the guest does so itself.
const POWER_OFF_DELAY: Duration = Duration::from_secs(10);

fn main() {
    if let Err(why) = run_guest() {
        eprintln!("nodeward-lab-init: {why:#}");
    }
    std::thread::sleep(POWER_OFF_DELAY);
    if let Err(why) = reboot(RebootCommand::PowerOff) {
        eprintln!("nodeward-lab-init: cannot power off: {why}");
    }
}

/// Runs the whole life of a guest, from its first mount to the exit code of its one command.
fn run_guest() -> Result<()> {
    setup::mount_and_load().context("cannot set up the guest")?;
    let mut port = port::open().context("cannot open the serial port to the host")?;
    Frame::Ready(VERSION).write_to(&mut port)?;
    let outcome = host_request::receive(&mut port).and_then(|request| {
        setup::set_clock_and_entropy(&request)?;
        command::run(&request, &port)
    });
    let last = match outcome {
        Ok(code) => Frame::Exit(code),
        Err(why) => Frame::Failed(format!("{why:#}")),
    };
    last.write_to(&mut port).context("cannot report to the host")
}
