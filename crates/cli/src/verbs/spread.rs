//! `nodeward spread`: evens out memory of processes over nodes, or says what would be moved.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use nodeward_machine::Process;
use nodeward_model::units::format_bytes;
use nodeward_model::{MappingKind, NodeId, Nodemask, Pid, Topology};
use nodeward_mover::spread::{SpreadOrders, SpreadSurvey};
use nodeward_mover::{MemoryView, MoveControl, Selection};
use nodeward_policy::spread::Weights;

use crate::args::SpreadArgs;
use crate::machines::SelectedMachine;
use crate::machines::node_pairs;
use crate::machines::segment_rest::{SegmentRest, SegmentRestMove};
use crate::message::exit::Exit;
use crate::output::spread::SpreadReport;
use crate::progress::{self, ProgressMode};
use crate::results::MovedNodes;
use crate::settings::MoveSettings;
use crate::verbs::move_task::{MoveTask, MoveTaskOptions, stopped_before};
use crate::verbs::process_selection::{hold, select_processes};

/// Larger blocks are refused, in bytes: four times the largest huge page of any architecture.
const BLOCK_BYTES_MAX: u64 = 64 << 30;

/// Spreads memory, or reports what that would do.
pub fn run(args: &SpreadArgs, settings: &MoveSettings) -> Result<Exit> {
    let chosen = SelectedMachine::open(&args.run.simulated.machine_args, args.run.simulated.seed)?;
    let live = chosen.control(args.run.until.deadline);
    let machine = chosen.machine();
    let topology = machine.topology()?;
    check_block(args.block, machine.page_bytes())?;
    let (pids, weights) = parse_operands(args, &chosen, &topology)?;
    let selected = select_processes(&args.name, &args.cgroup, pids.clone())?;
    let job = SpreadJob {
        chosen: &chosen,
        topology: &topology,
        processes: hold(machine, &selected, &pids)?,
        selection: Selection { kinds: kinds(args), ..Selection::default() },
        weights,
        block_bytes: args.block,
    };
    let task = progress::run_with_progress(&live, ProgressMode::Never, || job.task(&live))??;
    let Some(task) = task.filter(|_| !live.is_stopped()) else {
        return Ok(stopped_before(&live));
    };
    let how = MoveTaskOptions::new(&args.run, settings, &chosen);
    task.execute(machine, &topology, &how, &live)
}

fn check_block(block_bytes: u64, page_bytes: u64) -> Result<()> {
    if block_bytes == 0 || !block_bytes.is_multiple_of(page_bytes) {
        let page = format_bytes(page_bytes);
        bail!("--block is {block_bytes} bytes; it must be a multiple of the page size, {page}");
    }
    if block_bytes > BLOCK_BYTES_MAX {
        bail!("--block must be {} or less", format_bytes(BLOCK_BYTES_MAX));
    }
    Ok(())
}

/// Parses `PID... NODES`, with the weights.
fn parse_operands(
    args: &SpreadArgs,
    chosen: &SelectedMachine,
    topology: &Topology,
) -> Result<(Vec<Pid>, Weights)> {
    let [pids @ .., text] = &args.operands[..] else { bail!("NODES are missing") };
    if pids.is_empty() && args.name.is_empty() && args.cgroup.is_empty() {
        bail!("no process is named: give a PID, --name or --cgroup before '{text}'");
    }
    let pids = pids.iter().map(|pid| Ok(pid.parse()?)).collect::<Result<Vec<Pid>>>()?;
    let names = chosen.node_names(topology)?;
    let nodes = node_pairs::parse_destinations("NODES", text, topology, &names)?;
    if let [node] = nodes[..] {
        bail!(
            "NODES is node {node} alone; to bring memory there use nodeward move PID... FROM {node}"
        );
    }
    Ok((pids, weights(&nodes, &args.weights)?))
}

fn weights(nodes: &[NodeId], given: &[u32]) -> Result<Weights> {
    let equal = vec![1; nodes.len()];
    let given = if given.is_empty() { &equal[..] } else { given };
    if given.len() != nodes.len() {
        let mask: Nodemask = nodes.iter().copied().collect();
        let (weights, nodes) = (given.len(), nodes.len());
        bail!("--weights has {weights} numbers, for {nodes} nodes ({mask}); give one for each");
    }
    Ok(Weights::new(nodes.iter().copied().zip(given.iter().copied()))?)
}

/// Private mappings of files are mostly programs and libraries, which many processes share.
fn kinds(args: &SpreadArgs) -> BTreeSet<MappingKind> {
    match args.only.is_empty() {
        true => MappingKind::ALL.into_iter().filter(|kind| *kind != MappingKind::File).collect(),
        false => args.only.iter().copied().collect(),
    }
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
        // Without knowledge of the room, the kernel refuses what finds none.
        let room = machine.headroom().unwrap_or_default();
        let room = room.into_iter().map(|(node, room)| (node, room.free_pages)).collect();
        Ok(Some(self.task_of(survey.orders(&self.weights, &room), rest)))
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
            ..MoveTask::new(self.processes.clone(), found.orders)
        }
    }
}
