//! Placement by sampled time, of a process on a machine: where the sampled pages are, and which
//! ranges and pages move for it (`policy::hot::ranges`).

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{Mapping, MappingKind, NodeId, PageLocation, PageSet};
use nodeward_policy::hot::ranges::{MappedRange, RangePlan, plan_ranges};
use nodeward_policy::hot::{
    HotMove, PageAccessCounts, PeriodTimes, SampleHistory, SamplePeriod, TimeRules,
    pages_seen_again, plan_sampled_pages,
};

use crate::locate_folios;

/// The memory of a process that is worth its move by sampled time.
#[derive(Clone, Debug, Default)]
pub struct TimePlan {
    /// Ranges, and the memory that stays.
    pub ranges: RangePlan,
    /// Single folios outside these ranges.
    pub folios: Vec<HotMove>,
}

/// Returns a period of samples, with the present node of each sampled page.
///
/// # Errors
/// If the process is gone or cannot be read.
pub fn sample_period(
    process: &dyn Process,
    ticks: &PageAccessCounts,
    times: PeriodTimes,
) -> Result<SamplePeriod> {
    let pages: Vec<u64> = ticks.pages().collect();
    let locations = process.locate(&pages)?;
    let node = |(page, location): (u64, PageLocation)| match location {
        PageLocation::On(node) => Some((page, node)),
        _ => None,
    };
    let nodes: BTreeMap<u64, NodeId> = pages.into_iter().zip(locations).filter_map(node).collect();
    Ok(SamplePeriod::new(ticks, times, |address| nodes.get(&address).copied()))
}

/// The processes whose accesses samples tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUsers {
    /// Those of a process: memory that others map may be theirs.
    OneProcess,
    /// Those of all who map the memory.
    All,
}

/// Chooses by the periods of a history.
///
/// # Errors
/// If the process is gone or cannot be read.
pub fn plan_by_time(
    machine: &dyn Machine,
    (process, users): (&dyn Process, MemoryUsers),
    history: &SampleHistory,
    rules: &TimeRules,
) -> Result<TimePlan> {
    let ranges = plan_ranges(history, &memory(process, users)?, rules);
    let again = pages_seen_again(history);
    let mut wanted = PageSet::new(machine.page_bytes());
    again.iter().for_each(|&address| _ = wanted.insert(address));
    let folios = locate_folios(machine, process, wanted)?;
    let place_of = |address| folios.folio_at(address);
    let mut moves = plan_sampled_pages(history, &again, place_of, rules);
    let is_within = |folio: &HotMove| {
        let range = folio.range(machine.page_bytes());
        ranges.moves.iter().any(|each| each.range.intersection(range).is_some())
    };
    moves.retain(|folio| !is_within(folio));
    Ok(TimePlan { ranges, folios: moves })
}

/// Returns the memory that ranges are placed in. Files and shared segments have users of whom the
/// samples of one process do not tell.
fn memory(process: &dyn Process, users: MemoryUsers) -> Result<Vec<MappedRange>> {
    let is_own = |it: &&Mapping| it.kind != MappingKind::File && !it.shared;
    let mappings = process.mappings()?;
    let sampled = mappings.iter().filter(|it| users == MemoryUsers::All || is_own(it));
    sampled
        .map(|it| Ok(MappedRange { range: it.range, populated: process.populated(it.range)? }))
        .collect()
}
