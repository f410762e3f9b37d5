//! `nodeward bench pager`: the speed at which the pager moves live memory here, and a check that
//! nothing is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::units::format_bytes;
use nodeward_model::{NodeHeadroom, NodeId, Topology};
use nodeward_pager::PageSize;
use nodeward_proof::{
    BenchProgress, BenchRow, Column, Extra, Findings, MeasurePlan, NodeRoute, SoakPlan, measure,
    soak,
};
use serde_json::{Value, json};

use super::defaults::doublings;
use crate::args::BenchPagerArgs;
use crate::figures::{PageSizeValue, PagerFigure, RowFigure};
use crate::message::exit::Exit;
use crate::output;
use crate::output::bench::pager as bench;
use crate::progress;
use crate::settings::state_dir;

/// Region size: large enough that a batch in flight is 0.2 % of it, and that no cache holds it.
const SIZE: u64 = 1 << 30;
const SMOKE_SIZE: u64 = 32 << 20;
/// Duration of each measurement.
const TIME: Duration = Duration::from_secs(2);
const SMOKE_TIME: Duration = Duration::from_millis(20);
/// Amount moved by `--figure lost` unless --soak is given.
const LOST_SIZE: u64 = 50 << 30;
const LOST_SMOKE_SIZE: u64 = 256 << 20;
/// Region size of a soak.
const SOAK_REGION: u64 = 256 << 20;

/// A region consists of whole huge pages, and is large enough to move in parts.
const STEP: u64 = 2 << 20;
const SIZE_MIN: u64 = 8 << 20;
/// Copies in memory at the same time: the region, pages kept for it, two buffers for memcpy. With
/// two nodes, pages are kept on both, and each has one buffer.
const COPIES: u64 = 4;
const COPIES_EACH: u64 = 3;

/// Measures, prints, and reports a loss by the exit code.
pub fn run(args: &BenchPagerArgs) -> Result<Exit> {
    let asked = PagerBench::new(args)?;
    match (args.figure, args.soak) {
        (Some(PagerFigure::OfRow(page, what)), _) => asked.figure(page, what),
        (Some(PagerFigure::LostWords), _) | (None, Some(_)) => asked.soak(),
        (None, None) => asked.table(),
    }
}

/// Measures the table, and returns the document that `--json` prints.
pub fn document(args: &BenchPagerArgs) -> Result<(Option<Value>, Exit)> {
    let asked = PagerBench::new(args)?;
    let plan = asked.table_plan()?;
    let (rows, exit) = asked.measured(&plan)?;
    Ok((Some(bench::json(&plan, &rows)), exit))
}

/// The arguments, with the properties of the machine.
struct PagerBench<'a> {
    args: &'a BenchPagerArgs,
    nodes: NodeRoute,
    seed: u64,
    cpus: u32,
    headroom: BTreeMap<NodeId, NodeHeadroom>,
    page_bytes: u64,
}

impl<'a> PagerBench<'a> {
    fn new(args: &'a BenchPagerArgs) -> Result<Self> {
        let machine = Linux::open();
        let topology = machine.topology()?;
        Ok(Self {
            args,
            nodes: nodes(args, &topology)?,
            seed: args.seed.unwrap_or_else(|| machine.now_ns() ^ state_dir::now_unix_ms()),
            cpus: u32::try_from(machine.usable_cpus()?.len()).unwrap_or(1),
            headroom: machine.headroom()?,
            page_bytes: machine.page_bytes(),
        })
    }

    fn table_plan(&self) -> Result<MeasurePlan> {
        Ok(MeasurePlan {
            pages: self.args.only.iter().map(|&PageSizeValue(page)| page).collect(),
            columns: vec![Column::OneWay, Column::RecycledWriter, Column::RecycledAlone],
            lanes: self.lanes(),
            extras: vec![
                Extra::Lanes,
                Extra::Lazy,
                Extra::Stall,
                Extra::Vmas,
                Extra::Huge,
                Extra::Kernel,
            ],
            ..self.plan()?
        })
    }

