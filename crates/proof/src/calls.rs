//! The cost of each call of a region, from some threads at once, beside the kernel's calls that it
//! cannot do without.

mod call_times;
mod cells;
mod region_call;
mod setting;
mod threads;

use std::time::Instant;

use nodeward_pager::{BareCalls, PageSize, Pager, PagerOptions, Placement, Region, RegionOptions};

pub use call_times::CallTimes;
pub use cells::{BareCell, CallCell, CallsReport};
pub use region_call::RegionCall;
pub use setting::{CallSetting, CallsPlan};

use crate::{BenchProgress, Error, NodeRoute};
use threads::CallThreads;

/// Measures everything in the plan. A request to cancel ends it early, with the results so far.
///
/// # Errors
/// If there is no memory for it, or UFFDIO_MOVE does not work here.
pub fn measure_calls(plan: &CallsPlan, progress: &BenchProgress) -> Result<CallsReport, Error> {
    let steps: usize = plan.settings.iter().map(|setting| setting.sizes.len()).sum();
    progress.set_total((steps * plan.calls.len()) as u64);
    let mut report = CallsReport { opening: opening(plan)?, ..CallsReport::default() };
    for setting in &plan.settings {
        measure_setting(plan, setting, progress, &mut report)?;
    }
    Ok(report)
}

fn measure_setting(
    plan: &CallsPlan,
    setting: &CallSetting,
    progress: &BenchProgress,
    report: &mut CallsReport,
) -> Result<(), Error> {
    if progress.cancel().is_cancelled() {
        return Ok(());
    }
    let pager = Pager::open(&PagerOptions::default())?;
    let reserve = |bytes| reserve(&pager, bytes, plan.nodes);
    let regions = (0..setting.regions.max(setting.threads)).map(|_| reserve(setting.region_bytes));
    let regions = regions.collect::<Result<Vec<_>, _>>()?;
    let large = setting.beside_migration.then(|| reserve(plan.large_bytes)).transpose()?;
    let threads = CallThreads { plan, setting, regions: &regions, large: large.as_ref() };
    let mut bare_calls = BareCalls::open()?;
    for &bytes in &setting.sizes {
        for &call in plan.calls.iter().filter(|call| call.has_size(bytes)) {
            if progress.cancel().is_cancelled() {
                return Ok(());
            }
            // Other load on the host slows down both alike.
            let before = BareCell::measure(&mut bare_calls, bytes, plan.samples)?;
            let times = threads.measure(call, bytes)?;
            let after = BareCell::measure(&mut bare_calls, bytes, plan.samples)?;
            report.cells.push(CallCell::new(setting, call, before.mean(after), times));
            progress.advance(1);
        }
    }
    Ok(())
}

fn reserve(pager: &Pager, bytes: usize, nodes: NodeRoute) -> Result<Region, Error> {
    let placement = Placement::Node(nodes.from);
    let options = RegionOptions { page: PageSize::Base, placement, ..RegionOptions::default() };
    Ok(pager.reserve(bytes, &options)?)
}

/// Opens and closes pagers.
fn opening(plan: &CallsPlan) -> Result<Option<CallTimes>, Error> {
    let mut times = Vec::with_capacity(plan.opens);
    for _ in 0..plan.opens {
        let began = Instant::now();
        drop(Pager::open(&PagerOptions::default())?);
        times.push(call_times::elapsed_ns(began));
    }
    Ok((plan.opens > 0).then(|| CallTimes::of(times)))
}

#[cfg(test)]
mod tests {
    use nodeward_linux::Linux;
    use nodeward_machine::Machine;

    use super::*;

    /// Goal: every call is measured in every setting, and has a time; the sum of the kernel's calls
    /// stands beside each that has one.
    #[test]
    fn every_call_is_measured() {
        if let Err(why) = BareCalls::open() {
            return eprintln!("skipped: {why}");
        }
        let node = Linux::open().topology().unwrap().nodes_with_memory().first().unwrap();
        let setting = |threads, regions, beside_migration| CallSetting {
            threads,
            regions,
            region_bytes: 4 << 20,
            beside_migration,
            sizes: vec![4096, 65536],
        };
        let plan = CallsPlan {
            settings: vec![setting(1, 1, false), setting(2, 5, true)],
            calls: RegionCall::ALL.to_vec(),
            samples: 5,
            opens: 1,
            large_bytes: 4 << 20,
            nodes: NodeRoute { from: node, to: node },
        };
        let report = measure_calls(&plan, &BenchProgress::default()).unwrap();
        assert_eq!(report.cells.len(), 2 * (2 * RegionCall::ALL.len() - 1), "lists have one size");
        assert!(report.cells.iter().all(|cell| cell.times.median_ns > 0));
        assert!(report.opening.is_some());
        let without = report.cells.iter().filter(|cell| cell.bare_ns.is_none());
        assert!(without.into_iter().all(|cell| cell.call == RegionCall::Residency));
    }
}
