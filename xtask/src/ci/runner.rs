//! Runs the commands of a part. Their output is shown at once, or held back while another part
//! writes, and it can be parsed for failed tests.

use std::process::Command;

use anyhow::Result;

use super::failures::{FailedTest, FailureReader};
use crate::process;

/// The treatment of the output of a part's commands.
pub struct Runner {
    output: Output,
    reader: FailureReader,
}

/// When output is shown.
#[derive(Clone, Copy)]
pub enum Output {
    /// At once and unread, so that programs see a terminal as theirs.
    Inherited,
    /// Line by line.
    Lines,
    /// When the command has ended, because another part writes meanwhile.
    AtEnd,
}

impl Runner {
    pub fn new(output: Output) -> Runner {
        Runner { output, reader: FailureReader::default() }
    }

    /// Runs a command; any end but success is an error.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        let read = |line: &str| self.reader.line(line);
        let result = match self.output {
            Output::Inherited => process::run(command),
            Output::Lines => process::run_with_lines(command, read),
            Output::AtEnd => process::run_held_back(command, read),
        };
        self.reader.end();
        result
    }

    /// Returns the failed tests, if the output was read.
    pub fn failed(self) -> Vec<FailedTest> {
        self.reader.failed()
    }
}
