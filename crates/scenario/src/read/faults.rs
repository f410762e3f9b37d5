//! Reads fault rates.

use crate::error::SourceError;
use crate::toml_tree::TomlItem;
use crate::{Bug, FaultInjection};

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
const DEFAULT_IPI_DELAY_NS: u64 = 1_000_000;

pub(super) fn faults(item: &TomlItem) -> Result<FaultInjection, SourceError> {
    let table = item.as_table().ok_or_else(|| item.error("a table, headed [faults]"))?;
    table.reject_unknown_keys(&[KEYS])?;
    let milli = |key: &str| table.count(key).map(Option::unwrap_or_default);
    Ok(FaultInjection {
        allocation_milli: milli("allocation")?,
        pinned_milli: milli("pinned")?,
        late_ipi_milli: milli("late-ipi")?,
        ipi_delay_ns: table.time("late-ipi-by")?.unwrap_or(DEFAULT_IPI_DELAY_NS),
        lost_samples_milli: milli("lost-samples")?,
        stale_residency_milli: milli("stale-residency")?,
        start_ns: table.time_or_zero("start")?.unwrap_or(0),
        until_ns: table.time("until")?,
        bug: table.word("bug", &Bug::ALL)?,
    })
}
