//! The figures of `bench pool`, by name, with the measurements that each needs.

use std::str::FromStr;

use nodeward_proof::{PeriodVisits, PoolContender, PoolPlan, PoolReport, PoolTimeline};
use serde_json::{Value, json};

use super::rounded;

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolFigure {
    /// Zone visits with the tuner by averages, after eight periods, relative to lists of a fixed
    /// length.
    ZoneVisitsDepth,
    /// The same with the tuner by events, after one pass.
    ZoneVisitsEvents,
    /// Speed relative to another allocator, for the slower of the tuned pools: one thread, single
    /// pages, zeroed or not.
    Versus(PoolContender, bool),
    /// Maximum that a tuned pool held, relative to the maximum in use.
    Held,
    /// Periods of rest until a tuned pool held no more than at first.
    IdlePeriods,
    /// Pages that a list may hold beyond its first length, where CPUs only allocate or only free.
    PureHigh,
}

/// The pools that tune their lists.
const TUNED: [PoolContender; 2] = [PoolContender::PoolDepth, PoolContender::PoolEvents];

/// Periods after which averages have settled.
const PERIODS_TO_SETTLE: usize = 8;

impl FromStr for PoolFigure {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "zone-visits-depth" => Self::ZoneVisitsDepth,
            "zone-visits-events" => Self::ZoneVisitsEvents,
            "vs-kernel" => Self::Versus(PoolContender::Kernel, false),
            "vs-kernel-zeroed" => Self::Versus(PoolContender::Kernel, true),
            "vs-mimalloc" => Self::Versus(PoolContender::Mimalloc, false),
            "vs-jemalloc" => Self::Versus(PoolContender::Jemalloc, false),
            "held" => Self::Held,
            "idle-periods" => Self::IdlePeriods,
            "pure-high" => Self::PureHigh,
            _ => {
                return Err("expected one of zone-visits-depth, zone-visits-events, vs-kernel, \
                            vs-kernel-zeroed, vs-mimalloc, vs-jemalloc, held, idle-periods, \
                            pure-high");
            }
        })
    }
}

impl PoolFigure {
    /// Returns the plan reduced to the measurements that this figure needs.
    pub fn plan(self, plan: &PoolPlan) -> PoolPlan {
        let alone = |contenders: &[PoolContender]| PoolPlan {
            contenders: contenders.to_vec(),
            threads: Vec::new(),
            over_time: true,
            pure: false,
            ..plan.clone()
        };
        match self {
            Self::ZoneVisitsDepth => alone(&[PoolContender::PoolFixed, PoolContender::PoolDepth]),
            Self::ZoneVisitsEvents => alone(&[PoolContender::PoolFixed, PoolContender::PoolEvents]),
            Self::Held | Self::IdlePeriods => alone(&TUNED),
            Self::PureHigh => {
                PoolPlan { over_time: false, pure: true, ..alone(&[PoolContender::PoolDepth]) }
            }
            Self::Versus(whom, zeroed) => PoolPlan {
                threads: vec![1],
                orders: vec![0],
                zeroed: vec![zeroed],
                // The kernel gets base pages, too; others choose theirs.
                huge: whom != PoolContender::Kernel,
                over_time: false,
                ..alone(&[[whom].as_slice(), &TUNED].concat())
            },
        }
    }

    /// Returns the number with its context; `None` if it could not be measured here.
    pub fn value(self, report: &PoolReport) -> Option<Value> {
        let number = match self {
            Self::ZoneVisitsDepth => {
                ratio_to_fixed(report, |timeline| mean(timeline.busy.get(PERIODS_TO_SETTLE..)?))
            }
            Self::ZoneVisitsEvents => {
                ratio_to_fixed(report, |timeline| mean(&timeline.after_one_pass))
            }
            Self::Versus(whom, _) => {
                let ratios = report.cells.iter().filter_map(|cell| cell.times_as_fast.get(&whom));
                ratios.map(|ratio| ratio.median).min_by(f64::total_cmp)
            }
            Self::Held => most(report.timelines.iter().map(PoolTimeline::held_share)),
            Self::IdlePeriods => {
                most(report.timelines.iter().map(PoolTimeline::idle_periods_at_least))
            }
            Self::PureHigh => {
                let beyond = |high: u64, default: u64| high.saturating_sub(default) as f64;
                most(report.pure.iter().map(|f| beyond(f.pcp_high_max, f.pcp_high_default)))
            }
        }?;
        // The frequent samples are only for the picture.
        let mut report = json!(report);
        for timeline in report["courses"].as_array_mut().into_iter().flatten() {
            timeline["looks"].take();
        }
        Some(json!({ "measured": rounded(number), "report": report }))
    }
}

