//! A decision about hot pages, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodeward_model::NodeId;
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_mover::TimePlan;
use nodeward_policy::hot::ranges::RemainingRanges;
use nodeward_policy::hot::{HotPlan, RemainingPages};
use serde_json::{Value, json};

/// A decision, and its input.
#[derive(Debug)]
pub struct HotReport {
    /// Pages with counted or sampled accesses.
    pub pages: u64,
    /// The decision.
    pub choice: HotChoice,
}

/// A decision.
#[derive(Debug)]
pub enum HotChoice {
    /// By counts of accesses, page by page.
    ByCounts {
        /// Misses per counted access.
        misses_per_count: u64,
        /// The decision.
        plan: HotPlan,
    },
    /// By sampled time, also of ranges of pages.
    ByTime(TimePlan),
}

/// Pages to move and the time that this saves, less the cost, by destination.
type Destinations = BTreeMap<NodeId, (u64, u64)>;

impl HotReport {
    /// Formats it for people.
    pub fn text(&self, page_bytes: u64) -> String {
        let mut text = match &self.choice {
            HotChoice::ByCounts { plan, .. } => self.counts_text(&plan.remaining),
            HotChoice::ByTime(plan) => self.time_text(&plan.ranges.remaining),
        };
        for (to, (pages, gain_ns)) in self.choice.by_destination() {
            let bytes = format_bytes(pages * page_bytes);
            let gain = format_ns(gain_ns);
            let _ = writeln!(text, "  to node {to}: {pages} pages ({bytes}), {gain} to be gained");
        }
        text
    }

    fn counts_text(&self, kept: &RemainingPages) -> String {
        format!(
            "hot: {} pages counted; {} are used best where they are, {} would not pay, {} are \
             beyond --hot-max, {} are not in memory\n",
            self.pages, kept.here_already, kept.does_not_pay, kept.beyond_cap, kept.not_in_memory,
        )
    }

    fn time_text(&self, kept: &RemainingRanges) -> String {
        format!(
            "hot: {} pages sampled; of all pages {} are where they are used, {} are used from \
             several nodes, {} have too few samples, {} would not pay, {} were not confirmed, {} \
             are beyond --hot-max\n",
            self.pages,
            kept.here_already,
            kept.shared,
            kept.too_few_samples,
            kept.does_not_pay,
            kept.not_confirmed,
            kept.beyond_cap,
        )
    }

    /// Formats it for programs.
    pub fn json(&self) -> Value {
        let destination = |(to, (pages, gain_ns))| -> Value {
            json!({ "to": to, "pages": pages, "gain_ns": gain_ns })
        };
        let moves: Vec<_> = self.choice.by_destination().into_iter().map(destination).collect();
        match &self.choice {
            HotChoice::ByCounts { misses_per_count, plan } => json!({
                "counted_pages": self.pages,
                "misses_per_count": misses_per_count,
                "moves": moves,
                "kept_pages": {
                    "here_already": plan.remaining.here_already,
                    "does_not_pay": plan.remaining.does_not_pay,
                    "beyond_cap": plan.remaining.beyond_cap,
                    "not_in_memory": plan.remaining.not_in_memory,
                },
            }),
            HotChoice::ByTime(TimePlan { ranges, .. }) => json!({
                "sampled_pages": self.pages,
                "moves": moves,
                "kept_pages": {
                    "here_already": ranges.remaining.here_already,
                    "shared": ranges.remaining.shared,
                    "too_few_samples": ranges.remaining.too_few_samples,
                    "does_not_pay": ranges.remaining.does_not_pay,
                    "not_confirmed": ranges.remaining.not_confirmed,
                    "beyond_cap": ranges.remaining.beyond_cap,
                },
            }),
        }
    }
}

impl HotChoice {
    fn by_destination(&self) -> Destinations {
        let mut sums = Destinations::new();
        let mut add = |to: NodeId, more: u64, gain: u64| {
            let (pages, gain_ns) = sums.entry(to).or_default();
            *pages += more;
            *gain_ns = gain_ns.saturating_add(gain);
        };
        let folios = match self {
            Self::ByCounts { plan, .. } => &plan.moves,
            Self::ByTime(plan) => {
                plan.ranges.moves.iter().for_each(|it| add(it.to, it.pages, it.gain_ns()));
                &plan.folios
            }
        };
        folios.iter().for_each(|it| add(it.to, u64::from(it.pages), it.gain_ns()));
        sums
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::Range;
    use nodeward_policy::hot::HotMove;
    use nodeward_policy::hot::ranges::{RangeMove, RangePlan};

    use super::*;

    #[test]
    fn a_decision_as_text_and_json() {
        let folio = |address, to, saved_ns| HotMove {
            address,
            pages: 512,
            from: NodeId(0),
            to: NodeId(to),
            saved_ns,
            cost_ns: 1_000_000,
        };
        let kept =
            RemainingPages { here_already: 5, does_not_pay: 6, beyond_cap: 7, not_in_memory: 8 };
        let moves = vec![folio(0, 1, 9_000_000), folio(1 << 21, 2, 3_000_000)];
        let plan = HotPlan { moves, remaining: kept };
        let choice = HotChoice::ByCounts { misses_per_count: 64, plan };
        let told = HotReport { pages: 1050, choice };
        insta::assert_snapshot!(told.text(4096));
        insta::assert_snapshot!(serde_json::to_string_pretty(&told.json()).unwrap());
    }

    /// Goal: ranges and single folios to the same node are summed up.
    #[test]
    fn a_decision_by_time_as_text_and_json() {
        let range = RangeMove {
            range: Range::new(0x1000, 0x40_0000),
            pages: 1000,
            to: NodeId(1),
            saved_ns: 50_000_000,
            cost_ns: 20_000_000,
        };
        let folio = HotMove {
            address: 0x80_0000,
            pages: 24,
            from: NodeId(0),
            to: NodeId(1),
            saved_ns: 8_000_000,
            cost_ns: 1_000_000,
        };
        let remaining = RemainingRanges {
            here_already: 1,
            shared: 2,
            too_few_samples: 3,
            does_not_pay: 4,
            not_confirmed: 5,
            beyond_cap: 6,
        };
        let plan =
            TimePlan { ranges: RangePlan { moves: vec![range], remaining }, folios: vec![folio] };
        let told = HotReport { pages: 400, choice: HotChoice::ByTime(plan) };
        insta::assert_snapshot!(told.text(4096));
        insta::assert_snapshot!(serde_json::to_string_pretty(&told.json()).unwrap());
    }
}
