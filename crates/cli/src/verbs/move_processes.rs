//! `nodeward move`: moves memory of processes, or says what would be moved.

mod address_list;
mod hot;

use std::sync::Arc;

use anyhow::{Result, bail};
use nodeward_machine::Process;
use nodeward_model::Topology;
use nodeward_mover::{MoveControl, MoveOrder, Selection};

use crate::args::MoveArgs;
use crate::machines::SelectedMachine;
use crate::machines::node_pairs;
use crate::machines::shared_memory::SharedMemory;
use crate::message::exit::Exit;
use crate::settings::MoveSettings;
use crate::verbs::by_agent;
use crate::verbs::move_operands::{Operands, kinds};
use crate::verbs::move_task::{MoveTask, MoveTaskOptions, stopped_before};
use crate::verbs::process_selection::{hold, select_processes};

/// Moves, or reports what a move would do.
pub fn run(args: &MoveArgs, settings: &MoveSettings) -> Result<Exit> {
    if let Some(socket) = &args.by.agent {
        return by_agent::move_processes(args, settings, socket);
    }
    if args.collapse && settings.stall_ns.is_some() {
        bail!(
            "--collapse keeps no --stall: the kernel copies 2 MiB at a time while the program \
             cannot change its mappings; leave one of them out, or give --stall unlimited"
        );
    }
    if args.split_huge && settings.stall_ns.is_none() {
        bail!("--split-huge is for moves with --stall; give one, such as --stall 1ms");
    }
    let chosen = SelectedMachine::open(&args.run.simulated.machine_args, args.run.simulated.seed)?;
    let live = chosen.control(args.run.until.deadline);
    let machine = chosen.machine();
    let topology = machine.topology()?;
    let task = match (&args.addresses, &args.hot_pages.hot) {
        (Some(list), _) => Some(address_list::task(args, list, &chosen, &topology)?),
        (None, Some(source)) => hot::task(args, source, chosen.local("--hot")?, &topology, &live)?,
        (None, None) => Some(between_nodes(args, &chosen, &topology, &live)?),
    };
    let Some(task) = task else { return Ok(stopped_before(&live)) };
    let task = MoveTask { collapse: args.collapse, split_huge: args.split_huge, ..task };
    let how = MoveTaskOptions::new(&args.run, settings, &chosen);
    task.execute(machine, &topology, &how, &live)
}

/// Creates the task of `PID... FROM TO`.
fn between_nodes(
    args: &MoveArgs,
    chosen: &SelectedMachine,
    topology: &Topology,
    live: &MoveControl,
) -> Result<MoveTask> {
    let Operands { pids, from, to } = Operands::parse(args)?;
    let pairs = node_pairs::parse_pairs(from, to, topology, &chosen.node_names(topology)?)?;
    let selected = select_processes(&args.name, &args.cgroup, pids.clone())?;
    let processes = hold(chosen.machine(), &selected, &pids)?;
    let (kinds, ranges) = (kinds(args), args.range.clone());
    let selection = Selection { kinds, ranges, ..args.skip.selection() };
    check_ranges(&processes, &selection, chosen.machine().page_bytes())?;
    let together = match chosen {
        SelectedMachine::Local(_) => {
            SharedMemory::find(&processes, &selection, (topology, &pairs), live)?
        }
        SelectedMachine::Simulated(_) => None,
    };
    let orders: Arc<[MoveOrder]> = [MoveOrder { pairs, pages: None }].into();
    let orders = vec![orders; processes.len()];
    Ok(MoveTask { selection, shared_memory: together, ..MoveTask::new(processes, orders) })
}

fn check_ranges(
    processes: &[Arc<dyn Process>],
    selection: &Selection,
    page_bytes: u64,
) -> Result<()> {
    if !selection.names_no_memory(processes, page_bytes) {
        return Ok(());
    }
    let ranges = selection.ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    bail!("no memory that is selected is in {ranges}; /proc/PID/maps lists what is mapped")
}
