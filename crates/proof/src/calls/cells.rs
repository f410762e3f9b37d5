//! The results of a benchmark of calls: the times of each call, and their ratio to the kernel's.

use nodeward_pager::{BareCalls, BareTimes};
use serde::Serialize;

use super::call_times::{CallTimes, PAGE_BYTES};
use super::region_call::RegionCall;
use super::setting::CallSetting;
use crate::Error;

/// The results of a benchmark of calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CallsReport {
    /// The calls, for each setting and size.
    pub cells: Vec<CallCell>,
    /// Opening and closing a pager.
    pub opening: Option<CallTimes>,
}

/// One call in one setting.
#[derive(Clone, Debug, Serialize)]
pub struct CallCell {
    /// The setting.
    pub setting: CallSetting,
    /// The call.
    pub call: RegionCall,
    /// Size of the range.
    pub bytes: usize,
    /// Its times, of all threads.
    pub times: CallTimes,
    /// Calls a second that all threads make together, by the median.
    pub calls_per_s: u64,
    /// The kernel's calls, right before and after it.
    pub bare: BareCell,
    /// Those of them that it is compared with; `None` if there are none.
    pub bare_ns: Option<u64>,
    /// Median time as a multiple of that.
    pub ratio: Option<f64>,
    /// 99th percentile as a multiple of the median.
    pub p99_ratio: f64,
}

/// Median times of the kernel's calls.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct BareCell {
    /// Size of the range.
    pub bytes: usize,
    /// UFFDIO_MOVE.
    pub move_ns: u64,
    /// UFFDIO_COPY.
    pub copy_ns: u64,
    /// MADV_DONTNEED.
    pub discard_ns: u64,
    /// MADV_POPULATE_WRITE.
    pub populate_ns: u64,
    #[serde(skip)]
    page: BareTimes,
}

impl CallCell {
    pub(super) fn new(
        setting: &CallSetting,
        call: RegionCall,
        bare: BareCell,
        times: CallTimes,
    ) -> Self {
        let median_ns = times.median_ns.max(1);
        let bare_ns = call.bare_ns(&bare.range(), &bare.page);
        Self {
            setting: setting.clone(),
            call,
            bytes: bare.bytes,
            times,
            bare,
            calls_per_s: u64::from(setting.threads) * 1_000_000_000 / median_ns,
            bare_ns,
            ratio: bare_ns.map(|bare_ns| median_ns as f64 / bare_ns.max(1) as f64),
            p99_ratio: times.p99_ns as f64 / median_ns as f64,
        }
    }
}

impl BareCell {
    pub(super) fn measure(
        calls: &mut BareCalls,
        bytes: usize,
        samples: usize,
    ) -> Result<Self, Error> {
        let range = median(calls, bytes, samples)?;
        let page = median(calls, PAGE_BYTES, samples)?;
        let BareTimes { move_ns, copy_ns, discard_ns, populate_ns } = range;
        Ok(Self { bytes, move_ns, copy_ns, discard_ns, populate_ns, page })
    }

    /// Returns the means of two measurements.
    pub(super) fn mean(self, other: Self) -> Self {
        let page = mean(&self.page, &other.page);
        let BareTimes { move_ns, copy_ns, discard_ns, populate_ns } =
            mean(&self.range(), &other.range());
        Self { bytes: self.bytes, move_ns, copy_ns, discard_ns, populate_ns, page }
    }

    fn range(&self) -> BareTimes {
        let Self { move_ns, copy_ns, discard_ns, populate_ns, .. } = *self;
        BareTimes { move_ns, copy_ns, discard_ns, populate_ns }
    }
}

fn mean(one: &BareTimes, other: &BareTimes) -> BareTimes {
    let of = |field: fn(&BareTimes) -> u64| field(one).midpoint(field(other));
    BareTimes {
        move_ns: of(|times| times.move_ns),
        copy_ns: of(|times| times.copy_ns),
        discard_ns: of(|times| times.discard_ns),
        populate_ns: of(|times| times.populate_ns),
    }
}

/// Returns the median of each call.
fn median(calls: &mut BareCalls, bytes: usize, samples: usize) -> Result<BareTimes, Error> {
    calls.time(bytes)?; // fills caches
    let times = (0..samples.max(1)).map(|_| calls.time(bytes)).collect::<Result<Vec<_>, _>>()?;
    let of = |field: fn(&BareTimes) -> u64| CallTimes::of(times.iter().map(field).collect());
    Ok(BareTimes {
        move_ns: of(|times| times.move_ns).median_ns,
        copy_ns: of(|times| times.copy_ns).median_ns,
        discard_ns: of(|times| times.discard_ns).median_ns,
        populate_ns: of(|times| times.populate_ns).median_ns,
    })
}
