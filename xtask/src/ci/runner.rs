//! Runs the commands of a part. Their output is shown, parsed for failed tests, or held back.

use std::process::Command;

use anyhow::Result;

use super::failures::{Failure, Reader};
use crate::process;

/// The treatment of the output of a part's commands.
pub enum Runner {
    /// It goes to the terminal at once.
    Shown,
    /// The same, and it is parsed.
    Read(Reader),
    /// It is shown if the command fails, because another part writes meanwhile.
    HeldBack,
}

impl Runner {
    /// Creates a runner that finds failed tests.
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

    /// Returns the failed tests, if the output was parsed.
    pub fn failed(self) -> Vec<Failure> {
        match self {
            Runner::Read(reader) => reader.failed(),
            Runner::Shown | Runner::HeldBack => Vec::new(),
        }
    }
}
