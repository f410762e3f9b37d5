//! Checks that a machine is possible.

use nodeward_model::{CpuId, Cpumask};

use super::invalid_value::{InvalidValue, ValuePath, ensure};
use crate::limits::{
    COST_NS_MAX, CPUS_MAX, DISTANCE, LINKS_MAX, MEMORY_BYTES_MAX, NODES_MAX, RATE,
    THREADS_PER_CORE_MAX,
};
use crate::machine::LOCAL_DISTANCE;
use crate::{LinkSpec, MachineSpec, NodeSpec, Params, exact};

pub(super) fn check(machine: &MachineSpec) -> Result<(), InvalidValue> {
    params(&machine.params)?;
    nodes(machine)?;
    cpus(machine)?;
    memory(machine)?;
    distances(machine)?;
    let links = machine.links.len();
    let expected = format!("{LINKS_MAX} at most");
    let spot = ValuePath::of("link", LINKS_MAX, "from");
    ensure(links <= LINKS_MAX, spot, || format!("{links} links"), expected)?;
    machine.links.iter().enumerate().try_for_each(|(index, each)| link(machine, index, each))
}

fn params(params: &Params) -> Result<(), InvalidValue> {
    for info in Params::TABLE {
        let value = params.get(info.name).unwrap_or(info.default);
        ensure(
            info.range().contains(&value),
            ValuePath::machine(info.name),
            || format!("`{}` is {}", info.name, info.format_exact(value)),
            info.expected(),
        )?;
    }
    for (name, value) in [("page", params.page_bytes), ("line", params.line_bytes)] {
        let what = || format!("`{name}` is {}", exact::bytes(value));
        ensure(value.is_power_of_two(), ValuePath::machine(name), what, "a power of two")?;
    }
    let (high, max) = (params.pcp_high, params.pcp_high_max);
    ensure(
        max == 0 || high <= max,
        ValuePath::machine("pcp-high"),
        || format!("`pcp-high` is {high}, more than `pcp-high-max`, {max}"),
        format!("{max} at most"),
    )?;
    let empty = params.sources.iter().find(|(_, source)| source.trim().is_empty());
    let name = empty.map_or("", |(name, _)| name);
    let what = || format!("the source of `{name}` is empty");
    ensure(empty.is_none(), ValuePath::machine(name), what, "where the value comes from")
}

fn nodes(machine: &MachineSpec) -> Result<(), InvalidValue> {
    let count = machine.nodes.len();
    ensure(
        count > 0,
        ValuePath::root("node"),
        || "the machine has no node".to_owned(),
        "at least one table [[node]] with id, cpus and memory",
    )?;
    ensure(
        count <= NODES_MAX,
        ValuePath::of("node", NODES_MAX, "id"),
        || format!("{count} nodes"),
        format!("{NODES_MAX} at most"),
    )?;
    machine.nodes.iter().enumerate().try_for_each(|(index, each)| node(machine, index, each))
}

fn node(machine: &MachineSpec, index: usize, node: &NodeSpec) -> Result<(), InvalidValue> {
    let id = node.id;
    let last = index.checked_sub(1).map(|last| machine.nodes[last].id);
    ensure(
        last.is_none_or(|last| last < id),
        ValuePath::of("node", index, "id"),
        || match last.filter(|&last| last != id) {
            Some(last) => format!("node {id} stands behind node {last}"),
            None => format!("there are two nodes {id}"),
        },
        "the nodes by ascending id, each once",
    )?;
    ensure(
        node.memory_bytes > 0 || !node.cpus.is_empty(),
        ValuePath::of("node", index, "memory"),
        || format!("node {id} has neither memory nor CPUs"),
        "one of them, or no such table, which makes a hole in the ids",
    )?;
    let page = machine.params.page_bytes;
    ensure(
        node.memory_bytes <= MEMORY_BYTES_MAX && node.memory_bytes.is_multiple_of(page),
        ValuePath::of("node", index, "memory"),
        || format!("node {id} has {}", exact::bytes(node.memory_bytes)),
        format!("whole pages of {}, up to {}", exact::bytes(page), exact::bytes(MEMORY_BYTES_MAX)),
    )?;
    threads(index, node)?;
    let spot = |key| ValuePath::of("node", index, key);
    latency_and_bandwidth(spot, node.latency_ns, node.bandwidth_bytes_per_s)
}

fn threads(index: usize, node: &NodeSpec) -> Result<(), InvalidValue> {
    let (each, cpus) = (node.threads_per_core, node.cpus.len());
    ensure(
        (1..=THREADS_PER_CORE_MAX).contains(&each) && cpus.is_multiple_of(each as usize),
        ValuePath::of("node", index, "threads-per-core"),
        || format!("{each} threads a core with {cpus} CPUs"),
        format!("1 to {THREADS_PER_CORE_MAX}, such that all cores have as many"),
    )
}

