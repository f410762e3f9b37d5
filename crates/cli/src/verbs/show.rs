//! `nodeward show`: where the memory of processes is, or which processes have misplaced memory.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use nodeward_balancer::mapped_segments;
use nodeward_linux::device_nodes::{self, FoundDevice};
use nodeward_linux::{Linux, load, sysfs};
use nodeward_machine::Machine;
use nodeward_model::{Escape as _, Pid, Topology, hwloc};
use nodeward_mover::ranking::{self, Ranking, RankingTopology};
use nodeward_mover::residency::{self, Options};
use nodeward_sim::SimMachine;
use serde_json::{Value, json};

use crate::args::ShowArgs;
use crate::machines::SelectedMachine;
use crate::message::exit::Exit;
use crate::output;
use crate::output::topology::{self, Charset};
use crate::results::ShownMemory;
use crate::verbs::by_agent;

/// Minimum size of ranked processes: moving smaller ones has no noticeable gain.
const RANKED_BYTES_MIN: u64 = 16 << 20;
/// Maximum number of processes whose memory is sampled: some 0.5 ms each.
const RANKED_MAX: usize = 256;
/// Lines of the ranking as text.
const LINES: usize = 10;

/// Shows processes, or the machine and its processes by misplaced memory.
pub fn run(args: &ShowArgs) -> Result<Exit> {
    if args.seed.is_some() && args.pids.is_empty() && args.machine_args.machine.is_none() {
        bail!("--seed is for the processes that are sampled: name a PID, or a --machine");
    }
    if args.devices {
        return devices(args);
    }
    if let Some(socket) = &args.by.agent {
        if args.pids.is_empty() {
            bail!("--agent shows processes: name a PID; the machine is shown without --agent");
        }
        return by_agent::show(args, socket);
    }
    let chosen = SelectedMachine::open(&args.machine_args, args.seed)?;
    match chosen {
        _ if !args.pids.is_empty() => processes(args, &chosen),
        SelectedMachine::Local(_) => machine(args),
        SelectedMachine::Simulated(sim) => simulated(args, &sim),
    }
}

fn devices(args: &ShowArgs) -> Result<Exit> {
    let (root, topology) = (Path::new("/"), Linux::open().topology()?);
    let found = device_nodes::all(root);
    let near = |one: &FoundDevice| device_nodes::near(root, &one.device, &topology).ok();
    let found: Vec<_> = found.into_iter().map(|one| (near(&one), one)).collect();
    output::print(&match args.output.json {
        true => format!("{}\n", output::devices::json(&found)),
        false => output::devices::text(&found),
    })?;
    Ok(Exit::Done)
}

fn processes(args: &ShowArgs, chosen: &SelectedMachine) -> Result<Exit> {
    let machine = chosen.machine();
    let any_seed = || match chosen {
        SelectedMachine::Local(_) => machine.now_ns() ^ u64::from(std::process::id()) << 32,
        SelectedMachine::Simulated(_) => 0,
    };
    let options = Options {
        exact: args.exact,
        samples_min: args.samples.unwrap_or(0),
        seed: args.seed.unwrap_or_else(any_seed),
        time_ns_max: if args.exact { None } else { Options::default().time_ns_max },
        ..Options::default()
    };
    let look = |&pid: &Pid| -> Result<ShownMemory> {
        let process = machine.open_process(pid)?;
        let mappings = process.mappings()?;
        let segments = mapped_segments(&mappings, &[]);
        let residency = residency::measure_mappings(machine, &*process, mappings, &options)?;
        Ok(ShownMemory { residency, segments })
    };
    let found = args.pids.iter().map(look).collect::<Result<Vec<_>>>()?;
    output::print(&match args.output.json {
        true => format!("{}\n", output::residency::json(&found)),
        false => output::residency::text(&found),
    })?;
    Ok(Exit::Done)
}

/// Prints the topology files of this machine as one text.
pub fn capture() -> Result<Exit> {
    output::print(&sysfs::capture(Path::new("/")))?;
    Ok(Exit::Done)
}

fn machine(args: &ShowArgs) -> Result<Exit> {
    let elsewhere = args.root.is_some() || args.hwloc.is_some() || args.synthetic.is_some();
    let topology = topology_of(args)?;
    if args.hardware || args.topology || elsewhere {
        return without_processes(args, &topology);
    }
    let ranking = rank(Path::new("/"), &topology, args.window)?;
    output::print(&match args.output.json {
        true => both_json(&topology, "ranking", &output::ranking::json(&ranking))?,
        false => {
            let machine = topology::text(&topology, Charset::of_locale());
            format!("{machine}\n{}", output::ranking::text(&ranking, LINES))
        }
    })?;
    Ok(Exit::Done)
}

fn without_processes(args: &ShowArgs, topology: &Topology) -> Result<Exit> {
    output::print(&match (args.hardware, args.output.json) {
        (true, _) => topology::hardware(topology),
        (false, true) => topology::json(topology),
        (false, false) => topology::text(topology, Charset::of_locale()),
    })?;
    Ok(Exit::Done)
}

/// Shows a simulated machine, and the residency of its processes.
fn simulated(args: &ShowArgs, sim: &SimMachine) -> Result<Exit> {
    let topology = sim.topology()?;
    if args.hardware || args.topology {
        return without_processes(args, &topology);
    }
    let processes = sim.processes();
    output::print(&match args.output.json {
        true => both_json(&topology, "processes", &output::simulated::json(&processes))?,
        false => {
            let machine = topology::text(&topology, Charset::of_locale());
            let lines = output::simulated::text(&processes, topology.page_bytes, LINES);
            format!("{machine}\n{lines}")
        }
    })?;
    Ok(Exit::Done)
}

/// Returns the selected machine: this one, or one that is described.
fn topology_of(args: &ShowArgs) -> Result<Topology> {
    if let Some(machine) = &args.synthetic {
        return Ok(machine.topology());
    }
    if let Some(path) = &args.hwloc {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.escaped()))?;
        return hwloc::parse(&text).with_context(|| format!("{} is not a machine", path.escaped()));
    }
    if let Some(root) = &args.root {
        return sysfs::read_topology(root)
            .with_context(|| format!("{} is not the root of a machine", root.escaped()));
    }
    Ok(sysfs::read_topology(Path::new("/"))?)
}

fn both_json(topology: &Topology, name: &str, what: &Value) -> Result<String> {
    let machine: Value = serde_json::from_str(&topology::json(topology))?;
    Ok(format!("{}\n", json!({ "schema": "nodeward.show/1", "machine": machine, name: what })))
}

/// Watches CPU time for a moment, then samples memory.
fn rank(root: &Path, topology: &Topology, window_ns: Option<u64>) -> Result<Ranking> {
    let machine = Linux::open();
    let before = load::sample(root, RANKED_BYTES_MIN, RANKED_MAX)?;
    machine.sleep_ns(window_ns.unwrap_or(100_000_000));
    let now = load::resample(root, &before);
    let places = RankingTopology {
        nodes: &topology.nodes_with_memory(),
        node_of_cpu: &|cpu| topology.node_of_cpu(cpu),
        distance: &|from, to| topology.distance(from, to),
    };
    Ok(ranking::rank(&machine, &before, &now, &places)?)
}
