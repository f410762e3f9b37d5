//! Reads fault rates.

use super::Item;
use crate::error::Fault;
use crate::{Bug, Faults};

pub(crate) const KEYS: &[&str] = &[
    "allocation",
    "pinned",
    "late-ipi",
    "late-ipi-by",
    "lost-samples",
    "stale-residency",
    "start",
    "until",
    "bug",
];

/// Default delay of a late answer to an interrupt.
const LATE_NS: u64 = 1_000_000;

pub(super) fn faults(item: &Item) -> Result<Faults, Fault> {
    let table = item.as_table().ok_or_else(|| item.fault("a table, headed [faults]"))?;
    table.only(&[KEYS])?;
    let milli = |key: &str| table.count(key).map(Option::unwrap_or_default);
    Ok(Faults {
        allocation_milli: milli("allocation")?,
        pinned_milli: milli("pinned")?,
        late_ipi_milli: milli("late-ipi")?,
        late_ipi_by_ns: table.time("late-ipi-by")?.unwrap_or(LATE_NS),
        lost_samples_milli: milli("lost-samples")?,
        stale_residency_milli: milli("stale-residency")?,
        start_ns: table.time_or_zero("start")?.unwrap_or(0),
        until_ns: table.time("until")?,
        bug: table.word("bug", &Bug::ALL)?,
    })
}
