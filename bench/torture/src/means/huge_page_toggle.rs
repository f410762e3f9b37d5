//! Transparent huge pages that are made and split.

use nodeward_linux::interference::{MemoryChange, change_memory};

use crate::kernel_setting::KernelSetting;
use crate::means_thread::{Means, MeansEnv, MeansThreads, single_thread};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "transparent huge pages on and off, made and split all the time; compaction";

const HUGE: &str = "/sys/kernel/mm/transparent_hugepage";

struct HugePageMeans {
    ranges: Vec<OwnedRange<'static>>,
    enabled: KernelSetting,
    compact: Option<KernelSetting>,
    _settings: Vec<KernelSetting>,
}

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    env.require_whole_machine()?;
    let enabled = KernelSetting::change(&format!("{HUGE}/enabled"), "always")?;
    let settings = [("scan_sleep_millisecs", "10"), ("alloc_sleep_millisecs", "10")];
    let change = |(file, text)| KernelSetting::change(&format!("{HUGE}/khugepaged/{file}"), text);
    let settings = settings.into_iter().map(change).collect::<Result<Vec<_>, _>>()?;
    let compact = KernelSetting::write_only("/proc/sys/vm/compact_memory");
    single_thread(HugePageMeans {
        ranges: env.memory.ranges(RangeUse::Plain),
        enabled,
        compact,
        _settings: settings,
    })
}

impl Means for HugePageMeans {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        match context.random.below(8) {
            0 => {
                context.status.begin_action("THP always", 0..0);
                self.enabled.set("always");
            }
            1 => {
                context.status.begin_action("THP never", 0..0);
                self.enabled.set("never");
            }
            2 => {
                context.status.begin_action("compact", 0..0);
                self.compact.iter().for_each(|compact| compact.set("1"));
            }
            _ => (),
        }
        let lot = context.random_range(&mut self.ranges);
        context.check_and_write(lot)?;
        let pages = context.random_pages(lot);
        let how = context.random.choose(&[MemoryChange::HugePages, MemoryChange::BasePages]);
        context.begin_action("madvise sizes", lot, &pages);
        change_memory(lot.words_of(pages.clone()), how).map_err(failure("madvise"))?;
        Ok(lot.check(pages)?)
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.ranges
    }
}
