//! The tuner: counts what each CPU allocates and frees in turn, and has lists hold as much.

use std::io::PipeReader;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_linux::page_lists::{HIGH_FRACTION, PageListState, SelfTuning};
use nodeward_linux::pressure::PressureMonitor;
use nodeward_linux::procfs::allocations::{self, AllocationCounts};
use nodeward_linux::procfs::page_lists;
use nodeward_machine::{Error, Machine as _};
use nodeward_model::{CpuId, ZoneLists};
use nodeward_policy::pcp::{CountingTurns, FractionBounds, FractionTuner, fraction_for};

use super::depths::DepthWatch;
use super::setting::{HeldSetting, SettingOwner};
use crate::output::pcp;
use crate::results::{CpuListUse, SettingEnd, TuningRound};

/// The setting, while it is held. It is not locked while something is printed.
static HELD: Mutex<Option<HeldSetting>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<HeldSetting>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Restores the setting when this is dropped, by an error or a panic, too.
pub struct RestoredAtEnd;

impl Drop for RestoredAtEnd {
    fn drop(&mut self) {
        drop(held().take());
    }
}

/// Restores the setting, if it is held; `None` if it was not, or nobody changed it.
///
/// # Errors
/// If it cannot be set; the record then stays for the next start.
pub fn restore_held() -> Result<Option<SettingEnd>> {
    let setting = held().take();
    setting.map_or(Ok(None), HeldSetting::end)
}

/// What a tuner is to do.
#[derive(Clone, Copy, Debug)]
pub struct TuningOptions {
    pub bounds: FractionBounds,
    /// The period in which depths are measured.
    pub interval_ns: u64,
    /// Only tell what would be set.
    pub dry_run: bool,
    /// Set it also on a kernel that tunes its lists itself.
    pub anyway: bool,
}

/// A tuner that runs.
pub struct Tuning {
    options: TuningOptions,
    /// Whether the setting is changed, not only told.
    acts: bool,
    depths: DepthWatch,
    pressure: PressureMonitor,
    waker: PipeReader,
    tuner: FractionTuner,
    turns: CountingTurns,
    /// What the last period that was counted asked for.
    wanted: Option<u32>,
    decided_by: Option<CpuId>,
    allocations: AllocationCounts,
    missed_events: u64,
    original: u32,
    chosen: u32,
    page_bytes: u64,
    round: u64,
}

impl Tuning {
    /// Begins. `waker` is hung up when the tuner is to look whether it is to end. On a kernel that
    /// tunes its lists itself the setting is only told, which is said.
    ///
    /// # Errors
    /// If lists cannot be counted or set here, with what is missing.
    pub fn begin(options: TuningOptions, waker: PipeReader) -> Result<Self> {
        let root = Path::new("/");
        let state = PageListState::read(root)?;
        if state.high_fraction.is_none() {
            let (action, reason) = (HIGH_FRACTION.action, HIGH_FRACTION.missing.to_owned());
            return Err(Error::Unsupported { action, reason }.into());
        }
        let tunes_itself = state.self_tuning != SelfTuning::Absent;
        if tunes_itself && !options.anyway {
            say!("nodeward: {} Nothing is set; --anyway sets it.", pcp::tuning_line(&state));
        }
        let acts = !options.dry_run && (!tunes_itself || options.anyway);
        let setting = acts.then(|| HeldSetting::hold(root)).transpose()?;
        let setting = setting.map(|(setting, left)| {
            left.into_iter().for_each(|left| {
                say!("nodeward: a tuner that was killed left it set; {}", pcp::setting_end(left));
            });
            setting
        });
        // After that: what was left by another is no default.
        let state = PageListState::read(root)?;
        let pressure = PressureMonitor::watch_machine(root)?;
        let mut depths = DepthWatch::start(&state)?;
        depths.drop_capabilities()?;
        let read = state.high_fraction.unwrap_or(0);
        let original = setting.as_ref().map_or(read, HeldSetting::original);
        *held() = setting;
        Ok(Self {
            options,
            acts,
            depths,
            pressure,
            waker,
            tuner: FractionTuner::default(),
            turns: CountingTurns::default(),
            wanted: None,
            decided_by: None,
            allocations: allocations::read(root)?,
            missed_events: 0,
            original,
            chosen: original,
            page_bytes: Linux::open().page_bytes(),
            round: 0,
        })
    }

