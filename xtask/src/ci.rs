//! All checks. CI calls `make test`, which calls this without a part; a part named on the command
//! line runs alone. Parts can be repeated, also beside a load, to find flaky tests.

mod cpu_load;
mod failures;
mod part;
mod parts;
mod runner;
mod runs;
mod summary;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use rustix::process::setpriority_process;

use cpu_load::CpuLoad;
use part::CiPart;
use runner::{Output, Runner};
use runs::Runs;
pub use summary::PartOutcome;
use summary::{PartResult, Summary};

/// The time after which the lab and the tests have usually started.
const START_OF_TESTS: Duration = Duration::from_secs(10);

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

/// Runs the parts, all of them even when one fails, and prints a summary.
pub fn run(args: &Args) -> Result<ExitCode> {
    let all = CiPart::value_variants();
    let chosen = if args.parts.is_empty() { all } else { &args.parts };
    let _load = args.beside_load.then(CpuLoad::start).transpose()?;
    let yields = !args.beside_load;
    let holds = match args.repeat.or(args.beside_load.then_some(1)) {
        None => once(chosen),
        Some(times) => again(chosen, times, yields),
    };
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn once(parts: &[CiPart]) -> bool {
    let summary = run_parts(parts, Output::Inherited, true);
    eprint!("\n{summary}");
    summary.holds()
}

/// Repeats the parts. The table is printed after each run, so that an early end loses nothing.
fn again(parts: &[CiPart], times: u32, yields: bool) -> bool {
    let mut runs = Runs::default();
    for run in 1..=times {
        eprintln!("\n==== run {run} of {times}");
        runs.push(run_parts(parts, Output::Lines, yields));
        eprint!("\n{runs}");
    }
    runs.hold()
}

/// Runs the parts. Beside the lab run the tests, and all else takes what these leave of the CPUs if
/// it `yields`: beside a load, whose loops take all that is left, it has the same priority.
fn run_parts(parts: &[CiPart], output: Output, yields: bool) -> Summary {
    let lab = parts.contains(&CiPart::Lab);
    let (beside, ahead): (Vec<CiPart>, _) =
        parts.iter().partition(|part| lab && part.priority_beside_lab().is_some());
    let mut results = Vec::new();
    for part in ahead {
        match part {
            CiPart::Lab => results.extend(run_lab_with(beside.clone(), output, yields)),
            _ => results.push((part, timed(part, output))),
        }
    }
    results.sort_by_key(|(part, _)| *part as usize);
    results.into_iter().map(|(_, result)| result).collect()
}

fn run_lab_with(others: Vec<CiPart>, output: Output, yields: bool) -> Vec<(CiPart, PartResult)> {
    let (tests, others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|part| *part == CiPart::Test);
    let (compiled, others) = others.into_iter().partition::<Vec<_>, _>(CiPart::is_compiled);
    thread::scope(|scope| {
        let rows = [(tests, Duration::ZERO), (compiled, START_OF_TESTS), (others, START_OF_TESTS)];
        let rows = rows.map(|(row, start)| {
            scope.spawn(move || {
                // Cargo compiles one thing at a time in a directory. The lab and the tests are
                // compiled already; if they start later than this, they wait for a lint.
                thread::sleep(start);
                run_beside_lab(&row, yields)
            })
        });
        let mut results = vec![(CiPart::Lab, timed(CiPart::Lab, output))];
        results.extend(rows.into_iter().flat_map(|row| row.join().expect("no part panics")));
        results
    })
}

/// Runs parts, one after the other; if it `yields`, on the CPU time that the lab leaves.
fn run_beside_lab(parts: &[CiPart], yields: bool) -> Vec<(CiPart, PartResult)> {
    let run = |part: &CiPart| {
        // For this thread and the processes that it starts. Lowering the priority is always
        // permitted.
        let priority = part.priority_beside_lab().filter(|_| yields).unwrap_or_default();
        let _ = setpriority_process(None, priority);
        (*part, timed(*part, Output::AtEnd))
    };
    parts.iter().map(run).collect()
}

fn timed(part: CiPart, output: Output) -> PartResult {
    let name = name(part);
    eprintln!("\n== {name}");
    let start = Instant::now();
    let mut runner = Runner::new(output);
    let result = parts::run(part, &mut runner);
    if let Err(error) = &result {
        eprintln!("error: {error:#}");
    }
    PartResult { name, result, seconds: start.elapsed().as_secs_f64(), failed: runner.failed() }
}

fn name(part: CiPart) -> String {
    part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
