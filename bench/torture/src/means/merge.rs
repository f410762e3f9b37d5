//! Equal pages, which the kernel merges (KSM).

use nodeward_linux::interference::{MemoryChange, change_memory, merge_equal_pages};

use crate::kernel_setting::KernelSetting;
use crate::means_thread::{Means, MeansEnv, MeansThreads, SkippedMeans, single_thread};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext};

pub const WHAT: &str = "equal pages that the kernel merges (KSM), written now and then";

struct Merge {
    ranges: Vec<OwnedRange<'static>>,
    _settings: Vec<KernelSetting>,
}

/// Makes the kernel merge as fast as it can, in all of our memory if it supports that.
pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    env.require_whole_machine()?;
    let settings = [("sleep_millisecs", "1"), ("pages_to_scan", "2000"), ("run", "1")];
    let change = |(file, text)| KernelSetting::change(&format!("/sys/kernel/mm/ksm/{file}"), text);
    let settings = settings.into_iter().map(change).collect::<Result<Vec<_>, _>>()?;
    let lots: Vec<_> =
        env.memory.ranges(RangeUse::Plain).into_iter().map(OwnedRange::with_equal_pages).collect();
    if merge_equal_pages(true).is_err() {
        let merge = |lot: &OwnedRange| change_memory(lot.words(), MemoryChange::Merge);
        lots.iter().try_for_each(merge).map_err(|error| SkippedMeans(format!("KSM: {error}")))?;
    }
    single_thread(Merge { ranges: lots, _settings: settings })
}

impl Means for Merge {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let lot = context.random_range(&mut self.ranges);
        // All pages alike, then one of them changed; after a while it is like the others again.
        if context.once_in(4) {
            let all = 0..lot.pages();
            context.begin_action("write equal pages", lot, &all);
            lot.check(all.clone())?;
            lot.write_all_equal();
        } else {
            let pages = context.random_pages(lot);
            context.begin_action("check", lot, &pages);
            lot.check(pages)?;
        }
        std::thread::sleep(std::time::Duration::from_millis(context.random.below(20) as u64));
        if context.once_in(4) { context.check_and_write(lot) } else { Ok(()) }
    }

    fn end(&mut self, _hand: &mut ThreadContext) -> Result<(), StepFailure> {
        merge_equal_pages(false).ok();
        Ok(())
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.ranges
    }
}
