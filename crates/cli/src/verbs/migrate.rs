//! `nodeward move`.

mod choice;
mod hot;
mod listed;
pub mod together;

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use nodeward_engine::{Order, Selection};
use nodeward_machine::{Machine, Process};
use nodeward_model::{MappingKind, Pid, Topology};

use crate::args::MoveArgs;
use crate::exit::Exit;
use crate::machine::Chosen;
use crate::nodes;
use crate::settings::MoveSettings;
use crate::task::{How, Task};
use together::Together;

/// Moves, or reports what a move would do.
pub fn run(args: &MoveArgs, settings: &MoveSettings) -> Result<Exit> {
    let chosen = Chosen::open(&args.on, args.seed)?;
    let machine = chosen.machine();
    let topology = machine.topology()?;
    let task = match (&args.addresses, &args.hot.hot) {
        (Some(list), _) => Some(listed::task(args, list, &chosen, &topology)?),
        (None, Some(source)) => hot::task(args, source, chosen.here("--hot")?, &topology)?,
        (None, None) => Some(between_nodes(args, &chosen, &topology)?),
    };
    let Some(task) = task else { return Ok(Exit::Interrupted) };
    let how = How {
        settings: settings.clone(),
        dry_run: args.dry_run,
        progress: args.progress.when(),
        json: args.output.json,
        // A move on a simulated machine cannot be undone, because the machine does not outlive this
        // command.
        ledger: !args.no_ledger && matches!(chosen, Chosen::Here(_)),
    };
    task.carry_out(machine, &topology, &how)
}

/// Creates the task of `PID... FROM TO`.
fn between_nodes(args: &MoveArgs, chosen: &Chosen, topology: &Topology) -> Result<Task> {
    let [pids @ .., from, to] = &args.words[..] else { bail!("FROM and TO are missing") };
    let by_other_means = !args.name.is_empty() || !args.cgroup.is_empty();
    if pids.is_empty() && !by_other_means {
        bail!("no process is named: give a PID, --name or --cgroup before '{from} {to}'");
    }
    let pids = pids.iter().map(|pid| Ok(pid.parse()?)).collect::<Result<_>>()?;
    let pairs = nodes::pairs(from, to, topology, &chosen.node_names(topology)?)?;
    let processes = hold(chosen.machine(), &choice::find(args, pids)?)?;
    let (kinds, ranges) = (kinds(args), args.range.clone());
    let selection = Selection { kinds, ranges, ..Selection::default() };
    let together = match chosen {
        Chosen::Here(_) => Together::find(&processes, &selection, topology, &pairs)?,
        Chosen::Simulated(_) => None,
    };
    let orders: Arc<[Order]> = [Order { pairs, pages: None }].into();
    let orders = vec![orders; processes.len()];
    Ok(Task { selection, together, ..Task::new(processes, orders) })
}

fn hold(machine: &dyn Machine, pids: &[Pid]) -> Result<Vec<Arc<dyn Process>>> {
    pids.iter().map(|&pid| Ok(machine.hold(pid)?)).collect()
}

fn kinds(args: &MoveArgs) -> BTreeSet<MappingKind> {
    if !args.only.is_empty() {
        return args.only.iter().copied().collect();
    }
    MappingKind::ALL.into_iter().filter(|kind| !args.exclude.contains(kind)).collect()
}
