//! Moves memory, and tells where it is.

use std::cell::RefCell;
use std::ops::Range;

use nodeward::{
    Account, Arrive, Budget, Cancel, MappingKind, Migration, MigrationReport, Mover, NodeId,
    Progress, Selection, SkipReason, migrate_own, residency_own,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Failure, invalid, unsupported};
use crate::memory::Memory;
use crate::options::{self, Destination};
use crate::process_state;

/// What is to be excluded beside kinds of memory.
const PINNED: &str = "pinned";

/// A report, and who moved.
type ReportByMover = (MigrationReport, &'static str);

/// Moves the memory of an object.
#[pyfunction]
pub fn migrate<'py>(
    py: Python<'py>,
    buffer: &Bound<'py, PyAny>,
    node: &Bound<'py, PyAny>,
    stall: Option<&Bound<'py, PyAny>>,
    rate: Option<&Bound<'py, PyAny>>,
    huge: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let (memory, to) = (Memory::of(buffer)?, options::destination(node)?);
    let budget = options::budget(stall, rate)?;
    let arrive = huge.then_some(Arrive::Huge);
    let (moved, page_bytes) = match (memory.region(), to) {
        (Some((region, pages)), to) => {
            let run = |how: &Migration<'_>| match to {
                Destination::Node(node) => Ok((region.migrate(pages, node, how)?, "pager")),
                Destination::Touch => Ok((region.migrate_lazily(pages, how)?, "pager")),
            };
            (carry_out(py, (budget, arrive), run)?, region.page_bytes())
        }
        (None, _) if huge => {
            return Err(unsupported(
                "only arrays of nodeward.empty() arrive as huge pages; leave huge out".to_owned(),
            ));
        }
        (None, Destination::Node(node)) => {
            let selection =
                Selection { ranges: vec![range(memory.pages())], ..Selection::default() };
            (migrate_selected(py, &selection, node, budget)?, nodeward::page_bytes())
        }
        (None, Destination::Touch) => {
            return Err(unsupported(
                "only arrays of nodeward.empty() move when they are touched; name a node"
                    .to_owned(),
            ));
        }
    };
    report(py, &moved, memory.edge_pages(page_bytes))
}

/// Moves the memory of this process.
#[pyfunction]
pub fn rehome<'py>(
    py: Python<'py>,
    node: &Bound<'py, PyAny>,
    exclude: Vec<String>,
    stall: Option<&Bound<'py, PyAny>>,
    rate: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (selection, to) = (all_but(exclude)?, options::one_node(node)?);
    let moved = migrate_selected(py, &selection, to, options::budget(stall, rate)?)?;
    report(py, &moved, 0)
}

/// Returns the bytes of an object by node, whether they were counted, and by how many bytes an
/// estimate may be wrong.
#[pyfunction]
pub fn residency<'py>(
    py: Python<'py>,
    buffer: &Bound<'py, PyAny>,
    exact: bool,
) -> PyResult<(Bound<'py, PyDict>, bool, u64)> {
    let memory = Memory::of(buffer)?;
    let own = process_state::own_memory(py).map_err(Failure::from)?;
    let pages = range(memory.pages());
    let found = py.detach(|| residency_own(&own, pages, exact)).map_err(Failure::from)?;
    let page_bytes = nodeward::page_bytes() as u64;
    let by_node = PyDict::new(py);
    for (node, bytes) in found.bytes(page_bytes) {
        by_node.set_item(node.0, bytes)?;
    }
    let error_bytes = error_bytes(found.pages * page_bytes, found.half_width_ppm());
    Ok((by_node, found.exact, error_bytes))
}

/// Returns by how many bytes an estimate may be wrong, rounded up.
fn error_bytes(bytes: u64, half_width_ppm: u64) -> u64 {
    let error = (u128::from(bytes) * u128::from(half_width_ppm)).div_ceil(1_000_000);
    u64::try_from(error).unwrap_or(bytes)
}

/// Returns one line about a reason: its meaning and what to do.
#[pyfunction]
pub fn advice(reason: &str) -> PyResult<&'static str> {
    let known = SkipReason::ALL.into_iter().find(|known| known.name() == reason);
    known.map(SkipReason::advice).ok_or_else(|| {
        let names = SkipReason::ALL.map(SkipReason::name).join(", ");
        invalid(format!("{reason:?} is no reason; there are {names}"))
    })
}

