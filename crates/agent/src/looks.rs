//! io.nodeward.Residency: where the memory of a process is.

use nodeward_balancer::mapped_segments;
use nodeward_machine::Machine;
use nodeward_model::{Mapping, Range};
use nodeward_mover::Selection;
use nodeward_mover::residency::{Options, measure_mappings};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::errors::CallError;
use crate::gate::{self, Admitted};
use crate::limits::LOOK_NS_MAX;
use crate::request::ShowParameters;
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
        ..Options::default()
    };
    let failed = |error| CallError::failed(&error, shown);
    let mappings = process.mappings().map_err(failed)?;
    let mappings = selected(&mappings, wanted.ranges.as_deref(), machine.page_bytes());
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

/// Returns the parts of mappings that are on whole pages in these ranges, each once; all of them
/// without ranges.
fn selected(
    mappings: &[Mapping],
    ranges: Option<&[AddressRange]>,
    page_bytes: u64,
) -> Vec<Mapping> {
    let range = |range: &AddressRange| Range::new(range.start, range.end);
    let ranges = ranges.unwrap_or_default().iter().map(range).collect();
    let selection = Selection { ranges, ..Selection::default() };
    let parts = |mapping: &Mapping| {
        let part = |range| Mapping { range, ..mapping.clone() };
        selection.parts(mapping, page_bytes).into_iter().map(part).collect::<Vec<_>>()
    };
    mappings.iter().flat_map(parts).collect()
}
