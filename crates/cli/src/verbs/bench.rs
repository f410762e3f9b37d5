//! `nodeward bench`: measurements of nodeward on this machine.

mod balance;
mod figure;
mod pager;
mod pool;
mod pool_figure;

use std::path::Path;

use anyhow::{Context, Result};
use nodeward_files::{For, write};
use nodeward_model::Escape as _;

pub use balance::BalanceFigure;
pub use figure::{Figure, Pages, rounded};
pub use pool_figure::PoolFigure;

use crate::args::{BenchArgs, BenchVerb};
use crate::exit::Exit;

/// Measures.
pub fn run(args: &BenchArgs) -> Result<Exit> {
    match &args.what {
        BenchVerb::Pager(args) => pager::run(args),
        BenchVerb::Pool(args) => pool::run(args),
        BenchVerb::Balance(args) => balance::run(args),
    }
}

fn write_picture(path: &Path, picture: &str) -> Result<()> {
    write(path, picture, For::Everyone).with_context(|| format!("cannot write {}", path.escaped()))
}
