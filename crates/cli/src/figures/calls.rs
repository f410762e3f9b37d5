//! The figures of `bench calls`, by name, with the measurements that each needs.

use std::str::FromStr;

use nodeward_proof::{CallCell, CallSetting, CallsPlan, CallsReport, RegionCall};
use serde_json::{Value, json};

use super::rounded;

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallsFigure {
    /// The time of a call for a range of this size, relative to the kernel's calls.
    Ratio(RegionCall, usize),
    /// The largest 99th percentile of a call for a page, but not of a pin or a list, relative to
    /// its median: alone, among many regions, and beside a migration.
    P99,
    /// Calls for a page that two threads make, relative to one.
    Threads(RegionCall),
    /// The time of opening and closing a pager, in ms.
    Open,
}

const PAGE: usize = 4 << 10;

impl FromStr for CallsFigure {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "migrate-4k" => Self::Ratio(RegionCall::OneWay, PAGE),
            "migrate-64k" => Self::Ratio(RegionCall::OneWay, 16 * PAGE),
            "there" => Self::Ratio(RegionCall::There, PAGE),
            "exchange" => Self::Ratio(RegionCall::Exchange, PAGE),
            "pin" => Self::Ratio(RegionCall::Pin, PAGE),
            "discard" => Self::Ratio(RegionCall::Discard, PAGE),
            "commit" => Self::Ratio(RegionCall::Commit, PAGE),
            "list" => Self::Ratio(RegionCall::List, PAGE),
            "p99" => Self::P99,
            "threads" => Self::Threads(RegionCall::OneWay),
            "threads-there" => Self::Threads(RegionCall::There),
            "open" => Self::Open,
            _ => {
                return Err("expected one of migrate-4k, migrate-64k, there, exchange, pin, \
                            discard, commit, list, p99, threads, threads-there, open");
            }
        })
    }
}

impl CallsFigure {
    /// Returns the plan reduced to the measurements that this figure needs.
    pub fn plan(self, plan: &CallsPlan) -> CallsPlan {
        let (calls, sizes) = match self {
            Self::Ratio(call, bytes) => (vec![call], vec![bytes]),
            Self::P99 => {
                // A pin takes less than a few reads from memory that is in no cache.
                let is_longer =
                    |call: &&RegionCall| !matches!(call, RegionCall::List | RegionCall::Pin);
                (plan.calls.iter().filter(is_longer).copied().collect(), vec![PAGE])
            }
            Self::Threads(call) => (vec![call], vec![PAGE]),
            Self::Open => (Vec::new(), Vec::new()),
        };
        let wanted = |setting: &&CallSetting| match self {
            Self::Ratio(..) => setting.threads == 1,
            Self::P99 => setting.threads == 1,
            Self::Threads(_) => setting.threads <= 2 && setting.regions <= 2,
            Self::Open => false,
        };
        let settings = plan.settings.iter().filter(wanted);
        let settings = settings.map(|it| CallSetting { sizes: sizes.clone(), ..it.clone() });
        let most = if let Self::Ratio(..) = self { 1 } else { usize::MAX };
        let opens = if self == Self::Open { plan.opens } else { 0 };
        CallsPlan { settings: settings.take(most).collect(), calls, opens, ..plan.clone() }
    }

    /// Returns the number with its context; `None` if it was not measured.
    pub fn value(self, report: &CallsReport) -> Option<Value> {
        let number = match self {
            Self::Ratio(..) => report.cells.first()?.ratio,
            Self::P99 => report.cells.iter().map(|cell| cell.p99_ratio).max_by(f64::total_cmp),
            Self::Threads(_) => threads_ratio(&report.cells),
            Self::Open => report.opening.map(|opening| opening.median_ns as f64 / 1e6),
        }?;
        let number = rounded(number);
        Some(match self {
            Self::Open => json!({ "measured": number, "unit": "ms", "report": report }),
            _ => json!({ "measured": number, "report": report }),
        })
    }
}

/// Returns the calls of two threads relative to those of one.
fn threads_ratio(cells: &[CallCell]) -> Option<f64> {
    let calls = |threads| {
        let found = cells
            .iter()
            .find(|cell| (cell.setting.threads, cell.setting.beside_migration) == (threads, false));
        found.map(|cell| cell.calls_per_s as f64)
    };
    Some(calls(2)? / calls(1)?)
}

#[cfg(test)]
mod tests {
    use nodeward_proof::{BareCell, CallTimes};

    use super::*;

    fn cell(threads: u32, beside_migration: bool, calls_per_s: u64, p99_ratio: f64) -> CallCell {
        CallCell {
            setting: CallSetting {
                threads,
                regions: threads,
                region_bytes: 64 << 20,
                beside_migration,
                sizes: vec![PAGE],
            },
            call: RegionCall::OneWay,
            bytes: PAGE,
            times: CallTimes::default(),
            bare: BareCell::default(),
            calls_per_s,
            bare_ns: Some(3000),
            ratio: Some(2.5),
            p99_ratio,
        }
    }

    /// Goal: 190 calls a second of two threads are 1.9 times 100 of one; the largest 99th
    /// percentile counts, wherever it was; the ratio is that of the first setting; opening is told
    /// in ms.
    #[test]
    fn figures_are_found() {
        let cells =
            vec![cell(1, false, 100, 2.0), cell(2, false, 190, 3.0), cell(1, true, 50, 4.0)];
        let opening = Some(CallTimes { median_ns: 1_500_000, p99_ns: 0 });
        let report = CallsReport { cells, opening };
        let measured = |figure: &str| {
            let figure: CallsFigure = figure.parse().unwrap();
            figure.value(&report).unwrap()["measured"].as_f64().unwrap()
        };
        assert_eq!(measured("threads"), 1.9);
        assert_eq!(measured("threads-there"), 1.9);
        assert_eq!(measured("p99"), 4.0);
        assert_eq!(measured("migrate-64k"), 2.5);
        assert_eq!(measured("open"), 1.5);
        assert_eq!(CallsFigure::Threads(RegionCall::OneWay).value(&CallsReport::default()), None);
        assert!("migrate".parse::<CallsFigure>().unwrap_err().contains("migrate-4k"));
    }
}
