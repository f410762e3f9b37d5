//! `nodeward bench`: measurements of nodeward on this machine.

mod agent;
mod balance;
mod calls;
mod defaults;
mod limits;
mod move_calls;
mod pager;
mod pool;
mod report;

use anyhow::Result;

use crate::args::{BenchArgs, Benchmark};
use crate::message::exit::Exit;

/// Measures.
pub fn run(args: &BenchArgs) -> Result<Exit> {
    match &args.benchmark {
        Benchmark::Pager(args) => pager::run(args),
        Benchmark::Pool(args) => pool::run(args),
        Benchmark::Calls(args) => calls::run(args),
        Benchmark::Limits(args) => limits::run(args),
        Benchmark::Report(args) => report::run(args),
        Benchmark::Balance(args) => balance::run(args),
        Benchmark::Agent(args) => agent::run(args),
    }
}
