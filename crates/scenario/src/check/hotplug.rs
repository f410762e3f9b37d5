//! Checks that actions on the machine name parts that it has.

use nodeward_model::{CpuId, Cpumask, NodeId, Nodemask};

use super::invalid_value::{InvalidValue, ValuePath, ensure};
use crate::{ActionKind, MachineSpec};

/// Checks an action on the machine.
pub(super) fn check(
    machine: &MachineSpec,
    spot: impl Fn(&'static str) -> ValuePath,
    kind: &ActionKind,
) -> Result<(), InvalidValue> {
    match kind {
        ActionKind::CpusOff { cpus: named } | ActionKind::CpusOn { cpus: named } => {
            cpus(machine, spot("cpus"), named)
        }
        ActionKind::MemoryOff { node } | ActionKind::MemoryOn { node } => {
            node_with_memory(machine, spot("node"), *node)
        }
        _ => Ok(()),
    }
}

fn cpus(machine: &MachineSpec, spot: ValuePath, cpus: &Cpumask) -> Result<(), InvalidValue> {
    ensure(!cpus.is_empty(), spot, || "no CPU is named".to_owned(), "a CPU at least")?;
    let all = machine.cpus();
    let odd: Option<CpuId> = cpus.without(&all).first();
    let what = || odd.map(|cpu| format!("there is no CPU {cpu}")).unwrap_or_default();
    ensure(odd.is_none(), spot, what, format!("some of the CPUs {all}"))
}

/// Checks that a node has memory.
pub(super) fn node_with_memory(
    machine: &MachineSpec,
    spot: ValuePath,
    node: NodeId,
) -> Result<(), InvalidValue> {
    let with_memory = machine.nodes.iter().filter(|node| node.memory_bytes > 0);
    let with_memory: Nodemask = with_memory.map(|node| node.id).collect();
    let what = || format!("there is no memory on node {node}");
    let expected = format!("one of the nodes with memory: {with_memory}");
    ensure(with_memory.contains(node), spot, what, expected)
}
