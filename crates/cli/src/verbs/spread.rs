//! `nodeward spread`: evens out memory of processes over nodes, or says what would be moved.

use std::sync::Arc;

use anyhow::Result;
use nodeward_machine::Process;
use nodeward_model::Topology;
use nodeward_mover::spread::{SpreadOrders, SpreadSurvey};
use nodeward_mover::{MemoryView, MoveControl, Selection};
use nodeward_policy::spread::Weights;

use crate::args::SpreadArgs;
use crate::machines::SelectedMachine;
use crate::machines::segment_rest::{SegmentRest, SegmentRestMove};
use crate::message::exit::Exit;
use crate::output::spread::SpreadReport;
use crate::progress::{self, ProgressMode};
use crate::results::MovedNodes;
use crate::settings::MoveSettings;
use crate::verbs::by_agent;
use crate::verbs::move_task::{MoveTask, MoveTaskOptions, stopped_before};
use crate::verbs::process_selection::{hold, select_processes};
use crate::verbs::spread_operands::SpreadOperands;

/// Spreads memory, or reports what that would do.
pub fn run(args: &SpreadArgs, settings: &MoveSettings) -> Result<Exit> {
    if let Some(socket) = &args.by.agent {
        return by_agent::spread(args, settings, socket);
    }
    let chosen = SelectedMachine::open(&args.run.simulated.machine_args, args.run.simulated.seed)?;
    let live = chosen.control(args.run.until.deadline);
    let machine = chosen.machine();
    let topology = machine.topology()?;
    let SpreadOperands { pids, shares, kinds } = SpreadOperands::parse(args, &chosen, &topology)?;
    let selected = select_processes(&args.name, &args.cgroup, pids.clone())?;
    let job = SpreadJob {
        chosen: &chosen,
        topology: &topology,
        processes: hold(machine, &selected, &pids)?,
        selection: Selection { kinds, ..args.skip.selection() },
        weights: Weights::new(shares)?,
        block_bytes: args.block,
    };
    let task = progress::run_with_progress(&live, ProgressMode::Never, || job.task(&live))??;
    let Some(task) = task.filter(|_| !live.is_stopped()) else {
        return Ok(stopped_before(&live));
    };
    let how = MoveTaskOptions::new(&args.run, settings, &chosen);
    task.execute(machine, &topology, &how, &live)
}

/// The memory that is to be spread, and the options.
struct SpreadJob<'a> {
    chosen: &'a SelectedMachine,
    topology: &'a Topology,
    processes: Vec<Arc<dyn Process>>,
    selection: Selection,
    weights: Weights,
    block_bytes: u64,
}

impl SpreadJob<'_> {
    /// Looks where the memory is, and decides what goes where. `None` if stopped.
    fn task(&self, live: &MoveControl) -> Result<Option<MoveTask>> {
        let machine = self.chosen.machine();
        let rest = SegmentRest::map_selected(self.chosen, &self.processes, &self.selection, live)?;
        let view = |process| MemoryView { process, selection: &self.selection };
        let mut views: Vec<MemoryView<'_>> = self.processes.iter().map(view).collect();
        views.extend(rest.as_ref().map(SegmentRest::view));
        let survey = SpreadSurvey::new(machine, &views, self.block_bytes, live)?;
        drop(views);
        if live.is_stopped() {
            return Ok(None);
        }
        Ok(Some(self.task_of(survey.orders_for_room(machine, &self.weights), rest)))
    }

    fn task_of(&self, mut found: SpreadOrders, rest: Option<SegmentRest>) -> MoveTask {
        let of_rest = found.orders.split_off(self.processes.len()).into_iter().next();
        let spread = SpreadReport {
            weights: self.weights.clone(),
            block_bytes: self.block_bytes,
            mappings: found.stretches,
            uneven: found.uneven,
            nodes: MovedNodes::new(found.before, &found.leaving, &found.arriving),
        };
        MoveTask {
            spread: Some(spread),
            segment_rest: SegmentRestMove::new(rest, of_rest, self.topology),
            selection: self.selection.clone(),
            ..MoveTask::new(self.processes.clone(), found.orders)
        }
    }
}
