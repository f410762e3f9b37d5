//! All checks, in the order in which they are cheap. CI calls `make test`, which calls this with no
//! part; a part named on the command line runs alone.

mod parts;
mod summary;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;

pub use summary::Outcome;
use summary::{Line, Summary};

/// Which checks to run.
#[derive(clap::Args)]
pub struct Args {
    /// The parts to run; all when none is named
    #[arg(value_enum)]
    parts: Vec<Part>,
}

/// A check with a name.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Part {
    /// Formatting as rustfmt has it
    Fmt,
    /// The house's own rules
    Tidy,
    /// Lints, with warnings as errors
    Clippy,
    /// Unit and integration tests
    Test,
    /// Documentation builds without warnings
    Docs,
    /// The workspace type-checks for aarch64
    Aarch64,
    /// The lab's tests, on real kernels in QEMU
    Lab,
    /// Every command of SPEC.md runs and measures
    SpecSmoke,
}

/// Runs the parts, all of them even when one fails, and sums up.
pub fn run(args: &Args) -> Result<ExitCode> {
    let all = Part::value_variants();
    let chosen = if args.parts.is_empty() { all } else { &args.parts };
    let mut summary = Summary::default();
    for part in chosen {
        summary.push(timed(*part));
    }
    eprint!("\n{summary}");
    Ok(if summary.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn timed(part: Part) -> Line {
    let name = name(part);
    eprintln!("\n== {name}");
    let start = Instant::now();
    let result = parts::run(part);
    if let Err(error) = &result {
        eprintln!("error: {error:#}");
    }
    Line { name, result, seconds: start.elapsed().as_secs_f64() }
}

fn name(part: Part) -> String {
    part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
