//! `nodeward placement save`: writes where memory and threads are into a file.

use anyhow::Result;
use nodeward_machine::{Error, Liveness, Process};
use nodeward_model::Topology;
use nodeward_mover::placement::{PresentThread, SavedMemory, saved_memory};
use nodeward_mover::{MemoryView, MoveControl};
use nodeward_records::placement::{EscapedName, PlacedProcess, SavedMapping, SavedPlacement};

use super::{Placed, by_agent, threads_of};
use crate::args::PlacementSaveArgs;
use crate::machines::SelectedMachine;
use crate::machines::segment_rest::SegmentRest;
use crate::message::exit::Exit;
use crate::output::placement::{SavedReport, print_saved};
use crate::progress::{self, ProgressMode};
use crate::settings::state_dir::now_unix_ms;

/// Saves, and prints what was saved.
pub fn run(args: &PlacementSaveArgs) -> Result<Exit> {
    let chosen = SelectedMachine::open(&args.simulated.machine_args, args.simulated.seed)?;
    let topology = chosen.machine().topology()?;
    let placed = Placed::new(&args.placed, chosen.machine())?;
    let live = MoveControl::default();
    let look = || placement(&placed, &chosen, &topology, &live);
    let saved = progress::run_with_progress(&live, ProgressMode::Never, look)??;
    let Some(saved) = saved else { return Ok(Exit::Interrupted) };
    let bytes = saved.write(&placed.file)?;
    let page_bytes = chosen.machine().page_bytes();
    let report = SavedReport { placement: &saved, file: &placed.file, bytes, page_bytes };
    print_saved(&report, args.output.json)?;
    Ok(Exit::Done)
}

/// Looks where everything is. `None` if stopped.
fn placement(
    placed: &Placed,
    chosen: &SelectedMachine,
    topology: &Topology,
    live: &MoveControl,
) -> Result<Option<SavedPlacement>> {
    let (machine, processes) = (chosen.machine(), &placed.processes);
    let threads = threads_of(machine, topology, processes)?;
    let Some(memory) = memory(placed, chosen, live)? else { return Ok(None) };
    let SavedMemory { mappings, segments } = memory;
    let parts = processes.iter().zip(threads).zip(mappings);
    let saved = parts.map(|((process, threads), mappings)| saved(&**process, threads, mappings));
    let saved = saved.collect::<Result<_, _>>()?;
    Ok(Some(SavedPlacement::new(now_unix_ms(), saved, segments)))
}

/// Looks where the memory is, or lets the agent look. `None` if stopped.
fn memory(
    placed: &Placed,
    chosen: &SelectedMachine,
    live: &MoveControl,
) -> Result<Option<SavedMemory>> {
    if let Some(socket) = &placed.agent {
        return by_agent::saved_memory(placed, socket).map(Some);
    }
    let (machine, processes) = (chosen.machine(), &placed.processes);
    let rest = SegmentRest::map_selected(chosen, processes, &placed.selection, live)?;
    let view = |process| MemoryView { process, selection: &placed.selection };
    let mut views: Vec<MemoryView<'_>> = processes.iter().map(view).collect();
    views.extend(rest.as_ref().map(SegmentRest::view));
    let found = saved_memory(machine, &views, processes.len(), usize::MAX, live)?;
    Ok((!live.is_stopped()).then_some(found))
}

/// A process that ended meanwhile has nothing to keep.
fn saved(
    process: &dyn Process,
    threads: Vec<PresentThread>,
    mappings: Vec<SavedMapping>,
) -> Result<PlacedProcess, Error> {
    let (identity, traits) = (process.identity()?, process.traits()?);
    if process.liveness() != Liveness::Running {
        return Err(Error::Gone(process.pid()));
    }
    Ok(PlacedProcess {
        pid: process.pid(),
        name: EscapedName::from(&identity.name),
        executable: traits.executable.as_deref().map(EscapedName::new),
        threads: threads.into_iter().map(|it| it.thread).collect(),
        mappings,
    })
}
