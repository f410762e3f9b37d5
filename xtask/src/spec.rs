//! `cargo xtask spec` measures the promises of SPEC.md.
//!
//! SPEC.md explains the convention to its readers. In short: a row is `id | promise | bound |
//! command`; the last stdout line of the command is `{"measured": NUMBER, "unit": "..."}`; exit
//! code 77 means that it could not run here, with the reason as the last line of stderr.

mod bound;
mod host;
mod measure;
mod report;
mod table;

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{fs, iter, thread};

use anyhow::{Context, Result, bail, ensure};

use crate::check_extent::CheckExtent;
use crate::ci::PartOutcome;
use crate::profile::Profile;
use crate::script;
use crate::workspace;
use measure::{Effort, PromiseResult, measure};
use report::MeasuredPromise;
use table::Promise;
pub use table::parse;

/// Which promises, and how to show them.
#[derive(clap::Args)]
pub struct Args {
    /// Only promises whose id starts with this, such as `move.`
    #[arg(long, value_name = "ID-PREFIX")]
    only: Option<String>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Run every command at its smallest size and do not judge the numbers
    #[arg(long)]
    smoke: bool,
}

/// Areas whose figures are of one program: `nodeward-bench speed` in a guest, with processes of all
/// sizes and shapes; `nodeward bench pager`.
const OF_ONE_PROGRAM: [&[&str]; 2] = [&["move", "small", "shapes"], &["pager", "limits"]];

/// Measures and reports; succeeds only if every promise that applies to this host holds.
pub fn run(args: &Args) -> Result<ExitCode> {
    let effort = if args.smoke { Effort::Smoke } else { Effort::Full };
    let judged = judge_all(&chosen(args.only.as_deref())?, effort)?;
    if args.json {
        println!("{}", report::json(&judged)?);
    } else {
        print!("{}", report::text(&judged));
    }
    let good = judged.iter().all(|j| j.result.is_good());
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the commands as a part of `ci`: they must measure something, but the numbers are not
/// judged.
pub fn smoke() -> Result<PartOutcome> {
    let mut promises = chosen(None)?;
    if CheckExtent::from_environment() == CheckExtent::OneOfEach {
        promises = first_of_each_area(promises);
    }
    let judged = judge_all(&promises, Effort::Smoke)?;
    print!("{}", report::text(&judged));
    let skipped =
        judged.iter().filter(|j| matches!(j.result, PromiseResult::Skipped { .. })).count();
    let good = judged.iter().filter(|j| j.result.is_good()).count();
    let bad = judged.len() - good - skipped;
    ensure!(bad == 0, "{bad} commands of SPEC.md did not measure; see the table above");
    match judged.len() {
        0 => Ok(PartOutcome::Skipped("SPEC.md promises nothing yet".to_owned())),
        all if skipped > 0 => {
            Ok(PartOutcome::Skipped(format!("{skipped} of {all} could not run here")))
        }
        _ => Ok(PartOutcome::Done),
    }
}

/// Keeps one promise of each area: the others ask the same programs for other figures.
fn first_of_each_area(promises: Vec<Promise>) -> Vec<Promise> {
    let mut programs = BTreeSet::new();
    let program = |area: &str| {
        let known = OF_ONE_PROGRAM.into_iter().find(|areas| areas.contains(&area));
        known.map_or(area, |areas| areas[0]).to_owned()
    };
    promises.into_iter().filter(|promise| programs.insert(program(promise.area()))).collect()
}

fn chosen(prefix: Option<&str>) -> Result<Vec<Promise>> {
    let path = workspace::root().join("SPEC.md");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let all = parse(&text).map_err(|faults| anyhow::anyhow!(faults.join("\n")))?;
    let Some(prefix) = prefix else { return Ok(all) };
    let areas: BTreeSet<String> = all.iter().map(|promise| promise.area().to_owned()).collect();
    let chosen: Vec<_> = all.into_iter().filter(|p| p.id.starts_with(prefix)).collect();
    if chosen.is_empty() {
        let known = areas.into_iter().collect::<Vec<_>>().join(", ");
        bail!("no id in SPEC.md starts with `{prefix}`; its areas are: {known}");
    }
    Ok(chosen)
}

fn judge_all(promises: &[Promise], effort: Effort) -> Result<Vec<MeasuredPromise>> {
    if promises.is_empty() {
        return Ok(Vec::new());
    }
    let (profile, at_once) = match effort {
        Effort::Full => (Profile::Release, 1),
        // The numbers mean nothing, so the commands may disturb each other.
        Effort::Smoke => (Profile::Dev, thread::available_parallelism()?.get()),
    };
    let limited = promises.iter().any(|promise| promise.memcpy.is_some());
    let memcpy = (limited && effort == Effort::Full).then(host::memcpy);
    if let Some(memcpy) = memcpy {
        eprintln!("memcpy does {memcpy} {} here, one thread", host::UNIT);
    }
    let outside = |promise: &Promise| host::not_promised_reason(promise.memcpy.as_ref()?, memcpy?);
    let judge = |promise: &Promise| {
        let mut shell = Command::new("timeout");
        script::set_environment(&mut shell, profile)?;
        let began = Instant::now();
        let finding = measure(shell, promise, effort)?.for_host(outside(promise));
        eprintln!("{:26} {:6.1} s", promise.id, began.elapsed().as_secs_f64());
        Ok(MeasuredPromise { promise: promise.clone(), result: finding })
    };
    script::build(profile)?;
    each(promises, at_once, judge)
}

/// Processes all items, `at_once` in parallel, and returns the results in order.
fn each<T: Sync, U: Send>(
    all: &[T],
    at_once: usize,
    act: impl Fn(&T) -> Result<U> + Sync,
) -> Result<Vec<U>> {
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let turns = iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        turns.map_while(|at| Some((at, act(all.get(at)?)))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, Result<U>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(take_turns)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no worker panics")).collect()
    });
    done.sort_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the first promise of each area is kept, in the order of the file; `small` is about the
    /// program of `move`.
    #[test]
    fn one_of_each_area() {
        let ids = ["move.two", "small.one", "hot.list", "move.stall", "hot.rate"];
        let rows = ids.map(|id| format!("| {id} | p | > 0 | true |\n")).concat();
        let all = parse(&format!("| id | promise | bound | command |\n{rows}")).unwrap();
        let kept = first_of_each_area(all);
        assert_eq!(kept.iter().map(|one| &*one.id).collect::<Vec<_>>(), ["move.two", "hot.list"]);
    }

    /// Goal: each item is processed once, however many at a time, and results are in the order of
    /// items; a failure of one fails all.
    #[test]
    fn answers_stand_in_the_order_of_questions() {
        let all: Vec<u64> = (0..100).collect();
        for at_once in [1, 2, 7, 200] {
            let squares = each(&all, at_once, |number| Ok(number * number)).unwrap();
            assert!(squares.iter().zip(&all).all(|(square, number)| *square == number * number));
            assert_eq!(squares.len(), all.len());
            let fails = |number: &u64| if *number == 41 { bail!("no {number}") } else { Ok(()) };
            assert_eq!(each(&all, at_once, fails).unwrap_err().to_string(), "no 41");
        }
    }
}
