//! `nodeward-bench`: measures whole commands, from start to exit, against the commands in common
//! use today. It is one static program, so that it runs in the lab's guest as it does here.
//!
//! Compared commands alternate within one run, and the ratio of neighbours counts, because other
//! load on the machine affects both. Every sample is printed.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod counts;
mod cpu_share;
mod exchange;
mod frame_lookup;
mod growth;
mod hint_faults;
mod ledger;
mod list;
mod machine_costs;
mod numbers;
mod rest;
mod sampling;
mod shuffle;
mod snapshot_cost;
mod speed;
mod stall;
mod start;
mod stream_costs;
mod target;
mod top;
mod topology;
mod victim;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use serde_json::Value;

use args::{Args, Measurement};

fn main() -> ExitCode {
    match run(&Args::parse().measurement) {
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
fn run(what: &Measurement) -> Result<Option<Value>> {
    let record = match what {
        Measurement::Speed(options) => speed::measure(options),
        Measurement::Growth(options) => growth::measure(options),
        Measurement::Start(options) => start::measure(options),
        Measurement::Stall(options) => stall::measure(options),
        Measurement::Victim(options) => victim::measure(options),
        Measurement::Topology(options) => topology::measure(options),
        Measurement::Exchange(options) => exchange::measure(options),
        Measurement::List(options) => list::measure(options),
        Measurement::Loops(options) => frame_lookup::measure(options),
        Measurement::Ledger(options) => ledger::measure(options),
        Measurement::Look(options) => snapshot_cost::measure(options),
        Measurement::Crowd(options) => snapshot_cost::run_crowd_process(options),
        Measurement::Top(options) => top::measure(options),
        Measurement::Rest(options) => rest::measure(options),
        Measurement::Sampling(options) => sampling::measure(options),
        Measurement::Walk(options) => sampling::walk(options),
        Measurement::Costs(options) => machine_costs::measure(options),
        Measurement::Counts(options) => return counts::print(options).map(|()| None),
    };
    record.map(Some)
}
