//! `nodeward undo`: takes a move back.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use nodeward_linux::Linux;
use nodeward_machine::{Error, Machine, Process};
use nodeward_model::ProcessIdentity;
use nodeward_mover::{MoveControl, MoveDeadline, undo};
use nodeward_records::ledger::{Operation, OperationId, OperationState};

use crate::args::UndoArgs;
use crate::message::exit::Exit;
use crate::settings::MoveSettings;
use crate::settings::state_dir;
use crate::verbs::by_agent;
use crate::verbs::move_task::{MoveTask, MoveTaskOptions};

/// Undoes an operation.
pub fn run(args: &UndoArgs, settings: MoveSettings) -> Result<Exit> {
    if let Some(socket) = &args.agent {
        return by_agent::undo(args, &settings, socket);
    }
    let live = MoveControl::until(args.until.deadline.map(MoveDeadline::in_real_time));
    let machine = Linux::open();
    let task = MoveTask { selection: args.skip.selection(), ..task_of(args.id, &machine)? };
    let topology = machine.topology()?;
    let how = MoveTaskOptions {
        settings,
        dry_run: args.dry_run,
        progress: args.progress.mode(),
        json: args.output.json,
        writes_ledger: true,
    };
    task.execute(&machine, &topology, &how, &live)
}

/// Returns the task that takes an operation back, and reports gaps in its ledger.
///
/// # Errors
/// If it is not there, still running, or its processes are gone.
pub(super) fn task_of(id: OperationId, machine: &Linux) -> Result<MoveTask> {
    let operation = state_dir::ledgers()?.read(id)?;
    if operation.state == OperationState::Running {
        bail!("operation {id} is still running; stop it (Ctrl-C), or wait for its end");
    }
    warn(&operation);
    task(&operation, machine)
}

/// Reports gaps in the ledger.
fn warn(operation: &Operation) {
    let id = operation.id;
    if let Some(damage) = &operation.damage {
        say!(
            "nodeward: the ledger of operation {id} is damaged ({damage}); what it tells \
                   before that is taken back"
        );
    }
    if !operation.is_complete {
        say!("nodeward: operation {id} moved more than its ledger holds; the rest stays");
    }
}

fn task(operation: &Operation, machine: &Linux) -> Result<MoveTask> {
    let (mut processes, mut orders) = (Vec::new(), Vec::new());
    let mut last_gone = None;
    for (identity, moved) in operation.header.processes.iter().zip(&operation.processes) {
        match open_same_process(machine, identity) {
            Ok(process) => {
                orders.push(undo::orders_of_process(&*process, moved, machine.page_bytes())?);
                processes.push(process);
            }
            Err(error) if error.is_gone() => {
                let (pid, name) = (identity.pid, &identity.name);
                say!("nodeward: process {pid} ({name}) is gone; nothing of it is left to undo");
                last_gone = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let (true, Some(gone)) = (processes.is_empty(), last_gone) {
        return Err(gone).context(format!("operation {} cannot be undone", operation.id));
    }
    Ok(MoveTask { undoes: Some(operation.id), ..MoveTask::new(processes, orders) })
}

/// Opens the process that was moved. Another process with its pid, or another program in it, is
/// refused.
fn open_same_process(
    machine: &Linux,
    identity: &ProcessIdentity,
) -> Result<Arc<dyn Process>, Error> {
    let process = machine.open_process(identity.pid)?;
    match process.identity()?.is_same(identity) {
        true => Ok(process),
        false => Err(Error::Gone(identity.pid)),
    }
}
