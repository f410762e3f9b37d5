//! All checks. CI calls `make test`, which calls this without a part; a part named on the command
//! line runs alone. Parts can be repeated, also beside a load, to find flaky tests.

mod cpu_load;
mod failures;
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

use cpu_load::CpuLoad;
use runner::Runner;
use runs::Runs;
pub use summary::PartOutcome;
use summary::{PartResult, Summary};

/// The priority of work that can wait.
const NICE_LOWEST: i32 = 19;

/// Which checks to run.
#[derive(clap::Args)]
pub struct Args {
    /// The parts to run; all when none is named
    #[arg(value_enum)]
    parts: Vec<CiPart>,
    /// Run the parts N times, and name every test that ever failed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// With a busy loop on each CPU beside them
    #[arg(long)]
    beside_load: bool,
}

/// A check with a name.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum CiPart {
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

impl CiPart {
    /// Returns whether it can run beside the tests.
    fn runs_beside_tests(self) -> bool {
        matches!(self, CiPart::Clippy | CiPart::Docs | CiPart::Aarch64)
    }
}

/// Runs the parts, all of them even when one fails, and prints a summary.
pub fn run(args: &Args) -> Result<ExitCode> {
    let all = CiPart::value_variants();
    let chosen = if args.parts.is_empty() { all } else { &args.parts };
    let _load = args.beside_load.then(CpuLoad::start).transpose()?;
    let holds = match args.repeat.or(args.beside_load.then_some(1)) {
        None => once(chosen),
        Some(times) => again(chosen, times),
    };
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn once(parts: &[CiPart]) -> bool {
    let summary = run_parts(parts, || Runner::Inherited);
    eprint!("\n{summary}");
    summary.holds()
}

/// Repeats the parts. The table is printed after each run, so that an early end loses nothing.
fn again(parts: &[CiPart], times: u32) -> bool {
    let mut runs = Runs::default();
    for run in 1..=times {
        eprintln!("\n==== run {run} of {times}");
        runs.push(run_parts(parts, Runner::parsing));
        eprint!("\n{runs}");
    }
    runs.hold()
}

/// Runs the parts. Those that run no code of ours run beside the tests, which leave a quarter of
/// two CPUs idle.
fn run_parts(parts: &[CiPart], runner: fn() -> Runner) -> Summary {
    let tests = parts.contains(&CiPart::Test);
    let (beside, ahead): (Vec<CiPart>, _) =
        parts.iter().partition(|part| tests && part.runs_beside_tests());
    let mut lines = thread::scope(|scope| {
        let mut begun = None;
        let mut lines = Vec::new();
        for part in ahead {
            if part == CiPart::Test {
                begun = Some(scope.spawn(|| run_at_low_priority(&beside)));
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
fn run_at_low_priority(parts: &[CiPart]) -> Vec<(CiPart, PartResult)> {
    // For this thread and the processes that it starts. Lowering the priority is always permitted.
    let _ = setpriority_process(None, NICE_LOWEST);
    parts.iter().map(|part| (*part, timed(*part, Runner::Buffered))).collect()
}

fn timed(part: CiPart, mut runner: Runner) -> PartResult {
    let name = name(part);
    eprintln!("\n== {name}");
    let start = Instant::now();
    let result = parts::run(part, &mut runner);
    if let Err(error) = &result {
        eprintln!("error: {error:#}");
    }
    PartResult { name, result, seconds: start.elapsed().as_secs_f64(), failed: runner.failed() }
}

fn name(part: CiPart) -> String {
    part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
