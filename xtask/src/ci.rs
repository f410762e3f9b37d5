//! All checks, in the order in which they are cheap. CI calls `make test`, which calls this with no
//! part; a part named on the command line runs alone. Parts can be run again and again, and beside
//! a load, to find tests that fail now and then.

mod failures;
mod load;
mod parts;
mod runs;
mod summary;
mod watch;

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;

use crate::guest;
use load::Load;
use runs::Runs;
pub use summary::Outcome;
use summary::{Line, Summary};
use watch::Tests;

/// Which checks to run.
#[derive(clap::Args)]
pub struct Args {
    /// The parts to run; all when none is named
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Run the parts N times, and name every test that ever failed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// With a busy loop on each CPU beside them
    #[arg(long)]
    beside_load: bool,
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
    let _load = args.beside_load.then(Load::start).transpose()?;
    let holds = match args.repeat.or(args.beside_load.then_some(1)) {
        None => once(chosen),
        Some(times) => again(chosen, times),
    };
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn once(parts: &[Part]) -> bool {
    let summary = summed_up(parts, Tests::unwatched);
    eprint!("\n{summary}");
    summary.holds()
}

/// The table comes after each run, so that who ends this early has what there is.
fn again(parts: &[Part], times: u32) -> bool {
    let mut runs = Runs::default();
    for run in 1..=times {
        eprintln!("\n==== run {run} of {times}");
        runs.push(summed_up(parts, Tests::watched));
        eprint!("\n{runs}");
    }
    runs.hold()
}

fn summed_up(parts: &[Part], tests: fn() -> Tests) -> Summary {
    let mut summary = Summary::default();
    for part in parts {
        if *part == Part::Test && parts.contains(&Part::Lab) {
            build_ahead();
        }
        summary.push(timed(*part, tests()));
    }
    summary
}

/// Begins to build what the lab needs: tests leave a third of the CPUs idle. The lab waits for it,
/// and says so if it cannot be built.
fn build_ahead() {
    thread::spawn(guest::build);
}

fn timed(part: Part, mut tests: Tests) -> Line {
    let name = name(part);
    eprintln!("\n== {name}");
    let start = Instant::now();
    let result = parts::run(part, &mut tests);
    if let Err(error) = &result {
        eprintln!("error: {error:#}");
    }
    Line { name, result, seconds: start.elapsed().as_secs_f64(), failed: tests.failed() }
}

fn name(part: Part) -> String {
    part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
