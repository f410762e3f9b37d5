//! `nodeward-bench`: measures whole commands, from start to exit, against the commands in common
//! use today. It is one static program, so that it runs in the lab's guest as it does here.
//!
//! Compared commands alternate within one run, and the ratio of neighbours counts, because other
//! load on the machine affects both. Every sample is printed.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod counts;
mod exchange;
mod ledger;
mod list;
mod look;
mod loops;
mod numbers;
mod shuffle;
mod speed;
mod stall;
mod target;
mod topology;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use serde_json::Value;

use args::{Args, What};

fn main() -> ExitCode {
    match run(&Args::parse().what) {
        Ok(record) => {
            record.inspect(|record| println!("{record}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("nodeward-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the selected measurement. Returns its record, if there is one.
fn run(what: &What) -> Result<Option<Value>> {
    let record = match what {
        What::Speed(options) => speed::measure(options),
        What::Stall(options) => stall::measure(options),
        What::Topology(options) => topology::measure(options),
        What::Exchange(options) => exchange::measure(options),
        What::List(options) => list::measure(options),
        What::Loops(options) => loops::measure(options),
        What::Ledger(options) => ledger::measure(options),
        What::Look(options) => look::measure(options),
        What::Crowd(options) => look::be_crowd(options),
        What::Counts(options) => return counts::print(options).map(|()| None),
    };
    record.map(Some)
}