fn range(pages: Range<u64>) -> nodeward::AddressRange {
    nodeward::AddressRange::new(pages.start, pages.end)
}

fn all_but(exclude: Vec<String>) -> PyResult<Selection> {
    let mut selection = Selection::default();
    for name in exclude {
        if name == PINNED {
            selection.skip_pinned = true;
            continue;
        }
        let known = MappingKind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = known.ok_or_else(|| {
            let names = MappingKind::ALL.map(MappingKind::name).join(", ");
            invalid(format!("{name:?} is nothing to exclude; there are {PINNED}, {names}"))
        })?;
        selection.kinds.remove(&kind);
    }
    Ok(selection)
}

/// Moves memory that is in no region.
fn migrate_selected(
    py: Python<'_>,
    selection: &Selection,
    to: NodeId,
    budget: Budget,
) -> PyResult<ReportByMover> {
    let own = process_state::own_memory(py).map_err(Failure::from)?;
    carry_out(py, (budget, None), |how| {
        let (report, mover) = migrate_own(&own, selection, to, how)?;
        let mover = match mover {
            Mover::Kernel => "kernel",
            Mover::Agent => "agent",
        };
        Ok((report, mover))
    })
}

/// Moves without the GIL. A signal that Python has a handler for ends the move (Ctrl-C raises
/// KeyboardInterrupt): Python is asked every 50 ms.
fn carry_out(
    py: Python<'_>,
    (budget, arrive): (Budget, Option<Arrive>),
    run: impl FnOnce(&Migration<'_>) -> Result<ReportByMover, Failure> + Send,
) -> PyResult<ReportByMover> {
    let (moved, raised) = py.detach(|| {
        let (cancel, raised) = (Cancel::new(), RefCell::new(None));
        let look = |_: Progress| {
            if let Some(Err(error)) = Python::try_attach(|py| py.check_signals()) {
                cancel.cancel();
                raised.replace(Some(error));
            }
        };
        let how = Migration {
            budget,
            arrive,
            progress: Some(&look),
            cancel: Some(&cancel),
            ..Migration::default()
        };
        (run(&how), raised.into_inner())
    });
    raised.map_or_else(|| Ok(moved?), Err)
}

/// Returns the fields of nodeward.Report.
fn report<'py>(
    py: Python<'py>,
    (report, mover): &ReportByMover,
    edge_pages: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let page_bytes = nodeward::page_bytes() as u64;
    let Account { moved, already_there, skipped } = &report.account;
    let reasons = PyDict::new(py);
    for (reason, pages) in skipped.iter().filter(|(_, pages)| **pages > 0) {
        reasons.set_item(reason.name(), pages * page_bytes)?;
    }
    let fields = PyDict::new(py);
    fields.set_item("moved", moved * page_bytes)?;
    fields.set_item("already_there", already_there * page_bytes)?;
    fields.set_item("skipped", reasons)?;
    fields.set_item("lazy", report.lazy_pages * page_bytes)?;
    fields.set_item("edge_pages", edge_pages)?;
    fields.set_item("huge_arrivals", report.huge_arrivals)?;
    fields.set_item("huge_fallbacks", report.huge_fallbacks)?;
    fields.set_item("mover", mover)?;
    fields.set_item("workers", report.lanes)?;
    fields.set_item("seconds", report.took_ns as f64 / 1e9)?;
    fields.set_item("longest_hold", report.longest_hold_ns as f64 / 1e9)?;
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the error of an estimate is not rounded to 0 for little memory, is not too small, and
    /// does not overflow. 3 % of 409,600 bytes are 12,288; 1 ppm of 1,500,000 is 1.5, so 2.
    #[test]
    fn the_error_of_an_estimate_is_rounded_up() {
        assert_eq!(error_bytes(409_600, 30_000), 12_288);
        assert_eq!(error_bytes(1_500_000, 1), 2);
        assert_eq!(error_bytes(0, 30_000), 0);
        assert_eq!(error_bytes(1 << 60, 1_000_000), 1 << 60);
    }
}
