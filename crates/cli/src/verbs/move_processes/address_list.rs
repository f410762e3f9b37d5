//! `nodeward move PID [FROM] TO --addresses FILE`: moves the pages that a list names.

use std::path::Path;

use anyhow::{Context, Result, bail};
use nodeward_model::{Escape as _, NodePairs, Topology};
use nodeward_mover::MoveOrder;
use nodeward_mover::address_list::{PhysicalList, VirtualList};
use nodeward_samples::{addresses, source};

use crate::args::MoveArgs;
use crate::machines::node_pairs;
use crate::machines::{NodeNames, SelectedMachine};
use crate::verbs::move_task::MoveTask;

/// Creates the task for the pages of one process that a list names.
pub fn task(
    args: &MoveArgs,
    list: &Path,
    chosen: &SelectedMachine,
    topology: &Topology,
) -> Result<MoveTask> {
    let machine = chosen.machine();
    let (pid, pairs) = parse_operands(&args.operands, topology, &chosen.node_names(topology)?)?;
    let process = machine.open_process(pid.parse()?)?;
    let input = source::open_input(list)?;
    let entries = addresses::read(input)
        .map(|entry| entry.with_context(|| format!("the list {} is wrong", name(list))));
    let (pages, counts) = if args.physical {
        let mut frames = PhysicalList::new(machine)?;
        entries.into_iter().try_for_each(|entry| entry.map(|address| frames.add(address)))?;
        frames.find(&*process)?
    } else {
        let mut pages = VirtualList::new(machine, &*process)?;
        entries.into_iter().try_for_each(|entry| entry.map(|address| pages.add(address)))?;
        pages.finish()
    };
    if counts.entries() == 0 {
        bail!("the list {} names no address; one line each, such as 7f0000001000", name(list));
    }
    let orders = vec![[MoveOrder { pairs, pages: Some(pages) }].into()];
    let selection = args.skip.selection();
    Ok(MoveTask { list: Some(counts), selection, ..MoveTask::new(vec![process], orders) })
}

fn parse_operands<'a>(
    words: &'a [String],
    topology: &Topology,
    names: &NodeNames<'_>,
) -> Result<(&'a str, NodePairs)> {
    match words {
        [pid, to] => Ok((pid, node_pairs::parse_pairs_from_all_others(to, topology, names)?)),
        [pid, from, to] => Ok((pid, node_pairs::parse_pairs(from, to, topology, names)?)),
        _ => bail!("--addresses takes one process: nodeward move PID TO --addresses FILE"),
    }
}

fn name(list: &Path) -> String {
    if list == Path::new("-") {
        return "on standard input".to_owned();
    }
    format!("'{}'", list.escaped())
}
