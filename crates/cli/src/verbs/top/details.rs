//! A closer look at the memory of one process: by mapping, or by kind where only an agent may look.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_machine::{Machine, PagesByMapping, Process, Result};
use nodeward_model::{Mapping, NodeId, Pid, Residency};
use nodeward_mover::residency::{Options, ResidencyLook};

use crate::results::top::MemoryPart;

/// A walk over all page tables keeps the process from changing its mappings for some 30 ns a page,
/// 8 ms for this much memory. Larger processes are sampled, mapping by mapping.
const WALK_BYTES_MAX: u64 = 1 << 30;
/// So many mappings are sampled, those with most addresses first.
const MAPPINGS_MAX: usize = 64;
/// Limits of the sample of a mapping.
const HALF_WIDTH_PPM: u64 = 50_000;
const CPU_NS_MAX: u64 = 1_000_000;
const TIME_NS_MAX: u64 = 10_000_000;

/// Parts of the memory of a process, and how many others there are.
pub type MemoryParts = (Vec<MemoryPart>, usize);

/// Returns the mappings of a process that have memory, the one with most memory first.
///
/// # Errors
/// Those of reading the process.
pub fn mappings(machine: &dyn Machine, pid: Pid) -> Result<MemoryParts> {
    let process = machine.open_process(pid)?;
    let mappings = process.mappings()?;
    let walked = match process.resident_bytes()? <= WALK_BYTES_MAX {
        true => process.pages_by_mapping()?,
        false => None,
    };
    let (parts, left) = match walked {
        Some(pages) => (walked_parts(&mappings, &pages, machine.page_bytes()), 0),
        None => sampled_parts(machine, &*process, mappings)?,
    };
    Ok((in_order(parts), left))
}

/// Returns the memory of a process by kind, the largest first.
pub fn kinds(residency: &Residency) -> MemoryParts {
    let part = |(kind, found): (&_, &nodeward_model::KindResidency)| MemoryPart {
        what: nodeward_model::MappingKind::name(*kind).to_owned(),
        path: "".into(),
        bytes: found.bytes(residency.page_bytes),
    };
    (in_order(residency.kinds.iter().map(part).collect()), 0)
}

fn walked_parts(mappings: &[Mapping], pages: &PagesByMapping, page_bytes: u64) -> Vec<MemoryPart> {
    let of = |mapping: &Mapping| {
        let found = pages.get(&mapping.range)?;
        Some(part(mapping, found.iter().map(|(&node, pages)| (node, pages * page_bytes)).collect()))
    };
    mappings.iter().filter_map(of).collect()
}

fn sampled_parts(
    machine: &dyn Machine,
    process: &dyn Process,
    mut mappings: Vec<Mapping>,
) -> Result<MemoryParts> {
    mappings.sort_by_key(|mapping| Reverse(mapping.range.bytes()));
    let left = mappings.len().saturating_sub(MAPPINGS_MAX);
    mappings.truncate(MAPPINGS_MAX);
    let options = Options {
        half_width_ppm: HALF_WIDTH_PPM,
        time_ns_max: Some(TIME_NS_MAX),
        cpu_ns_max: Some(CPU_NS_MAX),
        ..Options::default()
    };
    let look = ResidencyLook::new(machine, process, &options);
    let sampled = mappings.into_iter().map(|mapping| {
        let total = look.measure(vec![mapping.clone()])?.total();
        Ok(part(&mapping, total.bytes(machine.page_bytes())))
    });
    Ok((sampled.collect::<Result<_>>()?, left))
}

fn part(mapping: &Mapping, bytes: BTreeMap<NodeId, u64>) -> MemoryPart {
    let what = format!("{} {}", mapping.range, mapping.kind);
    MemoryPart { what, path: mapping.path.clone(), bytes }
}

fn in_order(mut parts: Vec<MemoryPart>) -> Vec<MemoryPart> {
    parts.retain(|part| part.bytes.values().any(|&bytes| bytes > 0));
    parts.sort_by_key(|part| Reverse(part.bytes.values().sum::<u64>()));
    parts
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::Page;

    use super::*;

    /// Goal: a mapping is told with its memory by node: 3 pages of 4 KiB on node 0, one on node 1.
    /// A process that is gone is an error.
    #[test]
    fn memory_by_mapping() {
        let pid = Pid::new(7).unwrap();
        let fake = FakeMachine::new(true);
        assert!(mappings(&fake, pid).is_err());
        let pages: Vec<_> = (0..4).map(|page| Page::on(NodeId(u32::from(page == 3)))).collect();
        fake.spawn(pid, FakeProcess::with_pages(&pages));
        let (parts, left) = mappings(&fake, pid).unwrap();
        assert_eq!((parts.len(), left), (1, 0));
        assert_eq!(parts[0].bytes, [(NodeId(0), 12_288), (NodeId(1), 4_096)].into());
    }
}