    fn table(&self) -> Result<Exit> {
        let plan = self.table_plan()?;
        let (rows, exit) = self.measured(&plan)?;
        if let Some(path) = &self.args.svg {
            output::write_result(path, &bench::svg(&rows)?)?;
        }
        output::print(&match self.args.output.json {
            true => format!("{}\n", bench::json(&plan, &rows)),
            false => bench::text(&plan, &rows),
        })?;
        Ok(exit)
    }

    fn figure(&self, page: PageSize, what: RowFigure) -> Result<Exit> {
        let (columns, lanes, extras) = what.needs();
        let plan = MeasurePlan { pages: vec![page], columns, lanes, extras, ..self.plan()? };
        let (rows, exit) = self.measured(&plan)?;
        let number = rows.first().and_then(|row| what.value(row));
        let Some(number) = number else {
            let why = rows.iter().find_map(|row| row.why.as_deref());
            say!("nodeward: {}", why.unwrap_or("this machine has one node with memory"));
            return Ok(if exit == Exit::Done { Exit::NothingDone } else { exit });
        };
        output::print(&format!("{number}\n"))?;
        Ok(exit)
    }

    fn measured(&self, plan: &MeasurePlan) -> Result<(Vec<BenchRow>, Exit)> {
        let live = BenchProgress::default();
        let rows = progress::run_with_progress(&live, self.args.progress.mode(), || {
            measure(plan, &live)
        })??;
        let mut findings = Findings::default();
        rows.iter().for_each(|row| findings.add(&row.findings));
        Ok((rows, exit(&findings, &live)))
    }

    fn soak(&self) -> Result<Exit> {
        let default = if self.args.smoke { LOST_SMOKE_SIZE } else { LOST_SIZE };
        let smoke = self.args.smoke.then_some(SMOKE_SIZE);
        let region = self.args.size.or(smoke).unwrap_or(SOAK_REGION);
        let plan = SoakPlan {
            total_bytes: self.args.soak.unwrap_or(default),
            region_bytes: region_bytes(region)?,
            lanes: self.lanes().into_iter().max().unwrap_or(1),
            nodes: self.nodes,
            seed: self.seed,
        };
        self.check_memory(plan.region_bytes as u64)?;
        let live = BenchProgress::default();
        let report =
            progress::run_with_progress(&live, self.args.progress.mode(), || soak(&plan, &live))??;
        output::print(&match (self.args.figure, self.args.output.json) {
            (Some(_), _) => {
                let wrong = report.findings.lost_writes + report.findings.torn_reads;
                format!("{}\n", json!({ "measured": wrong, "soak": report }))
            }
            (None, true) => format!("{}\n", bench::soak_json(&report)),
            (None, false) => bench::soak_text(&report),
        })?;
        Ok(exit(&report.findings, &live))
    }

    /// Returns the plan that all measurements share.
    fn plan(&self) -> Result<MeasurePlan> {
        let (size, time) = match self.args.smoke {
            true => (SMOKE_SIZE, SMOKE_TIME),
            false => (SIZE, TIME),
        };
        let bytes = region_bytes(self.args.size.unwrap_or(size))?;
        self.check_memory(bytes as u64)?;
        Ok(MeasurePlan {
            bytes,
            pages: Vec::new(),
            columns: Vec::new(),
            lanes: Vec::new(),
            extras: Vec::new(),
            nodes: self.nodes,
            time: self.args.time.map_or(time, Duration::from_nanos),
            stall: Duration::from_nanos(self.args.stall),
            seed: self.seed,
        })
    }

    /// Returns the requested numbers of lanes, or doublings up to the number of CPUs.
    fn lanes(&self) -> Vec<u32> {
        let given = &self.args.lanes;
        match given.is_empty() {
            true => doublings(self.cpus),
            false => given.clone(),
        }
    }

