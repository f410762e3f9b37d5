//! Results of tuning page lists.

use nodeward_linux::page_lists::SelfTuning;
use nodeward_model::CpuId;
use serde::Serialize;

use super::CpuListUse;

/// The end of a change of the setting of all page lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingEnd {
    /// The value is this again.
    Restored(u32),
    /// Another program set this value meanwhile; it stands.
    Changed(u32),
    /// The change was made in an earlier boot.
    OfEarlierBoot,
}

/// A period of the tuner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TuningRound {
    /// From 1.
    pub round: u64,
    /// The length of the period.
    pub elapsed_ns: u64,
    /// Whether the setting is changed, not only told.
    pub acts: bool,
    /// The value before the tuner began.
    pub original_fraction: u32,
    /// The choice in the period before.
    pub before_fraction: u32,
    /// The choice now.
    pub chosen_fraction: u32,
    /// Whether memory was short.
    pub is_memory_short: bool,
    /// How many pages more than by default all lists together may hold by this choice.
    pub stranded_pages: u64,
    /// Events since the start that were not counted.
    pub missed_events: u64,
    /// Whether it was counted, or at rest.
    pub is_counted: bool,
    /// The CPU that asked for the smallest fraction, if one asked for any.
    pub decided_by: Option<CpuId>,
    /// What each CPU did and could use; none at rest.
    pub cpus: Vec<CpuListUse>,
}

/// A depth below this part of a list's default length is as good as none.
const SHALLOW_PARTS: u64 = 4;

impl TuningRound {
    /// Returns the largest average depth of a CPU; 0 if all are far below what lists hold anyway.
    pub fn depth_pages(&self) -> u64 {
        let is_deep =
            |cpu: &&CpuListUse| u64::from(cpu.depth_pages) * SHALLOW_PARTS > cpu.default_high_pages;
        let deep = self.cpus.iter().filter(is_deep);
        deep.map(|cpu| u64::from(cpu.depth_pages)).max().unwrap_or(0)
    }

    /// Returns what the CPU did that decided, if one did.
    pub fn decider(&self) -> Option<&CpuListUse> {
        self.cpus.iter().find(|cpu| Some(cpu.cpu) == self.decided_by)
    }
}

/// What is advised after a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuningAdvice {
    /// Whether the kernel tunes its lists itself.
    pub self_tuning: SelfTuning,
    /// The value of the setting; `None` if the kernel has none.
    pub high_fraction: Option<u32>,
    /// The time that was watched.
    pub watched_ns: u64,
    /// What each CPU did in it, and the longest list that it asked for.
    pub cpus: Vec<CpuListUse>,
    /// The one setting for all that does for them; `None` if the default does.
    pub advised_fraction: Option<u32>,
    /// How many pages more than by default all lists together may then hold.
    pub stranded_pages: u64,
    /// Events that were not counted.
    pub missed_events: u64,
}

impl TuningAdvice {
    /// Returns the length of a CPU's list with the advised setting.
    pub fn advised_high(&self, cpu: &CpuListUse) -> u64 {
        let high = self.advised_fraction.map_or(0, |fraction| cpu.zone.high(fraction));
        high.max(cpu.default_high_pages)
    }

    /// Estimates how many of a CPU's visits the advised setting would have saved.
    pub fn saved_visits(&self, cpu: &CpuListUse) -> u64 {
        cpu.saved_visits(self.advised_high(cpu))
    }
}
