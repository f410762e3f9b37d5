//! Regions that are made and dropped.

use nodeward::{Backend, ForkRule, Migration, PageSize, Pager, Placement, RegionOptions};

use crate::means_thread::{Means, MeansEnv, MeansThreads, single_thread};
use crate::owned_range::{OwnedRange, PAGE};
use crate::test_memory::{HUGE_BYTES, RANGE_BYTES};
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "regions that are reserved, written, moved, left out, and dropped at once";

struct RegionLifecycle {
    pager: &'static Pager,
    nodes: Vec<nodeward::NodeId>,
}

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    single_thread(RegionLifecycle { pager: env.memory.pager, nodes: env.memory.nodes.clone() })
}

impl Means for RegionLifecycle {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let huge = context.once_in(4);
        let bytes = if huge { HUGE_BYTES } else { RANGE_BYTES };
        let options = RegionOptions {
            page: if huge { PageSize::Huge } else { PageSize::Base },
            placement: Placement::Node(context.random.choose(&self.nodes)),
            fork: context.random.choose(&[ForkRule::Copy, ForkRule::DontFork]),
            free_of_dma: context.once_in(2),
            ..RegionOptions::default()
        };
        context.status.begin_action("reserve", 0..0);
        let region = match self.pager.reserve(bytes, &options) {
            Err(nodeward::Error::NoHugePages { .. }) => return Ok(()),
            region => region.map_err(failure("reserve"))?,
        };
        let mut lot = OwnedRange::new(&region, 0..bytes, u8::MAX);
        let written = 0..RANGE_BYTES / PAGE;
        lot.write(written.clone());
        let node = context.random.choose(&self.nodes);
        // Where the kernel moves a region it does not move pages that are already there.
        let even_if_there = self.pager.backend() == Backend::Move;
        let how = Migration { even_if_there, ..Migration::default() };
        context.status.begin_action("migrate", 0..0);
        let report = region.migrate(0..region.bytes(), node, &how).map_err(failure("migrate"))?;
        context.totals.add(&report);
        context.check_and_write(&mut lot)?;
        context.status.begin_action("migrate_lazily", 0..0);
        match region.migrate_lazily(0..region.bytes(), &how) {
            Err(nodeward::Error::NeedsUserfaultfd { .. }) => (),
            report => context.totals.add(&report.map_err(failure("migrate_lazily"))?),
        }
        if context.once_in(2) {
            context.status.begin_action("check", 0..0);
            lot.check(written)?;
        }
        context.status.begin_action("drop", 0..0);
        Ok(())
    }
}
