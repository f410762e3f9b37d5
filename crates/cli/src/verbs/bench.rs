//! `nodeward bench`: what nodeward does on this machine.

mod figure;
mod pager;

use anyhow::Result;

pub use figure::{Figure, Pages};

use crate::args::{BenchArgs, BenchVerb};
use crate::exit::Exit;

/// Measures.
pub fn run(args: &BenchArgs) -> Result<Exit> {
    match &args.what {
        BenchVerb::Pager(args) => pager::run(args),
    }
}
