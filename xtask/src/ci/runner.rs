//! Runs the commands of a part. Their output is shown, parsed for failed tests, or held back.

use std::process::Command;

use anyhow::Result;

use super::failures::{FailedTest, FailureReader};
use crate::process;

/// The treatment of the output of a part's commands.
pub enum Runner {
    /// It goes to the terminal at once.
    Inherited,
    /// The same, and it is parsed.
    Parsed(FailureReader),
    /// It is shown if the command fails, because another part writes meanwhile.
    Buffered,
}

impl Runner {
    /// Creates a runner that finds failed tests.
    pub fn parsing() -> Runner {
        Runner::Parsed(FailureReader::default())
    }

    /// Runs a command; any end but success is an error.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        match self {
            Runner::Inherited => process::run(command),
            Runner::Parsed(reader) => {
                let result = process::run_with_lines(command, |line| reader.line(line));
                reader.end();
                result
            }
            Runner::Buffered => process::run_buffered(command),
        }
    }

    /// Returns the failed tests, if the output was parsed.
    pub fn failed(self) -> Vec<FailedTest> {
        match self {
            Runner::Parsed(reader) => reader.failed(),
            Runner::Inherited | Runner::Buffered => Vec::new(),
        }
    }
}
