//! Movers: all calls of regions that move pages, or keep them where they are.

use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use nodeward::{
    Arrive, Budget, Cancel, Error, Migration, MigrationReport, Mode, NodeId, Pager, Placement,
    RangeStatus, RangeTarget, Region, Supply,
};

use crate::means_thread::{Means, MeansEnv, MeansThreads};
use crate::thread_context::{StepFailure, ThreadContext};

pub const WHAT: &str = "migrate, migrate_lazily, migrate_list, exchange, pin, set_mode, commit, \
                        residency, trim";

/// Maximum number of pages moved under a stall budget at a time, because that is slow.
const BUDGETED_PAGES: usize = 128;
/// Ranges of a list.
const LIST_RANGES: usize = 20;

struct MigrateMeans {
    pager: &'static Pager,
    regions: Vec<&'static Region>,
    nodes: Vec<NodeId>,
}

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    let memory = &env.memory;
    let mover = || -> Box<dyn Means> {
        let (regions, nodes) = (memory.regions(), memory.nodes.clone());
        Box::new(MigrateMeans { pager: memory.pager, regions, nodes })
    };
    Ok(std::iter::repeat_with(mover).take(env.movers).collect())
}

impl Means for MigrateMeans {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let region = context.random.choose(&self.regions);
        let range = random_byte_range(context, region);
        let node = context.random.choose(&self.nodes);
        let cancel = Cancel::new();
        let done = match context.random.below(22) {
            0..8 => {
                let (range, how) = random_options(context, region, range, &cancel);
                run_and_count(context, "migrate", region, &range.clone(), how, |how| {
                    region.migrate(range, node, how)
                })
            }
            8..12 => {
                let (range, how) = random_options(context, region, range, &cancel);
                run_and_count(context, "migrate_lazily", region, &range.clone(), how, |how| {
                    region.migrate_lazily(range, how)
                })
            }
            12..14 => exchange(context, region, &range, &cancel),
            14..16 => pin(context, region, range),
            16 => set_mode(context, region),
            17 => commit(context, region, range, node),
            18 => residency(context, region, range),
            19..21 => migrate_list(context, region, node),
            _ => {
                context.status.begin_action("trim", 0..0);
                self.pager.trim();
                Ok(())
            }
        };
        done.or_else(allow_documented)
    }
}

/// Accepts the documented errors: a method that cannot do it, empty ranges, full nodes.
fn allow_documented(error: Error) -> Result<(), StepFailure> {
    match error {
        Error::NeedsUserfaultfd { .. } | Error::NoRoom { .. } | Error::BadOption { .. } => Ok(()),
        error => Err(StepFailure::Failed(error.to_string())),
    }
}

/// Returns a random range; large ones are as frequent as small ones.
fn random_byte_range(context: &mut ThreadContext, region: &Region) -> Range<usize> {
    let page = region.page_bytes();
    let pages = region.bytes() / page;
    let most = pages >> context.random.below(pages.ilog2() as usize + 1);
    let length = 1 + context.random.below(most);
    let start = context.random.below(pages - length + 1);
    start * page..(start + length) * page
}

fn random_options<'a>(
    context: &mut ThreadContext,
    region: &Region,
    range: Range<usize>,
    cancel: &'a Cancel,
) -> (Range<usize>, Migration<'a>) {
    let stall = match context.random.below(6) {
        0 => Some(Duration::from_micros(250)),
        1 => Some(Duration::from_millis(2)),
        _ => None,
    };
    let bytes_per_s = context.once_in(8).then_some(256 << 20);
    let budgeted = stall.is_some() || bytes_per_s.is_some();
    let most =
        if budgeted { BUDGETED_PAGES * region.page_bytes().min(64 << 10) } else { usize::MAX };
    let most = most.max(region.page_bytes());
    let how = Migration {
        budget: Budget { bytes_per_s, stall },
        lanes: context.random.choose(&[None, Some(1), Some(2)]),
        batch_bytes: context.random.choose(&[None, Some(4096), Some(64 << 10), Some(512 << 10)]),
        supply: context.random.choose(&[
            Supply::Any,
            Supply::Any,
            Supply::OneWay,
            Supply::Recycled,
        ]),
        arrive: context.random.choose(&[None, Some(Arrive::AsTheyLeave), Some(Arrive::Huge)]),
        even_if_there: context.once_in(2),
        cancel: Some(cancel),
        progress: None,
    };
    (range.start..range.end.min(range.start.saturating_add(most)), how)
}

