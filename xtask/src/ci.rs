//! All checks. CI calls `make test`, which calls this without a part; a part named on the command
//! line runs alone. Parts can be repeated, also beside a load, to find flaky tests.

mod failures;
mod load;
mod parts;
mod runner;
mod runs;
mod summary;

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;
use rustix::process::setpriority_process;

use load::Load;
use runner::Runner;
use runs::Runs;
pub use summary::Outcome;
use summary::{Line, Summary};

/// The priority of work that can wait.
const LEAST: i32 = 19;

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
    /// All that tests start compiles
    Build,
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

impl Part {
    /// Returns whether it can run beside the tests.
    fn is_beside(self) -> bool {
        matches!(self, Part::Clippy | Part::Docs | Part::Aarch64)
    }
}

/// Runs the parts, all of them even when one fails, and prints a summary.
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
    let summary = summed_up(parts, || Runner::Shown);
    eprint!("\n{summary}");
    summary.holds()
}

/// Repeats the parts. The table is printed after each run, so that an early end loses nothing.
fn again(parts: &[Part], times: u32) -> bool {
    let mut runs = Runs::default();
    for run in 1..=times {
        eprintln!("\n==== run {run} of {times}");
        runs.push(summed_up(parts, Runner::reading));
        eprint!("\n{runs}");
    }
    runs.hold()
}

/// Runs the parts. Those that run no code of ours run beside the tests, which leave a quarter of
/// two CPUs idle.
fn summed_up(parts: &[Part], runner: fn() -> Runner) -> Summary {
    let tests = parts.contains(&Part::Test);
    let (beside, ahead): (Vec<Part>, _) = parts.iter().partition(|part| tests && part.is_beside());
    let mut lines = thread::scope(|scope| {
        let mut begun = None;
        let mut lines = Vec::new();
        for part in ahead {
            if part == Part::Test {
                begun = Some(scope.spawn(|| at_leisure(&beside)));
            }
            lines.push((part, timed(part, runner())));
        }
        lines.extend(begun.into_iter().flat_map(|it| it.join().expect("no part panics")));
        lines
    });
    lines.sort_by_key(|(part, _)| *part as usize);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Runs parts on the CPU time that the tests leave.
fn at_leisure(parts: &[Part]) -> Vec<(Part, Line)> {
    // For this thread and the processes that it starts. Lowering the priority is always permitted.
    let _ = setpriority_process(None, LEAST);
    parts.iter().map(|part| (*part, timed(*part, Runner::HeldBack))).collect()
}

fn timed(part: Part, mut runner: Runner) -> Line {
    let name = name(part);
    eprintln!("\n== {name}");
    let start = Instant::now();
    let result = parts::run(part, &mut runner);
    if let Err(error) = &result {
        eprintln!("error: {error:#}");
    }
    Line { name, result, seconds: start.elapsed().as_secs_f64(), failed: runner.failed() }
}

fn name(part: Part) -> String {
    part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
