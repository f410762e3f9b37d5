//! `nodeward bench`: measurements of nodeward on this machine.

mod balance;
mod pager;
mod pager_figure;
mod pool;
mod pool_figure;

use std::path::Path;

use anyhow::{Context, Result};
use nodeward_files::{Visibility, write};
use nodeward_model::Escape as _;

pub use balance::BalanceFigure;
pub use pager_figure::{PageSizeValue, PagerFigure, rounded};
pub use pool_figure::PoolFigure;

use crate::args::{BenchArgs, Benchmark};
use crate::exit::Exit;

/// Measures.
pub fn run(args: &BenchArgs) -> Result<Exit> {
    match &args.benchmark {
        Benchmark::Pager(args) => pager::run(args),
        Benchmark::Pool(args) => pool::run(args),
        Benchmark::Balance(args) => balance::run(args),
    }
}

fn write_picture(path: &Path, picture: &str) -> Result<()> {
    write(path, picture, Visibility::Everyone)
        .with_context(|| format!("cannot write {}", path.escaped()))
}