    /// Returns the size of a page.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Tunes until it is stopped or `end`, or until another program sets the value.
    ///
    /// # Errors
    /// If lists cannot be counted or set any more, or what `tell` returns.
    pub fn run(
        &mut self,
        is_stopped: &dyn Fn() -> bool,
        end: Option<Instant>,
        tell: &dyn Fn(&TuningRound) -> Result<()>,
    ) -> Result<()> {
        while !is_stopped() && end.is_none_or(|end| Instant::now() < end) {
            let began = Instant::now();
            let Some(is_stalled) = self.wait_period(is_stopped, end)? else { break };
            let (round, kept) = self.choose(is_stalled, began.elapsed())?;
            tell(&round)?;
            self.take_turn(&round)?;
            if let SettingOwner::Theirs(_) = kept {
                break;
            }
        }
        Ok(())
    }

    /// Waits for the end of the period, or until memory is short. Returns whether it is; `None` if
    /// the tuner is to end before.
    fn wait_period(
        &mut self,
        is_stopped: &dyn Fn() -> bool,
        end: Option<Instant>,
    ) -> Result<Option<bool>> {
        let period_end = Instant::now() + Duration::from_nanos(self.options.interval_ns);
        let until = end.map_or(period_end, |end| end.min(period_end));
        while Instant::now() < until && !is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if self.pressure.wait(left, &self.waker)? {
                return Ok(Some(true));
            }
        }
        let is_over = is_stopped() || until < period_end;
        Ok((!is_over).then_some(false))
    }

    fn choose(
        &mut self,
        is_stalled: bool,
        elapsed: Duration,
    ) -> Result<(TuningRound, SettingOwner)> {
        let zones = page_lists::zones(Path::new("/"))?;
        let is_counted = self.turns.counts();
        let cpus = if is_counted { self.count(&zones)? } else { Vec::new() };
        let is_memory_short = is_stalled || zones.iter().any(is_short);
        let chosen = self.tuner.choose(self.wanted, is_memory_short);
        let kept = match &mut *held() {
            Some(setting) => setting.choose(chosen)?,
            None => SettingOwner::Ours,
        };
        self.round += 1;
        let before_fraction = self.chosen;
        if kept == SettingOwner::Ours {
            self.chosen = chosen.unwrap_or(self.original);
        }
        let stranded = |fraction| self.depths.stranded_pages(fraction, &zones);
        let round = TuningRound {
            round: self.round,
            elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            acts: self.acts,
            original_fraction: self.original,
            before_fraction,
            chosen_fraction: self.chosen,
            is_memory_short,
            stranded_pages: if self.chosen == self.original { 0 } else { stranded(self.chosen) },
            missed_events: self.missed_events,
            is_counted,
            decided_by: self.decided_by.filter(|_| is_counted),
            cpus,
        };
        Ok((round, kept))
    }

    /// Ends a period that was counted.
    fn count(&mut self, zones: &[ZoneLists]) -> Result<Vec<CpuListUse>> {
        let found = self.depths.end_period(zones)?;
        let bounds = self.options.bounds;
        let wish = |cpu: &CpuListUse| Some((fraction_for(&[cpu.demand()], bounds)?, cpu.cpu));
        let decision = found.cpus.iter().filter_map(wish).min();
        (self.wanted, self.decided_by) = decision.unzip();
        self.missed_events = found.missed_events;
        Ok(found.cpus)
    }

    /// Decides whether the next period is counted.
    fn take_turn(&mut self, round: &TuningRound) -> Result<()> {
        let allocations = allocations::read(Path::new("/"))?;
        let allocated =
            allocations.allocated_pages.saturating_sub(self.allocations.allocated_pages);
        self.allocations = allocations;
        let is_changed = round.before_fraction != round.chosen_fraction;
        match round.is_counted {
            true => self.turns.counted(round.depth_pages(), self.tuner.is_held_back()),
            false => self.turns.rested(allocated, is_changed),
        }
        match (round.is_counted, self.turns.counts()) {
            (true, false) => self.depths.rest(),
            (false, true) => self.depths.resume(),
            _ => Ok(()),
        }
    }
}

/// Returns whether a zone has so few free pages that the kernel reclaims.
fn is_short(zone: &ZoneLists) -> bool {
    zone.free_pages <= zone.high_watermark_pages
}
