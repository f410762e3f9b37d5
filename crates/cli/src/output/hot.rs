//! A decision about hot pages, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodeward_model::NodeId;
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_policy::hot::{HotMove, HotPlan};
use serde_json::{Value, json};

/// A decision, and its input.
#[derive(Debug)]
pub struct HotReport {
    /// Pages with counted accesses.
    pub pages: u64,
    /// Misses per counted access.
    pub misses_per_count: u64,
    /// The decision.
    pub plan: HotPlan,
}

impl HotReport {
    /// Formats it for people.
    pub fn text(&self, page_bytes: u64) -> String {
        let kept = &self.plan.remaining;
        let mut text = format!(
            "hot: {} pages counted; {} are used best where they are, {} would not pay, {} are \
             beyond --hot-max, {} are not in memory\n",
            self.pages, kept.here_already, kept.does_not_pay, kept.beyond_cap, kept.not_in_memory,
        );
        for (to, (pages, gain_ns)) in self.by_destination() {
            let bytes = format_bytes(pages * page_bytes);
            let gain = format_ns(gain_ns);
            let _ = writeln!(text, "  to node {to}: {pages} pages ({bytes}), {gain} to be gained");
        }
        text
    }

    /// Formats it for programs.
    pub fn json(&self) -> Value {
        let kept = &self.plan.remaining;
        let destination = |(to, (pages, gain_ns))| -> Value {
            json!({ "to": to, "pages": pages, "gain_ns": gain_ns })
        };
        json!({
            "counted_pages": self.pages,
            "misses_per_count": self.misses_per_count,
            "moves": self.by_destination().into_iter().map(destination).collect::<Vec<_>>(),
            "kept_pages": {
                "here_already": kept.here_already,
                "does_not_pay": kept.does_not_pay,
                "beyond_cap": kept.beyond_cap,
                "not_in_memory": kept.not_in_memory,
            },
        })
    }

    /// Returns the pages to move, and the time saved on their misses minus the cost of the moves,
    /// by destination.
    fn by_destination(&self) -> BTreeMap<NodeId, (u64, u64)> {
        let mut sums: BTreeMap<NodeId, (u64, u64)> = BTreeMap::new();
        for folio in &self.plan.moves {
            let (pages, gain_ns) = sums.entry(folio.to).or_default();
            *pages += u64::from(folio.pages);
            *gain_ns = gain_ns.saturating_add(HotMove::gain_ns(folio));
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use nodeward_policy::hot::RemainingPages;

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
        let told = HotReport { pages: 1050, misses_per_count: 64, plan };
        insta::assert_snapshot!(told.text(4096));
        insta::assert_snapshot!(serde_json::to_string_pretty(&told.json()).unwrap());
    }
}
