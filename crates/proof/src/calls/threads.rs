//! Threads that make the same call at once, each on regions of its own.

use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nodeward_pager::{Migration, Region, Supply};

use super::call_times::CallTimes;
use super::region_call::RegionCall;
use super::setting::{CallSetting, CallsPlan};
use crate::Error;

/// Ranges of a region that take turns, so that not one page is always in the caches.
const PLACES_MAX: usize = 8;

/// Bytes between two places: each is in a chunk of its own.
const PLACE_BYTES: usize = 2 << 20;

/// What the threads of a setting share.
pub struct CallThreads<'a> {
    pub plan: &'a CallsPlan,
    pub setting: &'a CallSetting,
    pub regions: &'a [Region],
    /// The region that moves all the time, if one does.
    pub large: Option<&'a Region>,
}

impl CallThreads<'_> {
    /// Measures a call for ranges of `bytes` bytes.
    pub fn measure(&self, call: RegionCall, bytes: usize) -> Result<CallTimes, Error> {
        let threads = self.setting.threads as usize;
        let (start, end) = (Barrier::new(threads), AtomicBool::new(false));
        thread::scope(|scope| {
            let large = self.large.map(|region| scope.spawn(|| self.migrate_until(region, &end)));
            let caller = |number| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    self.call_repeatedly(call, bytes, number)
                })
            };
            let callers: Vec<_> = (0..threads).map(caller).collect();
            let times = callers.into_iter().map(|caller| caller.join().expect("no panic"));
            let times = times.collect::<Result<Vec<_>, _>>();
            end.store(true, Ordering::Relaxed);
            large.map(|mover| mover.join().expect("no panic")).transpose()?;
            Ok(CallTimes::of(times?.concat()))
        })
    }

    /// Makes the call on regions of this thread in turn. Returns the times.
    fn call_repeatedly(
        &self,
        call: RegionCall,
        bytes: usize,
        thread: usize,
    ) -> Result<Vec<u64>, Error> {
        let (threads, nodes) = (self.setting.threads as usize, self.plan.nodes);
        let samples = call.samples(self.plan.samples);
        let mut times = Vec::with_capacity(samples);
        let own = self.regions.iter().skip(thread).step_by(threads).cycle();
        for (region, turn) in own.take(samples + 1).zip(0..) {
            let range = place(region, bytes, turn);
            let ns = call.time(region, &range, nodes)?;
            // The first call fills caches.
            times.extend((turn > 0).then_some(ns));
        }
        Ok(times)
    }

    /// Moves a large region to and fro until the measurement has ended.
    fn migrate_until(&self, region: &Region, end: &AtomicBool) -> Result<(), Error> {
        let nodes = self.plan.nodes;
        let how = Migration {
            supply: Supply::Any,
            even_if_there: !nodes.are_distinct(),
            ..Migration::default()
        };
        let all = 0..region.bytes();
        region.words().iter().step_by(512).for_each(|word| word.store(1, Ordering::Relaxed));
        for to in [nodes.to, nodes.from].into_iter().cycle() {
            if end.load(Ordering::Relaxed) {
                break;
            }
            region.migrate(all.clone(), to, &how)?;
        }
        Ok(())
    }
}

/// Returns the range of a turn, in the first half of the region.
fn place(region: &Region, bytes: usize, turn: usize) -> Range<usize> {
    let places = (region.bytes() / 2 / PLACE_BYTES).clamp(1, PLACES_MAX);
    let start = turn % places * PLACE_BYTES;
    start..start + bytes
}