fn most(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    numbers.max_by(f64::total_cmp)
}

/// Returns a value of the tuned pool relative to that of the fixed one.
fn ratio_to_fixed(report: &PoolReport, of: impl Fn(&PoolTimeline) -> Option<f64>) -> Option<f64> {
    let is_fixed = |timeline: &&PoolTimeline| timeline.contender == PoolContender::PoolFixed;
    let fixed = report.timelines.iter().find(is_fixed)?;
    let tuned = report.timelines.iter().find(|timeline| !is_fixed(timeline))?;
    Some(of(tuned)? / of(fixed)?.max(1.0))
}

fn mean(periods: &[PeriodVisits]) -> Option<f64> {
    let sum: f64 = periods.iter().map(|period| period.per_million).sum();
    (!periods.is_empty()).then(|| sum / periods.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(contender: PoolContender, visits: &[u64]) -> PoolTimeline {
        let period =
            |&visits: &u64| PeriodVisits { visits, pages: 1_000_000, per_million: visits as f64 };
        PoolTimeline {
            contender,
            threads: 2,
            period_ns: 1_000_000_000,
            after_one_pass: visits[..1].iter().map(period).collect(),
            busy: visits.iter().map(period).collect(),
            peak_held_bytes: 110,
            peak_in_use_bytes: 100,
            idle_periods: None,
            idle_from_ns: 10_000_000_000,
            looks: vec![nodeward_proof::PoolSample { at_ns: 15_000_000_000, ..Default::default() }],
        }
    }

    fn measured(figure: PoolFigure, timelines: &[PoolTimeline]) -> Option<f64> {
        let report = PoolReport { timelines: timelines.to_vec(), ..PoolReport::default() };
        figure.value(&report).map(|told| told["measured"].as_f64().unwrap())
    }

    /// Goal: the first eight periods do not count for averages, and one pass is enough for events:
    /// 200 and 400 of 30,000 visits are 0.01; 15,000 of 30,000 are 0.5.
    #[test]
    fn visits_are_a_part_of_those_of_fixed_lists() {
        let fixed = timeline(PoolContender::PoolFixed, &[30_000; 10]);
        let mut visits = [15_000; 10];
        visits[8..].copy_from_slice(&[200, 400]);
        let tuned = timeline(PoolContender::PoolDepth, &visits);
        let timelines = [fixed.clone(), tuned];
        assert_eq!(measured(PoolFigure::ZoneVisitsDepth, &timelines), Some(0.01));
        assert_eq!(measured(PoolFigure::ZoneVisitsEvents, &timelines), Some(0.5));
        assert_eq!(measured(PoolFigure::ZoneVisitsDepth, &[fixed]), None, "nothing to compare");
    }

    /// Goal: a pool that never shrank while it was observed has the observation time: 5 s.
    #[test]
    fn what_pools_hold() {
        let timelines = [timeline(PoolContender::PoolDepth, &[1])];
        assert_eq!(measured(PoolFigure::Held, &timelines), Some(1.1));
        assert_eq!(measured(PoolFigure::IdlePeriods, &timelines), Some(5.0));
    }

    #[test]
    fn other_names_are_refused() {
        assert!(
            "vs-malloc".parse::<PoolFigure>().unwrap_err().contains("vs-mimalloc, vs-jemalloc")
        );
    }
}
