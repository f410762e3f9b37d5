//! io.nodeward.Residency, and Placement.Save: where the memory of processes is.

use nodeward_balancer::mapped_segments;
use nodeward_machine::Machine;
use nodeward_model::{Mapping, Range};
use nodeward_mover::placement::{SavedMemory, saved_memory};
use nodeward_mover::residency::{Options, measure_mappings};
use nodeward_mover::{MemoryView, MoveControl, MoveDeadline, Selection, merge_overlapping};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::errors::CallError;
use crate::gate::{self, Admitted};
use crate::limits::{LOOK_NS_MAX, PIECES_MAX};
use crate::request::{SaveParameters, ShowParameters, named_kinds};
use crate::wire::{AddressRange, WireSegment};

/// Pages of each kind that a caller may ask to sample at least.
const SAMPLES_MAX: u64 = 1_000_000;

/// Looks at a process.
///
/// # Errors
/// If it is not admitted, or the machine fails.
pub fn show(
    machine: &dyn Machine,
    caller: &Caller,
    wanted: &ShowParameters,
) -> Result<Value, CallError> {
    let Admitted { process, shown } = gate::admit(machine, caller, wanted.pid)?;
    let options = Options {
        exact: wanted.exact.unwrap_or(false),
        samples_min: wanted.samples_min.unwrap_or(0).min(SAMPLES_MAX),
        seed: wanted.seed.unwrap_or_else(|| machine.now_ns()),
        time_ns_max: Some(LOOK_NS_MAX),
        parts: wanted.ranges.is_some(),
        ..Options::default()
    };
    let failed = |error| CallError::failed(&error, shown);
    let mappings = process.mappings().map_err(failed)?;
    let ranges = wanted.ranges.as_deref().unwrap_or_default();
    let mappings = selected(mappings, ranges, machine.page_bytes());
    let segments = mapped_segments(&mappings, &[]);
    let residency = measure_mappings(machine, &*process, mappings, &options).map_err(failed)?;
    Ok(json!({
        "pid": shown,
        "page_bytes": residency.page_bytes,
        "kinds": residency.kinds,
        "capped": residency.capped,
        "segments": segments.iter().map(WireSegment::from).collect::<Vec<_>>(),
    }))
}

/// Returns where the memory of processes is, by mapping, as a placement keeps it.
///
/// # Errors
/// If one is not admitted, or the machine fails.
pub fn save_placement(
    machine: &dyn Machine,
    caller: &Caller,
    wanted: &SaveParameters,
) -> Result<Value, CallError> {
    let pids = wanted.pids.as_deref().unwrap_or_default();
    let admitted = gate::admit_all(machine, caller, pids)?;
    let kinds = named_kinds(wanted.kinds.as_deref());
    let selection = Selection { kinds, ..Selection::default() };
    let views: Vec<MemoryView<'_>> = admitted
        .iter()
        .map(|it| MemoryView { process: &it.process, selection: &selection })
        .collect();
    let control = MoveControl::until(Some(MoveDeadline::in_real_time(LOOK_NS_MAX)));
    let found = saved_memory(machine, &views, views.len(), PIECES_MAX, &control);
    let SavedMemory { mappings, segments } =
        found.map_err(|error| CallError::failed(&error, admitted[0].shown))?;
    if control.is_stopped() {
        let words = format!(
            "pids: their memory is in more than {PIECES_MAX} pieces, or a look takes longer than 5 \
             s; name fewer processes or kinds, or save as root without the agent"
        );
        return Err(CallError::invalid(words));
    }
    Ok(json!({ "mappings": mappings, "segments": segments }))
}

/// Returns the parts of mappings with pages that one of the ranges touches, each once; all without
/// ranges. In mappings of huge pages (hugetlb) these are whole huge pages.
fn selected(mappings: Vec<Mapping>, ranges: &[AddressRange], page_bytes: u64) -> Vec<Mapping> {
    if ranges.is_empty() {
        return mappings;
    }
    let range = |range: &AddressRange| Range::new(range.start, range.end);
    let ranges = merge_overlapping(ranges.iter().map(range).collect());
    let parts = |mapping: Mapping| {
        let first = ranges.partition_point(|range| range.end <= mapping.range.start);
        let those = ranges[first..].iter().take_while(|range| range.start < mapping.range.end);
        let selection = Selection { ranges: those.copied().collect(), ..Selection::default() };
        let parts = match selection.ranges.is_empty() {
            true => Vec::new(),
            false => selection.parts(&mapping, page_bytes),
        };
        let part = move |range| Mapping { range, ..mapping.clone() };
        parts.into_iter().map(part).collect::<Vec<_>>()
    };
    mappings.into_iter().flat_map(parts).collect()
}

#[cfg(test)]
mod tests {
    use nodeward_model::{MappingKind, MappingOrigin, Name};

    use super::*;

    fn found(mappings: &[(u64, u64)], ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mapping = |&(start, end): &(u64, u64)| Mapping {
            range: Range::new(start, end),
            kind: MappingKind::Anonymous,
            shared: false,
            huge_page_bytes: None,
            path: Name::default(),
            segment: None,
            origin: MappingOrigin::default(),
        };
        let mappings = mappings.iter().map(mapping).collect();
        let ranges: Vec<_> =
            ranges.iter().map(|&(start, end)| AddressRange { start, end }).collect();
        let parts = selected(mappings, &ranges, 10);
        parts.iter().map(|part| (part.range.start, part.range.end)).collect()
    }

    /// Goal: what is selected is of whole pages (of 10 bytes here), in one mapping, and there once,
    /// in whatever order ranges come; no range at all selects everything.
    #[test]
    fn pages_are_selected_once() {
        let mappings = [(0, 20), (20, 50), (90, 100)];
        assert_eq!(found(&mappings, &[(15, 31)]), [(10, 20), (20, 40)]);
        assert_eq!(found(&mappings, &[(30, 40), (0, 35), (2, 3)]), [(0, 20), (20, 40)]);
        assert_eq!(found(&mappings, &[(22, 23), (24, 25), (41, 42)]), [(20, 30), (40, 50)]);
        assert_eq!(found(&mappings, &[(50, 90)]), []);
        assert_eq!(found(&mappings, &[(0, 1000), (95, 96)]), mappings);
        assert_eq!(found(&mappings, &[]), mappings);
    }
}