    /// Checks for room in advance, because a kernel that runs out of memory kills.
    fn check_memory(&self, bytes: u64) -> Result<()> {
        let copies = if self.nodes.are_distinct() { COPIES_EACH } else { COPIES };
        let needed = bytes.saturating_mul(copies);
        for node in [self.nodes.from, self.nodes.to] {
            // A node without data is assumed to have room.
            let Some(room) = self.headroom.get(&node) else { continue };
            let free = room.free_or_cold_pages() * self.page_bytes;
            if free < needed {
                bail!(
                    "this takes {} of memory on node {node}, where {} are free; give --size {} or \
                     less",
                    format_bytes(needed),
                    format_bytes(free),
                    format_bytes(free / copies / STEP * STEP),
                );
            }
        }
        Ok(())
    }
}

fn region_bytes(size: u64) -> Result<usize> {
    if size < SIZE_MIN {
        bail!("--size must be at least {}", format_bytes(SIZE_MIN));
    }
    let rounded = size.checked_next_multiple_of(STEP).and_then(|size| usize::try_from(size).ok());
    rounded
        .with_context(|| format!("--size {} is more than a process can have", format_bytes(size)))
}

fn exit(findings: &Findings, live: &BenchProgress) -> Exit {
    match (findings.is_clean(), live.cancel().is_cancelled()) {
        (false, _) => Exit::DataLost,
        (true, true) => Exit::Interrupted,
        (true, false) => Exit::Done,
    }
}

/// Returns the requested nodes, or the first two with memory.
fn nodes(args: &BenchPagerArgs, topology: &Topology) -> Result<NodeRoute> {
    let with_memory = topology.nodes_with_memory();
    for node in [args.from, args.to].into_iter().flatten() {
        if !with_memory.contains(node) {
            bail!("node {node} has no memory; nodes with memory are {with_memory}");
        }
    }
    let first = with_memory.first().unwrap_or(NodeId(0));
    let other = |than: NodeId| with_memory.iter().find(|&node| node != than);
    let from = args.from.or_else(|| other(args.to?)).unwrap_or(first);
    let to = args.to.or_else(|| other(from)).unwrap_or(from);
    Ok(NodeRoute { from, to })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use nodeward_model::Synthetic;

    use super::*;
    use crate::args::{Benchmark, Cli, Verb};

    fn chosen(line: &str, machine: &str) -> Result<NodeRoute> {
        let words = ["nodeward", "bench", "pager"].into_iter().chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).unwrap();
        let Verb::Bench(bench) = cli.verb else { panic!("not bench") };
        let Benchmark::Pager(args) = bench.benchmark else { panic!("not bench pager") };
        let machine: Synthetic = machine.parse().unwrap();
        nodes(&args, &machine.topology())
    }

    /// Goal: two different nodes are chosen wherever there are two, whichever of them was named.
    #[test]
    fn nodes_are_chosen() {
        let of = |line, machine| chosen(line, machine).map(|n| (n.from.0, n.to.0)).unwrap();
        let (one, two) = ("1n 2c 1t 1GiB", "3n 2c 1t 1GiB");
        assert_eq!(of("", one), (0, 0));
        assert_eq!(of("", two), (0, 1));
        assert_eq!(of("--from 2", two), (2, 0));
        assert_eq!(of("--to 0", two), (1, 0));
        assert_eq!(of("--from 1 --to 1", two), (1, 1));
        let refused = chosen("--to 5", two).unwrap_err().to_string();
        assert_eq!(refused, "node 5 has no memory; nodes with memory are 0-2");
    }

    #[test]
    fn regions_are_whole_huge_pages() {
        assert_eq!(region_bytes((8 << 20) + 1).unwrap(), 10 << 20);
        assert!(region_bytes(u64::MAX).is_err());
        assert!(region_bytes(1 << 20).unwrap_err().to_string().contains("at least 8.00 MiB"));
    }

    /// Goal: a loss takes precedence over an interruption.
    #[test]
    fn the_exit_code_tells_a_loss() {
        let live = BenchProgress::default();
        let lost = Findings { lost_writes: 1, ..Findings::default() };
        assert_eq!(exit(&Findings::default(), &live), Exit::Done);
        live.cancel().cancel();
        assert_eq!(exit(&Findings::default(), &live), Exit::Interrupted);
        assert_eq!(exit(&lost, &live), Exit::DataLost);
    }
}
