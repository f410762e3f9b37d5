//! `nodeward placement`: saves where memory and threads are, and brings them there again.

mod by_agent;
mod restore;
mod save;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use nodeward_machine::{Machine, Process};
use nodeward_model::{Escape as _, MappingKind, Pid, ProcessFilter, Topology};
use nodeward_mover::Selection;
use nodeward_mover::placement::{PresentThread, present_threads};

use crate::args::PlacedArgs;
use crate::verbs::process_selection::{hold, select_processes};

pub use restore::run as restore;
pub use save::run as save;

/// The processes of a placement, their memory, and its file.
struct Placed {
    processes: Vec<Arc<dyn Process>>,
    selection: Selection,
    file: PathBuf,
    /// The socket of the agent that is to do it.
    agent: Option<PathBuf>,
}

impl Placed {
    /// Parses `PID... FILE`, and holds the processes.
    fn new(args: &PlacedArgs, machine: &dyn Machine) -> Result<Self> {
        let [pids @ .., file] = &args.operands[..] else { bail!("FILE is missing") };
        if file == "-" {
            bail!("a placement is kept in a file, not in standard output; give its name");
        }
        if pids.is_empty() && args.name.is_empty() && args.cgroup.is_empty() {
            let file = Path::new(file).escaped();
            bail!("no process is named: give a PID, --name or --cgroup before '{file}'");
        }
        let parse = |pid: &OsString| Ok(Path::new(pid).escaped().to_string().parse()?);
        let pids = pids.iter().map(parse).collect::<Result<Vec<Pid>>>()?;
        let selected = select_processes(&args.name, &args.cgroup, pids.clone())?;
        let processes = hold(machine, &selected, &pids)?;
        let selection = Selection { kinds: kinds(&args.only), ..Selection::default() };
        let agent = args.by.agent.clone();
        Ok(Self { processes, selection, file: file.into(), agent })
    }
}

/// Private mappings of files are mostly programs and libraries, which many processes share.
fn kinds(only: &[MappingKind]) -> BTreeSet<MappingKind> {
    match only.is_empty() {
        true => MappingKind::ALL.into_iter().filter(|kind| *kind != MappingKind::File).collect(),
        false => only.iter().copied().collect(),
    }
}

/// Returns the threads of each process; those of a process that may not be seen are an error.
fn threads_of(
    machine: &dyn Machine,
    topology: &Topology,
    processes: &[Arc<dyn Process>],
) -> Result<Vec<Vec<PresentThread>>> {
    let pids = processes.iter().map(|process| process.pid()).collect();
    let wanted = ProcessFilter { pids, ..ProcessFilter::default() };
    let sample = machine.watch(&wanted)?.snapshot()?;
    let threads = |process: &Arc<dyn Process>| {
        let pid = process.pid();
        if let Some((_, remedy)) = sample.denied.iter().find(|(denied, _)| *denied == pid) {
            let (action, remedy) = (format!("seeing the threads of process {pid}"), remedy.clone());
            return Err(nodeward_machine::Error::Denied { action, remedy });
        }
        match sample.processes.iter().find(|sampled| sampled.pid == pid) {
            Some(sampled) => present_threads(&**process, sampled, topology),
            None => Err(nodeward_machine::Error::Gone(pid)),
        }
    };
    Ok(processes.iter().map(threads).collect::<Result<_, _>>()?)
}
