//! The calls of a region that are measured: how memory is prepared for each, and the call itself.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use nodeward_pager::{BareTimes, Migration, Placement, RangeTarget, Region, Supply};
use serde::Serialize;

use super::call_times::{PAGE_BYTES, elapsed_ns};
use crate::{Error, NodeRoute};

/// A call of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegionCall {
    /// `migrate` to fresh pages.
    OneWay,
    /// `migrate` to recycled pages, as far as there are some.
    Recycled,
    /// `migrate` of pages that are on the node already.
    There,
    /// `exchange` of two ranges.
    Exchange,
    /// `pin`, and dropping the guard.
    Pin,
    /// `discard` of pages.
    Discard,
    /// `commit` where no pages are.
    Commit,
    /// `residency`.
    Residency,
    /// `migrate_list` of 1,000 single pages to fresh pages, whatever the size.
    List,
}

/// Pages of a list.
const LIST_PAGES: usize = 1000;
/// Pages from one page of a list to the next, at most: 64 of them are in a chunk.
const LIST_STRIDE_MAX: usize = 8;

impl RegionCall {
    /// All calls.
    pub const ALL: [Self; 9] = [
        Self::OneWay,
        Self::Recycled,
        Self::There,
        Self::Exchange,
        Self::Pin,
        Self::Discard,
        Self::Commit,
        Self::Residency,
        Self::List,
    ];

    /// Returns its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneWay => "one-way",
            Self::Recycled => "recycled",
            Self::There => "there",
            Self::Exchange => "exchange",
            Self::Pin => "pin",
            Self::Discard => "discard",
            Self::Commit => "commit",
            Self::Residency => "residency",
            Self::List => "list",
        }
    }

    /// Returns the time of the kernel's calls that it is compared with, given those of its range
    /// and those of one page.
    pub(super) fn bare_ns(self, range: &BareTimes, page: &BareTimes) -> Option<u64> {
        let one_way = |times: &BareTimes| times.move_ns + times.copy_ns + times.discard_ns;
        match self {
            Self::OneWay | Self::Recycled => Some(one_way(range)),
            Self::There => Some(one_way(page)),
            Self::Exchange => Some(2 * one_way(range)),
            Self::Pin => Some(page.discard_ns),
            Self::Discard => Some(range.discard_ns),
            Self::Commit => Some(range.populate_ns),
            Self::Residency => None,
            Self::List => Some(LIST_PAGES as u64 * one_way(page)),
        }
    }

    /// Returns whether it is measured for ranges of this size: lists have single pages only.
    pub(super) fn has_size(self, bytes: usize) -> bool {
        self != Self::List || bytes == PAGE_BYTES
    }

    /// Returns how often it is repeated, where others are `samples` times.
    pub(super) fn samples(self, samples: usize) -> usize {
        if self == Self::List { samples.div_ceil(20) } else { samples }
    }

    /// Prepares `range` of a region, then makes the call once. Returns its time in nanoseconds.
    pub(super) fn time(
        self,
        region: &Region,
        range: &Range<usize>,
        nodes: NodeRoute,
    ) -> Result<u64, Error> {
        if self == Self::List {
            return time_list(region, nodes);
        }
        let other = range.start + region.bytes() / 2..range.end + region.bytes() / 2;
        match self {
            Self::Commit => region.discard(range.clone())?,
            Self::OneWay | Self::Recycled => prepare(region, range, nodes)?,
            Self::There | Self::Pin | Self::Discard | Self::Residency | Self::List => {
                write(region, range);
            }
            Self::Exchange => {
                prepare(region, range, nodes)?;
                write(region, &other);
                if nodes.are_distinct() {
                    region.migrate(other.clone(), nodes.to, &Migration::default())?;
                }
            }
        }
        let began = Instant::now();
        self.make(region, range, &other, nodes)?;
        Ok(elapsed_ns(began))
    }

    fn make(
        self,
        region: &Region,
        range: &Range<usize>,
        other: &Range<usize>,
        nodes: NodeRoute,
    ) -> Result<(), Error> {
        let even_if_there = !nodes.are_distinct();
        let one_way = Migration { supply: Supply::OneWay, even_if_there, ..Migration::default() };
        let any = Migration { supply: Supply::Any, ..one_way };
        let range = range.clone();
        match self {
            Self::OneWay => drop(region.migrate(range, nodes.to, &one_way)?),
            Self::Recycled => drop(region.migrate(range, nodes.to, &any)?),
            Self::There => drop(region.migrate(range, nodes.from, &Migration::default())?),
            Self::Exchange => drop(region.exchange(range, other.clone(), &any)?),
            Self::Pin => drop(region.pin(range)?),
            Self::Discard => region.discard(range)?,
            Self::Commit => region.commit(range, &Placement::Node(nodes.from))?,
            Self::Residency | Self::List => drop(region.residency(range)?),
        }
        Ok(())
    }
}

impl fmt::Display for RegionCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for RegionCall {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|call| call.name() == text);
        found.ok_or(
            "expected one of one-way, recycled, there, exchange, pin, discard, commit, \
             residency, list",
        )
    }
}

/// Moves a list of pages, and returns the time of the call.
fn time_list(region: &Region, nodes: NodeRoute) -> Result<u64, Error> {
    let page = region.page_bytes();
    let stride = (region.bytes() / page / LIST_PAGES).clamp(1, LIST_STRIDE_MAX) * page;
    let starts = (0..region.bytes()).step_by(stride).take(LIST_PAGES);
    let list: Vec<_> =
        starts.map(|start| RangeTarget { range: start..start + page, to: nodes.to }).collect();
    list.iter().try_for_each(|target| prepare(region, &target.range, nodes))?;
    let even_if_there = !nodes.are_distinct();
    let how = Migration { supply: Supply::OneWay, even_if_there, ..Migration::default() };
    let began = Instant::now();
    let report = region.migrate_list(&list, &how)?;
    let ns = elapsed_ns(began);
    if report.total.account.moved == 0 {
        return Err(Error::nothing_moved(&report.total.account));
    }
    Ok(ns)
}

/// Brings the pages of a range to the node that they are to leave, and writes to each.
fn prepare(region: &Region, range: &Range<usize>, nodes: NodeRoute) -> Result<(), Error> {
    write(region, range);
    if nodes.are_distinct() {
        region.migrate(range.clone(), nodes.from, &Migration::default())?;
    }
    Ok(())
}

fn write(region: &Region, range: &Range<usize>) {
    for page in range.clone().step_by(region.page_bytes()) {
        region.words()[page / size_of::<u64>()].store(1, Ordering::Relaxed);
    }
}
