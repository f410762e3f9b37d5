//! `nodeward show`: where the memory of processes is, or which processes have it in the wrong
//! place.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use nodeward_engine::ranking::{self, Places, Ranking};
use nodeward_engine::residency::{self, Options};
use nodeward_linux::{Linux, load, sysfs};
use nodeward_machine::Machine;
use nodeward_model::{Pid, Residency, Topology, hwloc};
use serde_json::json;

use crate::args::ShowArgs;
use crate::exit::Exit;
use crate::output;
use crate::output::topology::{self, Charset};

/// Smaller processes are not ranked: moving them gains nothing that anybody would notice.
const RANKED_BYTES_MIN: u64 = 16 << 20;
/// Processes whose memory is sampled: some 0.5 ms each.
const RANKED_MAX: usize = 256;
/// Lines of the ranking as text.
const LINES: usize = 10;

/// Shows processes, or the machine and its processes by misplaced memory.
pub fn run(args: &ShowArgs) -> Result<Exit> {
    if args.pids.is_empty() { machine(args) } else { processes(args) }
}

fn processes(args: &ShowArgs) -> Result<Exit> {
    let machine = Linux::open();
    let options = Options {
        exact: args.exact,
        samples_min: args.samples.unwrap_or(0),
        seed: args.seed.unwrap_or_else(|| machine.now_ns() ^ u64::from(std::process::id()) << 32),
        time_ns_max: if args.exact { None } else { Options::default().time_ns_max },
        ..Options::default()
    };
    let look = |&pid: &Pid| -> Result<Residency> {
        let process = machine.hold(pid)?;
        Ok(residency::measure(&machine, &*process, &options)?)
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
    let topology = described(args)?;
    if args.hardware {
        output::print(&topology::hardware(&topology))?;
        return Ok(Exit::Done);
    }
    if args.topology || elsewhere {
        output::print(&match args.output.json {
            true => topology::json(&topology),
            false => topology::text(&topology, charset()),
        })?;
        return Ok(Exit::Done);
    }
    let ranking = rank(Path::new("/"), &topology, args.window)?;
    output::print(&match args.output.json {
        true => both_json(&topology, &ranking)?,
        false => {
            let machine = topology::text(&topology, charset());
            format!("{machine}\n{}", output::ranking::text(&ranking, LINES))
        }
    })?;
    Ok(Exit::Done)
}

/// The machine that is meant: this one, or one that is described.
fn described(args: &ShowArgs) -> Result<Topology> {
    if let Some(machine) = &args.synthetic {
        return Ok(machine.topology());
    }
    if let Some(path) = &args.hwloc {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        return hwloc::parse(&text).with_context(|| format!("{} is not a machine", path.display()));
    }
    Ok(sysfs::read_topology(args.root.as_deref().unwrap_or(Path::new("/")))?)
}

/// Shades where the locale says UTF-8.
fn charset() -> Charset {
    let value = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value).unwrap_or_default();
    let is_utf8 = locale.to_ascii_lowercase().replace('-', "").ends_with("utf8");
    if is_utf8 { Charset::Unicode } else { Charset::Ascii }
}

fn both_json(topology: &Topology, ranking: &Ranking) -> Result<String> {
    let machine: serde_json::Value = serde_json::from_str(&topology::json(topology))?;
    let ranking = output::ranking::json(ranking);
    Ok(format!(
        "{}\n",
        json!({ "schema": "nodeward.show/1", "machine": machine, "ranking": ranking })
    ))
}

/// Watches CPU time for a moment, then looks at memory.
fn rank(root: &Path, topology: &Topology, window_ns: Option<u64>) -> Result<Ranking> {
    let machine = Linux::open();
    let before = load::observe(root, RANKED_BYTES_MIN, RANKED_MAX)?;
    machine.sleep_ns(window_ns.unwrap_or(100_000_000));
    let now = load::observe_again(root, &before);
    let places = Places {
        nodes: &topology.nodes_with_memory(),
        node_of_cpu: &|cpu| topology.node_of_cpu(cpu),
        distance: &|from, to| topology.distance(from, to),
    };
    Ok(ranking::rank(&machine, &before, &now, &places)?)
}
