//! `nodeward-torture`: uses memory of a pager by all means that programs have, while it moves.

#![forbid(unsafe_code)]

mod args;
mod kernel_setting;
mod means;
mod means_thread;
mod move_totals;
mod owned_range;
mod pattern;
mod report;
mod test_memory;
mod test_threads;
mod thread_context;
mod thread_dump;
mod thread_status;
mod watchdog;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Parser;
use nodeward::PagerOptions;

use args::Args;
use means::{ALL, BROKEN, MeansSpec};
use means_thread::{MeansEnv, SkippedMeans};
use move_totals::SharedMoveTotals;
use report::TortureReport;
use test_memory::TestMemory;
use test_threads::{RunLimits, TestEnd, TestThreads, ThreadSpec};
use thread_status::ThreadStatus;

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        ALL.iter().for_each(|kind| println!("{:<10}{}", kind.name, kind.description));
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        // Threads may stand still, so they are not waited for.
        Ok(ending) => std::process::exit(i32::from(code(&ending))),
        Err(error) => {
            eprintln!("nodeward-torture: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn code(ending: &TestEnd) -> u8 {
    match ending {
        TestEnd::Clean => 0,
        TestEnd::Failed(_, fault) if fault.is_loss() => 7,
        TestEnd::Failed(..) => 6,
        TestEnd::Hung(_) => 9,
    }
}

fn run(args: &Args) -> Result<TestEnd> {
    let kinds = chosen_means(args);
    let seed = args.seed.unwrap_or_else(new_seed);
    eprintln!("{}", repeat_command(args, seed));
    let options = PagerOptions { kernel_only: args.kernel_only, ..Default::default() };
    let mut memory = TestMemory::open(&options)?;
    let backend = memory.pager.backend().name();
    let mut skipped_means = std::collections::BTreeMap::new();
    let parts = parts(args, &kinds, &mut memory, |kind, SkippedMeans(why)| {
        skipped_means.insert(kind.name, why);
    });
    let statuses: Vec<_> = parts.iter().map(|part| Arc::clone(&part.status)).collect();
    let (tally, began) = (Arc::new(SharedMoveTotals::default()), Instant::now());
    let mut threads = TestThreads::start(parts, seed, &tally);
    let [run, patience] = [args.time, args.patience].map(Duration::from_nanos);
    let ending = threads.run(RunLimits { run, steps: args.steps, hang_limit: patience });
    let mut report = TortureReport { seed, backend, skipped_means, ..TortureReport::default() };
    report.kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    report.ran_ms = began.elapsed().as_millis() as u64;
    for status in statuses {
        let name = status.name.split('-').next().unwrap_or_default().to_owned();
        *report.steps.entry(name).or_default() += status.steps();
    }
    report.record_moves(&tally.snapshot());
    report.record_standstill(threads.watchdog.longest());
    report.record_end(&ending);
    println!("{}", serde_json::to_string(&report)?);
    Ok(ending)
}

/// Returns the requested means.
fn chosen_means(args: &Args) -> Vec<&'static MeansSpec> {
    let is_named = |kind: &&MeansSpec| args.means.iter().any(|name| name == kind.name);
    let is_left = |kind: &&MeansSpec| !args.without.iter().any(|name| name == kind.name);
    let all = ALL.iter().filter(|_| args.means.is_empty());
    all.chain(ALL.iter().chain(BROKEN).filter(is_named)).filter(is_left).collect()
}

/// Makes the threads of all means, with the statuses of them all.
fn parts(
    args: &Args,
    kinds: &[&'static MeansSpec],
    memory: &mut TestMemory,
    mut skip: impl FnMut(&'static MeansSpec, SkippedMeans),
) -> Vec<ThreadSpec> {
    let statuses = Arc::new(OnceLock::new());
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let whole_machine = args.whole_machine;
    let shared = Arc::clone(&statuses);
    let mut env = MeansEnv { memory, dir, whole_machine, movers: args.movers, statuses: shared };
    let mut parts = Vec::new();
    for kind in kinds {
        match (kind.make)(&mut env) {
            Err(why) => skip(kind, why),
            Ok(all) => parts.extend((1..).zip(all).map(|(number, means)| {
                let name = format!("{}-{number}", kind.name);
                ThreadSpec { status: Arc::new(ThreadStatus::new(name.clone())), name, means }
            })),
        }
    }
    statuses.get_or_init(|| parts.iter().map(|part| Arc::clone(&part.status)).collect());
    parts
}

fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ u64::from(std::process::id()) << 32
}

/// Returns the command that repeats the run with the same random numbers.
fn repeat_command(args: &Args, seed: u64) -> String {
    let given = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let seed = if args.seed.is_some() { String::new() } else { format!("--seed {seed} ") };
    format!("the same again: nodeward-torture {seed}{given}")
}
