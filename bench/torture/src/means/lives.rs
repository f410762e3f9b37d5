//! Regions that are made and dropped.

use nodeward::{ForkRule, Migration, PageSize, Pager, Placement, RegionOptions, Road};

use super::{Made, Means, Site, one};
use crate::ground::{HUGE_BYTES, LOT_BYTES};
use crate::hand::{Fault, Hand, failed};
use crate::lot::{Lot, PAGE};

pub const WHAT: &str = "regions that are reserved, written, moved, left out, and dropped at once";

struct Lives {
    pager: &'static Pager,
    nodes: Vec<nodeward::NodeId>,
}

pub fn make(site: &mut Site<'_>) -> Made {
    one(Lives { pager: site.ground.pager, nodes: site.ground.nodes.clone() })
}

impl Means for Lives {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let huge = hand.once_in(4);
        let bytes = if huge { HUGE_BYTES } else { LOT_BYTES };
        let options = RegionOptions {
            page: if huge { PageSize::Huge } else { PageSize::Base },
            placement: Placement::Node(hand.dice.one_of(&self.nodes)),
            fork: hand.dice.one_of(&[ForkRule::Copy, ForkRule::DontFork]),
            free_of_dma: hand.once_in(2),
            ..RegionOptions::default()
        };
        hand.post.does("reserve", 0..0);
        let region = match self.pager.reserve(bytes, &options) {
            Err(nodeward::Error::NoHugePages { .. }) => return Ok(()),
            region => region.map_err(failed("reserve"))?,
        };
        let mut lot = Lot::new(&region, 0..bytes, u8::MAX);
        let written = 0..LOT_BYTES / PAGE;
        lot.write(written.clone());
        let node = hand.dice.one_of(&self.nodes);
        // Where the kernel moves a region it does not move pages that are already there.
        let even_if_there = self.pager.road() == Road::Move;
        let how = Migration { even_if_there, ..Migration::default() };
        hand.post.does("migrate", 0..0);
        let report = region.migrate(0..region.bytes(), node, &how).map_err(failed("migrate"))?;
        hand.tally.add(&report);
        hand.turn(&mut lot)?;
        hand.post.does("migrate_lazily", 0..0);
        match region.migrate_lazily(0..region.bytes(), &how) {
            Err(nodeward::Error::NeedsUserfaultfd { .. }) => (),
            report => hand.tally.add(&report.map_err(failed("migrate_lazily"))?),
        }
        if hand.once_in(2) {
            hand.post.does("check", 0..0);
            lot.check(written)?;
        }
        hand.post.does("drop", 0..0);
        Ok(())
    }
}
