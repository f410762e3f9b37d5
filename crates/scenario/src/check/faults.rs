//! Checks on fault rates and bugs.

use super::invalid_value::{InvalidValue, ValuePath, ensure};
use crate::limits::{COST_NS_MAX, TIME_NS_MAX};
use crate::{Scenario, exact};

pub(super) fn check(scenario: &Scenario) -> Result<(), InvalidValue> {
    let Some(faults) = &scenario.faults else { return Ok(()) };
    for (key, milli) in faults.rates() {
        let what = || format!("`{key}` is {milli}");
        ensure(
            milli <= 1000,
            ValuePath::faults(key),
            what,
            "a number of thousandths, 1000 at most",
        )?;
    }
    for (key, ns, most) in [
        ("late-ipi-by", faults.ipi_delay_ns, COST_NS_MAX),
        ("start", faults.start_ns, TIME_NS_MAX),
        ("until", faults.until_ns.unwrap_or(TIME_NS_MAX), TIME_NS_MAX),
    ] {
        let what = || format!("`{key}` is {}", exact::ns(ns));
        ensure(ns <= most, ValuePath::faults(key), what, format!("{} at most", exact::ns(most)))?;
    }
    let (start, until) = (faults.start_ns, faults.until_ns);
    ensure(
        until.is_none_or(|until| start < until),
        ValuePath::faults("until"),
        || format!("faults end at {}", exact::ns(until.unwrap_or(0))),
        format!("a time after `start`, {}", exact::ns(start)),
    )
}
