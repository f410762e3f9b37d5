//! Starts the commands that run tests, and knows afterwards which tests failed, where that was
//! asked for.

use std::process::Command;

use anyhow::Result;

use super::failures::{Failure, Reader};
use crate::process;

/// The tests of one part.
pub struct Tests {
    /// What is read of them; cargo writes to the terminal itself when nothing is.
    reader: Option<Reader>,
}

impl Tests {
    /// Tests of which cargo alone tells.
    pub fn unwatched() -> Tests {
        Tests { reader: None }
    }

    /// Tests that are read while they run.
    pub fn watched() -> Tests {
        Tests { reader: Some(Reader::default()) }
    }

    /// Runs a `cargo test` with its words.
    pub fn run(&mut self, cargo: &mut Command) -> Result<()> {
        match &mut self.reader {
            None => process::run(cargo),
            Some(reader) => {
                let result = process::run_reading(cargo, |line| reader.line(line));
                reader.end();
                result
            }
        }
    }

    /// The tests that failed.
    pub fn failed(self) -> Vec<Failure> {
        self.reader.map(Reader::failed).unwrap_or_default()
    }
}
