//! `nodeward placement restore`: moves memory to where a file says that it was.

use anyhow::{Result, bail};
use nodeward_machine::Process;
use nodeward_model::Topology;
use nodeward_mover::placement::{
    FoundPlacement, RestoreOrders, ThreadMode, restore_orders, restore_threads,
};
use nodeward_mover::{MemoryView, MoveControl};
use nodeward_records::placement::{EscapedName, PlacedProcess, SavedPlacement};

use super::{Placed, by_agent, threads_of};
use crate::args::PlacementRestoreArgs;
use crate::machines::SelectedMachine;
use crate::machines::segment_rest::{SegmentRest, SegmentRestMove};
use crate::message::exit::Exit;
use crate::output::placement::{RestoreReport, ThreadRow};
use crate::progress::{self, ProgressMode};
use crate::results::MovedNodes;
use crate::settings::MoveSettings;
use crate::verbs::move_task::{MoveTask, MoveTaskOptions, stopped_before};

/// Restores, or reports what that would do.
pub fn run(args: &PlacementRestoreArgs, settings: &MoveSettings) -> Result<Exit> {
    let chosen = SelectedMachine::open(&args.run.simulated.machine_args, args.run.simulated.seed)?;
    let live = chosen.control(args.run.until.deadline);
    let machine = chosen.machine();
    let topology = machine.topology()?;
    let placed = Placed::new(&args.placed, machine)?;
    let saved = SavedPlacement::read(&placed.file)?;
    check_count(&saved, &placed)?;
    for (process, of) in placed.processes.iter().zip(&saved.processes) {
        check_program(&**process, of, args.force)?;
    }
    if let Some(socket) = &placed.agent {
        let threads = || threads(args, &chosen, &topology, &placed, &saved);
        let report = |found, threads| report(&placed, &saved, found, threads);
        return by_agent::restore(args, settings, (&placed, &saved, socket), threads, report);
    }
    let look = || task(&placed, &saved, &chosen, &topology, &live);
    let task = progress::run_with_progress(&live, ProgressMode::Never, look)??;
    let Some((task, report)) = task else { return Ok(stopped_before(&live)) };
    // After all looks: if one fails, no thread was placed.
    let threads = args.threads.then(|| threads(args, &chosen, &topology, &placed, &saved));
    let threads = threads.transpose()?;
    let task = MoveTask {
        placement: Some(RestoreReport { threads, ..report }),
        selection: args.skip.selection(),
        ..task
    };
    let how = MoveTaskOptions::new(&args.run, settings, &chosen);
    task.execute(machine, &topology, &how, &live)
}

fn check_count(saved: &SavedPlacement, placed: &Placed) -> Result<()> {
    let (then, now) = (saved.processes.len(), placed.processes.len());
    if then == now {
        return Ok(());
    }
    let file = EscapedName::new(&*placed.file);
    let names: Vec<_> = saved.processes.iter().map(|process| process.name.as_str()).collect();
    let of = names.join(", ");
    bail!("{file} has the placement of {then} processes ({of}), and {now} are named; name as many")
}

/// Checks that a process runs the program that was saved.
fn check_program(process: &dyn Process, saved: &PlacedProcess, is_forced: bool) -> Result<()> {
    let name = EscapedName::from(&process.identity()?.name);
    let executable = process.traits()?.executable.as_deref().map(EscapedName::new);
    let is_other = executable.is_some() && saved.executable.is_some();
    if is_forced || name == saved.name && !(is_other && executable != saved.executable) {
        return Ok(());
    }
    let told = |name: &EscapedName, path: &Option<EscapedName>| match path {
        Some(path) => format!("{name} ({path})"),
        None => name.to_string(),
    };
    let (now, then) = (told(&name, &executable), told(&saved.name, &saved.executable));
    let pid = process.pid();
    bail!(
        "process {pid} is {now}, and the placement is of {then}; --force restores it all the same"
    )
}

/// Places the threads, or says what would be tried.
fn threads(
    args: &PlacementRestoreArgs,
    chosen: &SelectedMachine,
    topology: &Topology,
    placed: &Placed,
    saved: &SavedPlacement,
) -> Result<Vec<ThreadRow>> {
    let mode = if args.run.dry_run { ThreadMode::Plan } else { ThreadMode::Place };
    let present = threads_of(chosen.machine(), topology, &placed.processes)?;
    let mut restored = Vec::new();
    for ((process, of), present) in placed.processes.iter().zip(&saved.processes).zip(&present) {
        let outcomes = restore_threads(&**process, &of.threads, present, topology, mode)?;
        let pid = process.pid();
        restored.extend(of.threads.iter().zip(outcomes).map(|(thread, outcome)| ThreadRow {
            pid,
            name: thread.name.clone(),
            outcome,
        }));
    }
    Ok(restored)
}

/// Looks where the memory is, and decides what goes where. `None` if stopped.
fn task(
    placed: &Placed,
    saved: &SavedPlacement,
    chosen: &SelectedMachine,
    topology: &Topology,
    live: &MoveControl,
) -> Result<Option<(MoveTask, RestoreReport)>> {
    let (machine, processes) = (chosen.machine(), &placed.processes);
    let rest = SegmentRest::map_selected(chosen, processes, &placed.selection, live)?;
    let view = |process| MemoryView { process, selection: &placed.selection };
    let mut views: Vec<MemoryView<'_>> = processes.iter().map(view).collect();
    views.extend(rest.as_ref().map(SegmentRest::view));
    let nodes = topology.nodes_with_memory();
    let RestoreOrders { mut orders, found } = restore_orders(machine, &views, saved, &nodes, live)?;
    drop(views);
    if live.is_stopped() {
        return Ok(None);
    }
    let of_rest = orders.split_off(processes.len()).into_iter().next();
    let task = MoveTask {
        segment_rest: SegmentRestMove::new(rest, of_rest, topology),
        ..MoveTask::new(processes.clone(), orders)
    };
    Ok(Some((task, report(placed, saved, found, None))))
}

fn report(
    placed: &Placed,
    saved: &SavedPlacement,
    found: FoundPlacement,
    threads: Option<Vec<ThreadRow>>,
) -> RestoreReport {
    let pid = |index: usize| placed.processes[index].pid();
    RestoreReport {
        file: placed.file.clone(),
        saved_unix_ms: saved.saved_unix_ms,
        nodes: MovedNodes::new(found.before, &found.leaving, &found.arriving),
        missing_nodes: found.missing_nodes,
        not_in_memory: found.not_in_memory,
        not_saved: found.not_saved,
        unmatched: found.unmatched.into_iter().map(|it| (pid(it.process), it)).collect(),
        threads,
    }
}
