//! `nodeward-compare`: one balancer after the other in the lab. `cargo xtask lab compare` builds
//! its requirements and starts it.

#![forbid(unsafe_code)]

mod args;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use nodeward_compare::{
    BalancerSetup, CompareSettings, CompareTable, GuestPrograms, LabWorkload, RunKey, RunResult,
    Truth, json, kind_of, measure_costs, page, predict, run_workload, text, truth_page, with_costs,
};
use nodeward_lab::Lab;
use nodeward_runner::MachineCosts;

use args::{Args, has_old_name};

type KeyedResult = (RunKey, Result<RunResult, String>);
/// Costs of the machine of each workload, by its name.
type CostsByWorkload = BTreeMap<String, MachineCosts>;

fn main() -> ExitCode {
    let args = Args::parse();
    if has_old_name(std::env::args()) {
        eprintln!("warning: --price is deprecated; use --miss-delay");
    }
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("nodeward-compare: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Runs the comparison. Returns whether all runs ended well.
fn run(args: &Args) -> Result<bool> {
    let settings = args.settings()?;
    let (lab, programs) = (Lab::open()?, GuestPrograms::from_environment()?);
    lab.prepare(&settings.kernel)?;
    let mut costs = CostsByWorkload::new();
    let done = all_runs(&lab, &programs, &settings, |workload| {
        if args.truth.is_some() {
            let measured = measure_costs(&lab, &programs, &settings, workload);
            costs.insert(workload.name.clone(), measured.context("cannot measure the costs")?);
        }
        Ok(())
    })?;
    let table = CompareTable::of(&settings, &done);
    if let Some(path) = &args.page {
        write_page(path, &settings, &table)?;
    }
    if let Some(path) = &args.truth {
        write_truth(path, &settings, &table, &costs)?;
    }
    if args.json {
        let outcomes = done.iter().filter_map(|(_, result)| result.as_ref().ok().cloned());
        println!("{}", json(&settings, &table, &outcomes.collect::<Vec<_>>()));
    } else {
        print!("{}", text(&table));
    }
    Ok(done.iter().all(|(_, result)| result.is_ok()))
}

/// Runs all workloads and repeats; balancers take turns. A balancer that failed with a workload is
/// not tried with it again. `begin` is called before the runs of each workload.
fn all_runs(
    lab: &Lab,
    programs: &GuestPrograms,
    settings: &CompareSettings,
    mut begin: impl FnMut(&LabWorkload) -> Result<()>,
) -> Result<Vec<KeyedResult>> {
    let mut done: Vec<KeyedResult> = Vec::new();
    for workload in &settings.workloads {
        begin(workload)?;
        for repeat in 0..settings.repeats {
            for contender in &settings.balancers {
                let key = key(workload, contender, repeat);
                if has_failed(&done, &key) {
                    continue;
                }
                let run = run_workload(lab, programs, settings, (workload, contender, repeat));
                let run = run.map_err(|why| format!("{why:#}"));
                tell(&key, &run);
                done.push((key, run));
            }
        }
    }
    Ok(done)
}

fn key(workload: &LabWorkload, contender: &BalancerSetup, repeat: u32) -> RunKey {
    let (workload, balancer) = (workload.name.clone(), contender.balancer.name.clone());
    RunKey { workload, balancer, repeat }
}

fn has_failed(done: &[KeyedResult], wanted: &RunKey) -> bool {
    let same = |key: &RunKey| key.workload == wanted.workload && key.balancer == wanted.balancer;
    done.iter().any(|(key, result)| same(key) && result.is_err())
}

/// Reports each run on standard error: there may be many, and each takes a while.
fn tell(key: &RunKey, run: &Result<RunResult, String>) {
    let RunKey { workload, balancer, repeat } = key;
    let told = match run {
        Ok(run) => {
            let (look, local) = (run.end.look, run.track.local_share(0, u64::MAX));
            let local =
                local.map_or("no misses".to_owned(), |s| format!("{:.1} % local", s * 100.0));
            let seconds = look.at_ms as f64 / 1000.0;
            format!("{seconds:.1} s, {local}, {} pages moved", look.overhead.migrated)
        }
        Err(why) => format!("failed: {why}"),
    };
    eprintln!("{workload} {balancer} {}: {told}", repeat + 1);
}

/// Runs everything in the simulator, too, and writes both beside each other.
fn write_truth(
    path: &Path,
    settings: &CompareSettings,
    measured: &CompareTable,
    costs: &CostsByWorkload,
) -> Result<()> {
    let mut done: Vec<KeyedResult> = Vec::new();
    for workload in &settings.workloads {
        let mut priced = workload.clone();
        if let Some(costs) = costs.get(&workload.name) {
            priced.scenario = with_costs(&workload.scenario, costs);
        }
        for contender in &settings.balancers {
            let Some(kind) = kind_of(&contender.balancer.name) else { continue };
            let run = predict(&priced, &contender.balancer.name, kind);
            done.push((key(workload, contender, 0), run.map_err(|why| format!("{why:#}"))));
        }
    }
    let predicted = CompareTable::of(settings, &done);
    let memory_pages = |name: &str| {
        let of_name = settings.workloads.iter().find(|workload| workload.name == name);
        of_name.map_or(0, LabWorkload::memory_pages)
    };
    let truth = Truth::of(&predicted, measured, memory_pages);
    let costs: Vec<MachineCosts> = costs.values().copied().collect();
    write(path, &truth_page(settings, &truth, &costs, &command("truth")))
}

fn write_page(path: &Path, settings: &CompareSettings, table: &CompareTable) -> Result<()> {
    write(path, &page(settings, table, &command("compare")))
}

/// Returns the command line of this run.
fn command(verb: &str) -> String {
    let words = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    format!("cargo xtask lab {verb} {words}").trim_end().to_owned()
}

/// Replaces a page as a whole, so that no reader finds half of one.
fn write(path: &Path, page: &str) -> Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, page)
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
