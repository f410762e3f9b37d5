//! Placements with `--agent`: the agent looks where memory is, and moves it. Programs and threads
//! are ours to see and to place.

use std::path::Path;

use anyhow::{Result, ensure};
use nodeward_agent::client::Client;
use nodeward_agent::limits::MESSAGE_BYTES_MAX;
use nodeward_agent::wire::Order;
use nodeward_model::Pid;
use nodeward_model::units::format_bytes;
use nodeward_mover::placement::{FoundPlacement, SavedMemory};
use nodeward_records::placement::{EscapedName, SavedPlacement};

use super::Placed;
use crate::args::PlacementRestoreArgs;
use crate::message::exit::Exit;
use crate::output::placement::{RestoreReport, ThreadRow};
use crate::settings::MoveSettings;
use crate::verbs::by_agent::{AgentRun, carry_out_or_plan, limits};

/// Bytes of a request beside its order.
const ENVELOPE_BYTES: usize = 1 << 10;

/// Returns where the memory is, as the agent sees it.
pub fn saved_memory(placed: &Placed, socket: &Path) -> Result<SavedMemory> {
    let found = Client::connect(socket)?.saved_memory(&pids(placed), &placed.selection.kinds)?;
    let (listed, named) = (found.mappings.len(), placed.processes.len());
    ensure!(listed == named, "the agent tells of {listed} processes instead of {named}");
    Ok(found)
}

/// Restores memory, or reports what that would do. `threads` places the threads; it is called once
/// the agent has moved the memory, so that a refused or stopped move leaves them where they are.
/// `report` says what of the placement was found.
pub fn restore(
    args: &PlacementRestoreArgs,
    settings: &MoveSettings,
    (placed, saved, socket): (&Placed, &SavedPlacement, &Path),
    threads: impl Fn() -> Result<Vec<ThreadRow>>,
    report: impl Fn(FoundPlacement, Option<Vec<ThreadRow>>) -> RestoreReport,
) -> Result<Exit> {
    let run = AgentRun::new(&args.run, socket)?;
    let order = order(limits(settings, args.skip), placed, saved)?;
    let report = |found, is_stopped: bool| {
        let are_wanted = args.threads && !is_stopped;
        Ok(report(found, are_wanted.then(&threads).transpose()?))
    };
    carry_out_or_plan(order, &pids(placed), &run.of_placement(&report))
}

fn pids(placed: &Placed) -> Vec<Pid> {
    placed.processes.iter().map(|process| process.pid()).collect()
}

/// Returns the order, with what of the placement is about memory that is selected.
fn order(limits: Order, placed: &Placed, saved: &SavedPlacement) -> Result<Order> {
    let kinds = &placed.selection.kinds;
    let mut saved = saved.clone();
    for process in &mut saved.processes {
        process.threads.clear();
        process.mappings.retain(|mapping| kinds.contains(&mapping.kind));
    }
    let order = Order {
        pids: Some(pids(placed)),
        placement: Some(serde_json::to_value(saved)?),
        kinds: Some(kinds.iter().map(|kind| kind.name().to_owned()).collect()),
        ..limits
    };
    let bytes = serde_json::to_vec(&order)?.len();
    ensure!(
        bytes + ENVELOPE_BYTES <= MESSAGE_BYTES_MAX,
        "{} has {} about memory, and the agent takes {}, because neighbouring pages are on \
         different nodes; restore fewer processes, or less of them (--only), or as root without \
         --agent",
        EscapedName::new(&*placed.file),
        format_bytes(bytes as u64),
        format_bytes(MESSAGE_BYTES_MAX as u64),
    );
    Ok(order)
}