/// Records and makes a call, and counts its outcome. Sometimes cancels it on the way.
fn run_and_count(
    context: &mut ThreadContext,
    what: &'static str,
    region: &Region,
    range: &Range<usize>,
    how: Migration<'_>,
    act: impl FnOnce(&Migration<'_>) -> nodeward::Result<MigrationReport>,
) -> Result<(), Error> {
    begin_action(context, what, region, range);
    let cancels = context.once_in(8);
    let (status, examined) = (&context.status, Cell::new(0));
    let progress = |done: nodeward::Progress| {
        if done.examined_bytes > examined.replace(done.examined_bytes) {
            status.mark_progress();
        }
        if let Some(cancel) = how.cancel.filter(|_| cancels) {
            cancel.cancel();
        }
    };
    let report = act(&Migration { progress: Some(&progress), ..how })?;
    context.totals.add(&report);
    Ok(())
}

fn begin_action(
    context: &ThreadContext,
    what: &'static str,
    region: &Region,
    range: &Range<usize>,
) {
    let start = region.as_ptr() as usize;
    context.status.begin_action(what, start + range.start..start + range.end);
}

fn exchange(
    context: &mut ThreadContext,
    region: &Region,
    range: &Range<usize>,
    cancel: &Cancel,
) -> Result<(), Error> {
    let page = region.page_bytes();
    let half = range.len() / 2 / page * page;
    let (range, limits) = random_options(context, region, range.start..range.start + half, cancel);
    let other = range.end..range.end + range.len();
    if range.is_empty() {
        return Ok(());
    }
    run_and_count(context, "exchange", region, &(range.start..other.end), limits, |how| {
        region.exchange(range, other, how)
    })
}

/// Moves some small ranges, which may overlap, and one page that the region does not have.
fn migrate_list(context: &mut ThreadContext, region: &Region, to: NodeId) -> Result<(), Error> {
    let page = region.page_bytes();
    let pages = region.bytes() / page;
    let mut list = vec![RangeTarget { range: region.bytes()..region.bytes() + page, to }];
    for _ in 0..LIST_RANGES {
        let first = context.random.below(pages);
        let end = pages.min(first + 1 + context.random.below(3));
        list.push(RangeTarget { range: first * page..end * page, to });
    }
    begin_action(context, "migrate_list", region, &(0..region.bytes()));
    let how = Migration { even_if_there: context.once_in(2), ..Migration::default() };
    let report = region.migrate_list(&list, &how)?;
    assert!(matches!(report.ranges[0], RangeStatus::Refused(_)), "{:?}", report.ranges[0]);
    context.totals.add(&report.total);
    Ok(())
}

fn pin(context: &mut ThreadContext, region: &Region, range: Range<usize>) -> Result<(), Error> {
    begin_action(context, "pin", region, &range);
    let guard = region.pin(range)?;
    std::thread::sleep(Duration::from_micros(context.random.below(3000) as u64));
    context.status.begin_action("unpin", 0..0);
    drop(guard);
    Ok(())
}

fn set_mode(context: &mut ThreadContext, region: &Region) -> Result<(), Error> {
    let mode = if context.once_in(3) { Mode::Kernel } else { Mode::Auto };
    begin_action(context, "set_mode", region, &(0..region.bytes()));
    region.set_mode(mode)
}

fn commit(
    context: &ThreadContext,
    region: &Region,
    range: Range<usize>,
    node: NodeId,
) -> Result<(), Error> {
    begin_action(context, "commit", region, &range);
    region.commit(range, &Placement::Node(node))
}

/// Checks that residency does not report more pages than the range has.
fn residency(context: &ThreadContext, region: &Region, range: Range<usize>) -> Result<(), Error> {
    begin_action(context, "residency", region, &range);
    let pages: u64 = region.residency(range.clone())?.values().sum();
    assert!(
        pages as usize * crate::owned_range::PAGE <= range.len(),
        "{pages} pages in {range:x?}"
    );
    Ok(())
}
