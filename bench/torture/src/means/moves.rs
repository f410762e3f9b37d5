//! Movers: all calls of regions that move pages, or keep them where they are.

use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use nodeward::{
    Budget, Cancel, Error, Migration, Mode, NodeId, Pager, Placement, Region, Report, Supply,
};

use super::{Made, Means, Site};
use crate::hand::{Fault, Hand};

pub const WHAT: &str = "migrate, migrate_lazily, exchange, pin, set_mode, commit, residency, trim";

/// Maximum number of pages moved under a stall budget at a time, because that is slow.
const BUDGETED_PAGES: usize = 128;

struct Mover {
    pager: &'static Pager,
    regions: Vec<&'static Region>,
    nodes: Vec<NodeId>,
}

pub fn make(site: &mut Site<'_>) -> Made {
    let ground = &site.ground;
    let mover = || -> Box<dyn Means> {
        let (regions, nodes) = (ground.regions(), ground.nodes.clone());
        Box::new(Mover { pager: ground.pager, regions, nodes })
    };
    Ok(std::iter::repeat_with(mover).take(site.movers).collect())
}

impl Means for Mover {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let region = hand.dice.one_of(&self.regions);
        let range = range(hand, region);
        let node = hand.dice.one_of(&self.nodes);
        let cancel = Cancel::new();
        let done = match hand.dice.below(20) {
            0..8 => {
                let (range, how) = how(hand, region, range, &cancel);
                told(hand, "migrate", region, &range.clone(), how, |how| {
                    region.migrate(range, node, how)
                })
            }
            8..12 => {
                let (range, how) = how(hand, region, range, &cancel);
                told(hand, "migrate_lazily", region, &range.clone(), how, |how| {
                    region.migrate_lazily(range, how)
                })
            }
            12..14 => exchange(hand, region, &range, &cancel),
            14..16 => pin(hand, region, range),
            16 => set_mode(hand, region),
            17 => commit(hand, region, range, node),
            18 => residency(hand, region, range),
            _ => {
                hand.post.does("trim", 0..0);
                self.pager.trim();
                Ok(())
            }
        };
        done.or_else(as_documented)
    }
}

/// Accepts the documented errors: a method that cannot do it, empty ranges, full nodes.
fn as_documented(error: Error) -> Result<(), Fault> {
    match error {
        Error::NeedsUserfaultfd { .. } | Error::NoRoom { .. } | Error::BadOption { .. } => Ok(()),
        error => Err(Fault::Failed(error.to_string())),
    }
}

/// Returns a random range; large ones are as frequent as small ones.
fn range(hand: &mut Hand, region: &Region) -> Range<usize> {
    let page = region.page_bytes();
    let pages = region.bytes() / page;
    let most = pages >> hand.dice.below(pages.ilog2() as usize + 1);
    let length = 1 + hand.dice.below(most);
    let start = hand.dice.below(pages - length + 1);
    start * page..(start + length) * page
}

fn how<'a>(
    hand: &mut Hand,
    region: &Region,
    range: Range<usize>,
    cancel: &'a Cancel,
) -> (Range<usize>, Migration<'a>) {
    let stall = match hand.dice.below(6) {
        0 => Some(Duration::from_micros(250)),
        1 => Some(Duration::from_millis(2)),
        _ => None,
    };
    let bytes_per_s = hand.once_in(8).then_some(256 << 20);
    let budgeted = stall.is_some() || bytes_per_s.is_some();
    let most =
        if budgeted { BUDGETED_PAGES * region.page_bytes().min(64 << 10) } else { usize::MAX };
    let most = most.max(region.page_bytes());
    let how = Migration {
        budget: Budget { bytes_per_s, stall },
        lanes: hand.dice.one_of(&[None, Some(1), Some(2)]),
        batch_bytes: hand.dice.one_of(&[None, Some(4096), Some(64 << 10), Some(512 << 10)]),
        supply: hand.dice.one_of(&[Supply::Any, Supply::Any, Supply::OneWay, Supply::Recycled]),
        even_if_there: hand.once_in(2),
        cancel: Some(cancel),
        progress: None,
    };
    (range.start..range.end.min(range.start.saturating_add(most)), how)
}

/// Records and makes a call, and counts its outcome. Sometimes cancels it on the way.
fn told(
    hand: &mut Hand,
    what: &'static str,
    region: &Region,
    range: &Range<usize>,
    how: Migration<'_>,
    act: impl FnOnce(&Migration<'_>) -> nodeward::Result<Report>,
) -> Result<(), Error> {
    says(hand, what, region, range);
    let cancels = hand.once_in(8);
    let (post, examined) = (&hand.post, Cell::new(0));
    let progress = |done: nodeward::Progress| {
        if done.examined_bytes > examined.replace(done.examined_bytes) {
            post.goes_on();
        }
        if let Some(cancel) = how.cancel.filter(|_| cancels) {
            cancel.cancel();
        }
    };
    let report = act(&Migration { progress: Some(&progress), ..how })?;
    hand.tally.add(&report);
    Ok(())
}

fn says(hand: &Hand, what: &'static str, region: &Region, range: &Range<usize>) {
    let start = region.as_ptr() as usize;
    hand.post.does(what, start + range.start..start + range.end);
}

fn exchange(
    hand: &mut Hand,
    region: &Region,
    range: &Range<usize>,
    cancel: &Cancel,
) -> Result<(), Error> {
    let page = region.page_bytes();
    let half = range.len() / 2 / page * page;
    let (range, limits) = how(hand, region, range.start..range.start + half, cancel);
    let other = range.end..range.end + range.len();
    if range.is_empty() {
        return Ok(());
    }
    told(hand, "exchange", region, &(range.start..other.end), limits, |how| {
        region.exchange(range, other, how)
    })
}

fn pin(hand: &mut Hand, region: &Region, range: Range<usize>) -> Result<(), Error> {
    says(hand, "pin", region, &range);
    let guard = region.pin(range)?;
    std::thread::sleep(Duration::from_micros(hand.dice.below(3000) as u64));
    hand.post.does("unpin", 0..0);
    drop(guard);
    Ok(())
}

fn set_mode(hand: &mut Hand, region: &Region) -> Result<(), Error> {
    let mode = if hand.once_in(3) { Mode::Kernel } else { Mode::Auto };
    says(hand, "set_mode", region, &(0..region.bytes()));
    region.set_mode(mode)
}

fn commit(hand: &Hand, region: &Region, range: Range<usize>, node: NodeId) -> Result<(), Error> {
    says(hand, "commit", region, &range);
    region.commit(range, &Placement::Node(node))
}

/// Checks that residency does not report more pages than the range has.
fn residency(hand: &Hand, region: &Region, range: Range<usize>) -> Result<(), Error> {
    says(hand, "residency", region, &range);
    let pages: u64 = region.residency(range.clone())?.values().sum();
    assert!(pages as usize * crate::lot::PAGE <= range.len(), "{pages} pages in {range:x?}");
    Ok(())
}
