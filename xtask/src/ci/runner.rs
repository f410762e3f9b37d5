//! Runs the commands of a part: what they write is shown, read for tests that fail, or held back.

use std::process::Command;

use anyhow::Result;

use super::failures::{Failure, Reader};
use crate::process;

/// What happens to the output of a part's commands.
pub enum Runner {
    /// It goes to the terminal as it comes.
    Shown,
    /// So it does, and is read.
    Read(Reader),
    /// It is shown when the command has failed: something else writes meanwhile.
    HeldBack,
}

impl Runner {
    /// Reads which tests fail.
    pub fn reading() -> Runner {
        Runner::Read(Reader::default())
    }

    /// Runs a command; any end but success is an error.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        match self {
            Runner::Shown => process::run(command),
            Runner::Read(reader) => {
                let result = process::run_reading(command, |line| reader.line(line));
                reader.end();
                result
            }
            Runner::HeldBack => process::run_held_back(command),
        }
    }

    /// The tests that failed, where they were read.
    pub fn failed(self) -> Vec<Failure> {
        match self {
            Runner::Read(reader) => reader.failed(),
            Runner::Shown | Runner::HeldBack => Vec::new(),
        }
    }
}
