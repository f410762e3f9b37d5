//! io.nodeward.Residency: where the memory of a process is.

use nodeward_balancer::mapped_segments;
use nodeward_machine::Machine;
use nodeward_mover::residency::{Options, measure};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::errors::CallError;
use crate::gate::{self, Admitted};
use crate::limits::LOOK_NS_MAX;
use crate::request::ShowParameters;
use crate::wire::WireSegment;

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
    let residency = measure(machine, &*process, &options).map_err(failed)?;
    let segments = mapped_segments(&process.mappings().map_err(failed)?, &[]);
    Ok(json!({
        "pid": shown,
        "page_bytes": residency.page_bytes,
        "kinds": residency.kinds,
        "capped": residency.capped,
        "segments": segments.iter().map(WireSegment::from).collect::<Vec<_>>(),
    }))
}
