//! Reads nodes, links, distances and parameters.

use nodeward_model::{CpuId, Cpumask};

use super::fields::read_tables;
use crate::error::SourceError;
use crate::limits::{CPUS_MAX, NODES_MAX};
use crate::machine::{DEFAULT_REMOTE_DISTANCE, LOCAL_DISTANCE};
use crate::params::ParamInfo;
use crate::toml_tree::{TomlItem, TomlTable, TomlValue};
use crate::{LinkSpec, MachineSpec, NodeSpec, Params};

pub(crate) const NODE_KEYS: &[&str] =
    &["id", "cpus", "memory", "threads-per-core", "latency", "bandwidth"];
pub(crate) const LINK_KEYS: &[&str] = &["from", "to", "latency", "bandwidth"];

const SYMMETRIC: &str = "true, or false where a distance depends on the direction on purpose";
const CPUS: &str = "a count such as 4 or a list such as \"0-3,8\"";
const ROWS: &str = "a row for each node, such as [[10, 21], [21, 10]]";
const PARAMETER: &str =
    "`latency = \"85ns\"` or `latency = { value = \"85ns\", source = \"...\" }`";

pub(super) fn machine(root: &TomlTable) -> Result<MachineSpec, SourceError> {
    let nodes = nodes(root)?;
    Ok(MachineSpec {
        distances: distances(root, &nodes)?,
        links: read_tables(root, "link", link)?,
        params: root.optional("machine", params)?.unwrap_or_default(),
        nodes,
    })
}

fn nodes(root: &TomlTable) -> Result<Vec<NodeSpec>, SourceError> {
    let mut nodes: Vec<NodeSpec> = Vec::new();
    let mut next_cpu = 0;
    let tables = root.optional("node", TomlItem::tables)?.unwrap_or_default();
    for table in tables {
        let node = node(table, next_cpu)?;
        next_cpu += u32::try_from(node.cpus.len()).unwrap_or(CPUS_MAX);
        nodes.push(node);
    }
    Ok(nodes)
}

fn node(table: &TomlTable, next_cpu: u32) -> Result<NodeSpec, SourceError> {
    table.reject_unknown_keys(&[NODE_KEYS])?;
    let cpus = |item: &TomlItem| cpus(item, next_cpu);
    Ok(NodeSpec {
        id: table.required("id", "the node's number, such as `id = 0`", TomlItem::node)?,
        cpus: table.required("cpus", CPUS, cpus)?,
        threads_per_core: table.count("threads-per-core")?.unwrap_or(1),
        memory_bytes: table.required(
            "memory",
            "a size such as `memory = \"4GiB\"`",
            TomlItem::bytes,
        )?,
        latency_ns: table.time("latency")?,
        bandwidth_bytes_per_s: table.rate("bandwidth")?,
    })
}

/// Reads CPUs: a count, numbered on from the node before, or a list.
fn cpus(item: &TomlItem, next: u32) -> Result<Cpumask, SourceError> {
    let TomlValue::Number(..) = item.value else {
        let text = matches!(item.value, TomlValue::Text(_));
        return if text { item.mask(CPUS_MAX) } else { Err(item.error(CPUS)) };
    };
    let room = CPUS_MAX.saturating_sub(next);
    let expected = format!("a count up to {room}, as a machine has {CPUS_MAX} CPUs at most");
    let count: u32 = item.number(&expected)?;
    if count > room {
        Err(item.error(expected))
    } else {
        Ok((next..next + count).map(CpuId).collect())
    }
}

fn link(table: &TomlTable) -> Result<LinkSpec, SourceError> {
    table.reject_unknown_keys(&[LINK_KEYS])?;
    let end = |key, whose: &str| table.required(key, whose, TomlItem::node);
    Ok(LinkSpec {
        from: end("from", "the node whose CPUs reach over the link, such as `from = 0`")?,
        to: end("to", "the node whose memory they reach, such as `to = 1`")?,
        latency_ns: table.time("latency")?,
        bandwidth_bytes_per_s: table.rate("bandwidth")?,
    })
}

fn distances(root: &TomlTable, nodes: &[NodeSpec]) -> Result<Vec<Vec<u32>>, SourceError> {
    let symmetric = root.optional("symmetric", |item| item.flag(SYMMETRIC))?.unwrap_or(true);
    let Some(item) = root.items.get("distances") else {
        return Ok(uniform_distances(nodes.len().min(NODES_MAX)));
    };
    let rows: Vec<Vec<u32>> = item.list(ROWS)?.iter().map(row).collect::<Result<_, _>>()?;
    if symmetric && rows.len() == nodes.len() && nodes.len() <= NODES_MAX {
        check_symmetry(item, nodes, &rows)?;
    }
    Ok(rows)
}

fn row(item: &TomlItem) -> Result<Vec<u32>, SourceError> {
    item.list(ROWS)?.iter().map(|each| each.number("distances, such as 10 or 21")).collect()
}

/// Refuses distances that depend on the direction: they are more often a mistake than a real
/// machine.
fn check_symmetry(
    item: &TomlItem,
    nodes: &[NodeSpec],
    rows: &[Vec<u32>],
) -> Result<(), SourceError> {
    let distance = |from: usize, to: usize| rows[from].get(to).copied().unwrap_or(0);
    for (from, item) in item.list(ROWS)?.iter().enumerate() {
        let Some(to) = (0..from).find(|&to| distance(from, to) != distance(to, from)) else {
            continue;
        };
        let (there, back) = (distance(from, to), distance(to, from));
        let (from, to) = (nodes[from].id, nodes[to].id);
        let what = format!("node {from} to node {to} is {there}, and {back} the other way");
        let expected = "the same in both directions, or `symmetric = false`";
        return Err(SourceError::new(&item.location, what, expected));
    }
    Ok(())
}

fn uniform_distances(nodes: usize) -> Vec<Vec<u32>> {
    let distance = |from, to| if from == to { LOCAL_DISTANCE } else { DEFAULT_REMOTE_DISTANCE };
    (0..nodes).map(|from| (0..nodes).map(|to| distance(from, to)).collect()).collect()
}

fn params(item: &TomlItem) -> Result<Params, SourceError> {
    let table = item.as_table().ok_or_else(|| item.error("a table, headed [machine]"))?;
    let names: Vec<_> = Params::TABLE.iter().map(|info| info.name).collect();
    table.reject_unknown_keys(&[&names])?;
    let mut params = Params::default();
    for info in Params::TABLE {
        if let Some(item) = table.items.get(info.name) {
            param(&mut params, info, item)?;
        }
    }
    Ok(params)
}

fn param(params: &mut Params, info: &ParamInfo, item: &TomlItem) -> Result<(), SourceError> {
    let (value, source) = match item.as_table() {
        None => (item, item.override_source()),
        Some(table) => {
            table.reject_unknown_keys(&[&["value", "source"]])?;
            (table.required("value", PARAMETER, Ok)?, table.text("source")?)
        }
    };
    let text = value.scalar().ok_or_else(|| value.error(PARAMETER))?;
    let expected = |_| {
        let shown = format!("`{}` is '{text}'", info.name);
        SourceError::new(&value.location, shown, info.expected())
    };
    params.set(info.name, text, source).map_err(expected)
}
