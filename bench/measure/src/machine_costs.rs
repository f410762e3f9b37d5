//! The costs of a machine that a scenario names, each measured alone: a line near and far, a fault,
//! a page moved, a look. For the lab, whose costs are its emulator's.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nodeward_linux::own_process::{self, AreaBacking, MappedArea};
use nodeward_linux::{Linux, mempolicy};
use nodeward_machine::{Machine, MovePagesCall, Process};
use nodeward_model::{NodeId, Nodemask, Pid, ProcessFilter};
use nodeward_runner::MachineCosts;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};

use crate::args::{Awake, CostsOptions, LookOptions};
use crate::hint_faults::HintCosts;
use crate::snapshot_cost::CrowdProcess;
use crate::stream_costs::Streams;

/// Pages of a call that moves a few.
const FEW_PAGES: usize = 16;
/// Number of processes, and of threads of one process, at which a look looks.
const CROWD: u32 = 32;
/// Looks of which the fastest counts, and the time between two.
const LOOKS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(100);

/// Measures the costs on nodes 0 and 1, from a CPU of node 0.
pub fn measure(options: &CostsOptions) -> Result<Value> {
    own_process::disable_huge_pages()?;
    let (look_process_ns, look_thread_ns) = look_ns()?;
    let line_ns = |part, are_far| {
        Streams { bytes: options.size, passes: options.passes, part, are_far }.line_ns()
    };
    let [read_line_near_ns, read_line_far_ns] =
        [line_ns("read-share", false)?, line_ns("read-share", true)?];
    let [written_line_near_ns, written_line_far_ns] =
        [line_ns("share", false)?, line_ns("share", true)?];
    stay_on_first_cpu()?;
    let (far, fault_ns) = populated(usize::try_from(options.size)?, NodeId(1))?;
    let (move_call_ns, move_page_ns) = move_ns(&far)?;
    let hint = HintCosts::measure(&far)?;
    Ok(json!(MachineCosts {
        read_line_near_ns,
        read_line_far_ns,
        written_line_near_ns,
        written_line_far_ns,
        fault_ns,
        hint_fault_ns: hint.fault_ns,
        scan_page_ns: hint.scan_page_ns,
        move_call_ns,
        move_page_ns,
        look_process_ns,
        look_thread_ns,
    }))
}

fn stay_on_first_cpu() -> Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    Ok(sched_setaffinity(None, &cpus)?)
}

/// Returns populated memory of a node, and the mean time of a fault in nanoseconds.
fn populated(bytes: usize, node: NodeId) -> Result<(MappedArea, f64)> {
    let area = MappedArea::map(bytes, AreaBacking::Anonymous)?;
    mempolicy::bind_memory(&Nodemask::from_iter([node])).context("no memory of that node")?;
    let words_each = rustix::param::page_size() / size_of::<u64>();
    let began = Instant::now();
    area.words().iter().step_by(words_each).for_each(|word| word.store(1, Relaxed));
    let ns = began.elapsed().as_nanos() as f64;
    mempolicy::default_memory()?;
    Ok((area, ns / (area_pages(bytes) as f64)))
}

fn area_pages(bytes: usize) -> usize {
    bytes / rustix::param::page_size()
}

/// Returns the time of a call that moves pages, beside the pages, and of each page.
fn move_ns(area: &MappedArea) -> Result<(f64, f64)> {
    let process = Linux::open().open_process(Pid::new(std::process::id())?)?;
    let page_bytes = rustix::param::page_size() as u64;
    let addresses: Vec<u64> = (area.address()..area.address() + area.bytes() as u64)
        .step_by(usize::try_from(page_bytes)?)
        .collect();
    let (few, many) = addresses.split_at(FEW_PAGES);
    let few_ns = call_ns(&*process, few)?;
    let many_ns = call_ns(&*process, many)?;
    let page_ns = (many_ns - few_ns) / (many.len() - few.len()) as f64;
    Ok(((few_ns - page_ns * few.len() as f64).max(0.0), page_ns))
}

/// Returns the time of the second call, which brings pages to node 0.
fn call_ns(process: &dyn Process, addresses: &[u64]) -> Result<f64> {
    let mut took = Duration::ZERO;
    for to in [0, 1, 0] {
        let mut call = MovePagesCall::new(false);
        addresses.iter().for_each(|&address| call.push(address, NodeId(to)));
        let began = Instant::now();
        process.move_pages(&call)?;
        took = began.elapsed();
    }
    Ok(took.as_nanos() as f64)
}

/// Returns the time of a look at a process of one thread, and at each further thread that ran.
fn look_ns() -> Result<(f64, f64)> {
    let nobody = fastest_look_ns()?;
    let of = |processes: u32, threads: u32| -> Result<f64> {
        let (awake, looks, pause_ms) = (Awake::All, LOOKS, 0);
        let crowd = LookOptions { threads, processes, awake, looks, pause_ms };
        let _crowd = CrowdProcess::start_all(&crowd)?;
        Ok((fastest_look_ns()? - nobody).max(0.0))
    };
    let (processes_ns, threads_ns) = (of(CROWD, CROWD)?, of(1, CROWD)?);
    let process_ns = processes_ns / f64::from(CROWD);
    Ok((process_ns, (threads_ns - process_ns).max(0.0) / f64::from(CROWD - 1)))
}

/// Returns the time of the fastest look of several at all processes.
fn fastest_look_ns() -> Result<f64> {
    let machine = Linux::open();
    let mut watch = machine.watch(&ProcessFilter::default())?;
    let mut least = f64::MAX;
    for _ in 0..LOOKS {
        thread::sleep(PAUSE);
        let began = Instant::now();
        watch.snapshot()?;
        least = least.min(began.elapsed().as_nanos() as f64);
    }
    Ok(least)
}
