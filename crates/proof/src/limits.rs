//! What the kernel's calls that move pages cost here, each alone, by one and by several threads at
//! once: what no migration can do without.

use nodeward_linux::Linux;
use nodeward_pager::{Memcpy, Migration, Mode, PageSize};
use serde::Serialize;

use crate::measure::{BarePass, BareThreads, Column};
use crate::measured_region::MeasuredRegionOptions;
use crate::{BenchProgress, Error, MeasuredRegion, NodeRoute, median};

/// What is measured.
#[derive(Clone, Debug)]
pub struct LimitsPlan {
    /// Bytes that all threads of a measurement move together; the more, the less is in caches.
    pub bytes: usize,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// How often each is measured.
    pub rounds: usize,
    /// Nodes between which pages move.
    pub nodes: NodeRoute,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BareCall {
    /// UFFDIO_MOVE of pages out of a region.
    MoveOut,
    /// UFFDIO_MOVE of pages into a region.
    MoveIn,
    /// UFFDIO_COPY: allocates a page, copies, and brings it into sight.
    Copy,
    /// MADV_DONTNEED of pages that are present.
    Free,
    /// MADV_POPULATE_WRITE: allocates and clears a page.
    Populate,
    /// memcpy(3) of pages that no cache holds.
    Memcpy,
    /// move_pages(2) of this process to another node.
    MovePages,
}

/// The cost of a call for base pages.
#[derive(Clone, Debug, Serialize)]
pub struct LimitCell {
    /// The call.
    pub call: BareCall,
    /// Threads that make it at the same time, each on memory of its own.
    pub threads: u32,
    /// Median time of a thread for a page, in nanoseconds.
    pub page_ns: f64,
    /// Bytes that all threads together move in a second at that pace.
    pub bytes_per_s: u64,
}

/// Measures everything in the plan. A request to cancel ends it early, with the results so far.
///
/// # Errors
/// If UFFDIO_MOVE does not work here, or there is no memory.
pub fn measure_limits(
    plan: &LimitsPlan,
    progress: &BenchProgress,
) -> Result<Vec<LimitCell>, Error> {
    let rounds = plan.rounds.max(1);
    progress.set_total((plan.threads.len() * rounds) as u64);
    let mut cells = Vec::new();
    for &threads in &plan.threads {
        let mut times: Vec<(BareCall, Vec<f64>)> = Vec::new();
        for _ in 0..rounds {
            if progress.cancel().is_cancelled() {
                return Ok(cells);
            }
            for (call, page_ns) in round(plan, threads)? {
                match times.iter_mut().find(|known| known.0 == call) {
                    Some((_, known)) => known.push(page_ns),
                    None => times.push((call, vec![page_ns])),
                }
            }
            progress.advance(1);
        }
        cells.extend(times.into_iter().map(|(call, times)| cell(call, threads, &times)));
    }
    Ok(cells)
}

fn cell(call: BareCall, threads: u32, times: &[f64]) -> LimitCell {
    let page_ns = median(times);
    LimitCell { call, threads, page_ns, bytes_per_s: bytes_per_s(page_ns, threads) }
}

/// Returns the bytes that threads together move in a second, each a base page in `page_ns`
/// nanoseconds.
pub fn bytes_per_s(page_ns: f64, threads: u32) -> u64 {
    let bytes = rustix::param::page_size() as f64 * f64::from(threads);
    (bytes * 1e9 / page_ns.max(1e-3)) as u64
}

/// Measures each call once. Returns the mean times of a thread for a page, in nanoseconds.
fn round(plan: &LimitsPlan, threads: u32) -> Result<Vec<(BareCall, f64)>, Error> {
    let page = rustix::param::page_size();
    let cpus = plan.nodes.worker_cpus(&Linux::open())?;
    let mut bare = BareThreads::open(threads, plan.bytes, plan.nodes, cpus)?;
    let populate_ns = bare.populate_ns(page)?;
    // In this order: until pages are fresh the memory is on another node than the recycled ones.
    let recycled = bare.pass(Column::RecycledAlone, &Memcpy)?;
    let fresh = bare.pass(Column::OneWay, &Memcpy)?;
    let per_page = |ns: u64, pass: &BarePass| ns as f64 * page as f64 / pass.bytes as f64;
    let mut told = vec![
        (BareCall::MoveOut, per_page(fresh.steps.unmap_ns, &fresh)),
        (BareCall::Copy, per_page(fresh.steps.map_ns, &fresh)),
        (BareCall::Free, per_page(fresh.steps.supply_ns, &fresh)),
        (BareCall::Populate, populate_ns),
        (BareCall::MoveIn, per_page(recycled.steps.map_ns, &recycled)),
        (BareCall::Memcpy, per_page(recycled.steps.copy_ns, &recycled)),
    ];
    told.extend(move_pages_ns(plan, threads)?.map(|ns| (BareCall::MovePages, ns)));
    Ok(told)
}

/// Returns the time of a thread for a page by move_pages(2); `None` on one node, where it moves
/// nothing.
fn move_pages_ns(plan: &LimitsPlan, threads: u32) -> Result<Option<f64>, Error> {
    if !plan.nodes.are_distinct() {
        return Ok(None);
    }
    let subject = MeasuredRegion::open(MeasuredRegionOptions {
        bytes: plan.bytes,
        page: PageSize::Base,
        mode: Mode::Kernel,
        pool_bytes: 0,
        lanes: threads,
        nodes: plan.nodes,
    })?;
    let sample = subject.migrate(&Migration { lanes: Some(threads), ..Migration::default() })?;
    let pages = sample.bytes as f64 / subject.base_page_bytes() as f64;
    Ok(Some(sample.ns as f64 * f64::from(threads) / pages))
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Machine;
    use nodeward_pager::BareCalls;

    use super::*;

    /// Goal: each call is measured for each number of threads, and takes time. A page of 4 KiB that
    /// takes two threads 1 us each is 8.2 GB/s.
    #[test]
    fn every_call_has_a_cost() {
        assert_eq!(cell(BareCall::Copy, 2, &[900.0, 1000.0, 5000.0]).bytes_per_s / 1000, 8_192_000);
        if let Err(why) = BareCalls::open() {
            return eprintln!("skipped: {why}");
        }
        let node = Linux::open().topology().unwrap().nodes_with_memory().first().unwrap();
        let nodes = NodeRoute { from: node, to: node };
        let plan = LimitsPlan { bytes: 8 << 20, threads: vec![1, 2], rounds: 2, nodes };
        let cells = measure_limits(&plan, &BenchProgress::default()).unwrap();
        assert_eq!(cells.len(), 2 * 6, "all but move_pages(2)");
        assert!(cells.iter().all(|cell| cell.page_ns > 0.0), "{cells:?}");
    }
}
