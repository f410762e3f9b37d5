//! Results as text and as JSON.

pub mod balance;
pub mod bench;
pub mod config;
pub mod doctor;
pub mod explain;
pub mod files;
pub mod hot;
pub mod ledger;
pub mod moves;
mod plot;
pub mod ranking;
pub mod reproduce;
pub mod residency;
pub mod sim;
pub mod simulated;
pub mod swarm;
pub mod topology;

use anyhow::Result;

/// Prints on stdout. A reader that went away is not an error.
pub fn print(text: &str) -> Result<()> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
