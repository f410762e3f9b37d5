//! `nodeward move PID [FROM] TO --addresses FILE`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use nodeward_engine::Order;
use nodeward_engine::list::{PhysicalList, VirtualList};
use nodeward_model::nodestring::Context as Names;
use nodeward_model::{Escape as _, NodePairs, Topology};
use nodeward_samples::{addresses, source};

use crate::args::MoveArgs;
use crate::machine::Chosen;
use crate::nodes;
use crate::task::Task;

/// Creates the task for the pages of one process that a list names.
pub fn task(args: &MoveArgs, list: &Path, chosen: &Chosen, topology: &Topology) -> Result<Task> {
    let machine = chosen.machine();
    let (pid, pairs) = words(&args.words, topology, &chosen.node_names(topology)?)?;
    let process = machine.hold(pid.parse()?)?;
    let input = source::input(list)?;
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
    if counts.read() == 0 {
        bail!("the list {} names no address; one line each, such as 7f0000001000", name(list));
    }
    let orders = vec![[Order { pairs, pages: Some(pages) }].into()];
    Ok(Task { list: Some(counts), ..Task::new(vec![process], orders) })
}

fn words<'a>(
    words: &'a [String],
    topology: &Topology,
    names: &Names,
) -> Result<(&'a str, NodePairs)> {
    match words {
        [pid, to] => Ok((pid, nodes::pairs_from_elsewhere(to, topology, names)?)),
        [pid, from, to] => Ok((pid, nodes::pairs(from, to, topology, names)?)),
        _ => bail!("--addresses takes one process: nodeward move PID TO --addresses FILE"),
    }
}

fn name(list: &Path) -> String {
    if list == Path::new("-") {
        return "on standard input".to_owned();
    }
    format!("'{}'", list.escaped())
}