/// Checks the latency and bandwidth of a node or a link.
fn latency_and_bandwidth(
    spot: impl Fn(&'static str) -> ValuePath,
    latency_ns: Option<u64>,
    bandwidth: Option<u64>,
) -> Result<(), InvalidValue> {
    ensure(
        latency_ns.is_none_or(|ns| (1..=COST_NS_MAX).contains(&ns)),
        spot("latency"),
        || format!("a latency of {}", exact::ns(latency_ns.unwrap_or(0))),
        format!("1ns to {}", exact::ns(COST_NS_MAX)),
    )?;
    ensure(
        bandwidth.is_none_or(|rate| RATE.contains(&rate)),
        spot("bandwidth"),
        || format!("a bandwidth of {}", exact::rate(bandwidth.unwrap_or(0))),
        format!("{} to {}", exact::rate(*RATE.start()), exact::rate(*RATE.end())),
    )
}

/// Checks that CPU numbers start at 0 and have no holes, on whatever nodes they are.
fn cpus(machine: &MachineSpec) -> Result<(), InvalidValue> {
    let mut seen = Cpumask::new();
    for (index, node) in machine.nodes.iter().enumerate() {
        let twice = node.cpus.and(&seen).first();
        let spot = ValuePath::of("node", index, "cpus");
        let what = || twice.map(|cpu| on_two_nodes(machine, index, cpu)).unwrap_or_default();
        ensure(twice.is_none(), spot, what, "every CPU on one node")?;
        seen.extend(node.cpus.iter());
    }
    let last = machine.nodes.len() - 1;
    let (spot, none) =
        (ValuePath::of("node", last, "cpus"), || "the machine has no CPU".to_owned());
    ensure(!seen.is_empty(), spot, none, "a CPU at least")?;
    let count = u32::try_from(seen.len()).unwrap_or(u32::MAX);
    let many = || format!("the machine has {count} CPUs");
    ensure(count <= CPUS_MAX, spot, many, format!("{CPUS_MAX} at most"))?;
    let hole = (0..count).map(CpuId).find(|&cpu| !seen.contains(cpu));
    let missing = || hole.map(|cpu| format!("CPU {cpu} belongs to no node")).unwrap_or_default();
    ensure(hole.is_none(), spot, missing, "CPU numbers that run from 0 without a hole")
}

fn on_two_nodes(machine: &MachineSpec, index: usize, cpu: CpuId) -> String {
    let first = machine.nodes.iter().find(|node| node.cpus.contains(cpu));
    let first = first.map_or(machine.nodes[index].id, |node| node.id);
    format!("CPU {cpu} is on node {} and on node {first}", machine.nodes[index].id)
}

fn memory(machine: &MachineSpec) -> Result<(), InvalidValue> {
    let add = |sum: u64, node: &NodeSpec| sum.saturating_add(node.memory_bytes);
    let total = machine.nodes.iter().fold(0, add);
    ensure(
        (1..=MEMORY_BYTES_MAX).contains(&total),
        ValuePath::of("node", machine.nodes.len() - 1, "memory"),
        || format!("the machine has {} of memory", exact::bytes(total)),
        format!("some, and {} at most", exact::bytes(MEMORY_BYTES_MAX)),
    )
}

fn distances(machine: &MachineSpec) -> Result<(), InvalidValue> {
    let (rows, count) = (&machine.distances, machine.nodes.len());
    ensure(
        rows.len() == count,
        ValuePath::root("distances"),
        || format!("{} rows of distances", rows.len()),
        format!("{count}, one for each node"),
    )?;
    for (index, row) in rows.iter().enumerate() {
        let from = machine.nodes[index].id;
        ensure(
            row.len() == count,
            ValuePath::row(index),
            || format!("{} distances from node {from}", row.len()),
            format!("{count}, one to each node"),
        )?;
        let mut each = row.iter().enumerate();
        each.try_for_each(|(to, &value)| distance(machine, (index, to), value))?;
    }
    Ok(())
}

fn distance(
    machine: &MachineSpec,
    (from, to): (usize, usize),
    distance: u32,
) -> Result<(), InvalidValue> {
    let id = |index: usize| machine.nodes[index].id;
    let what = || format!("the distance from node {} to node {} is {distance}", id(from), id(to));
    if from == to {
        let expected = format!("{LOCAL_DISTANCE}, as of every node to itself");
        return ensure(distance == LOCAL_DISTANCE, ValuePath::row(from), what, expected);
    }
    let expected = format!("{} to {}", DISTANCE.start(), DISTANCE.end());
    ensure(DISTANCE.contains(&distance), ValuePath::row(from), what, expected)
}

fn link(machine: &MachineSpec, index: usize, link: &LinkSpec) -> Result<(), InvalidValue> {
    for (key, id) in [("from", link.from), ("to", link.to)] {
        let ids = machine.nodes.iter().map(|node| node.id).collect::<nodeward_model::Nodemask>();
        let what = || format!("there is no node {id}");
        let expected = format!("one of the nodes {ids}");
        ensure(ids.contains(id), ValuePath::of("link", index, key), what, expected)?;
    }
    ensure(
        link.from != link.to,
        ValuePath::of("link", index, "to"),
        || format!("a link from node {} to itself", link.from),
        "two nodes; what a node's own CPUs see is in its table",
    )?;
    let ends = (link.from, link.to);
    ensure(
        machine.links[..index].iter().all(|other| (other.from, other.to) != ends),
        ValuePath::of("link", index, "from"),
        || format!("a second link from node {} to node {}", link.from, link.to),
        "each direction once",
    )?;
    ensure(
        link.latency_ns.is_some() || link.bandwidth_bytes_per_s.is_some(),
        ValuePath::of("link", index, "latency"),
        || "the link says nothing".to_owned(),
        "a latency, a bandwidth, or both",
    )?;
    latency_and_bandwidth(
        |key| ValuePath::of("link", index, key),
        link.latency_ns,
        link.bandwidth_bytes_per_s,
    )
}
