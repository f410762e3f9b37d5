//! `nodeward bench balance`: the time of one decision.

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_machine::Machine as _;
use nodeward_policy::placement::case::{Size, grouped, misplaced};
use nodeward_policy::placement::{Homes, Rules};
use serde_json::json;

use crate::args::BenchBalanceArgs;
use crate::figures::{BalanceFigure, rounded};
use crate::message::exit::Exit;
use crate::output;

/// Decisions about each machine: the first gives all processes a home, the others bring them there.
const ROUNDS: u64 = 5;
/// Time between two decisions, in nanoseconds.
const INTERVAL_NS: u64 = 1_000_000_000;

/// Decides, and prints the median time of first decisions or of later ones, whichever is longer.
pub fn run(args: &BenchBalanceArgs) -> Result<Exit> {
    let size = match args.figure {
        BalanceFigure::Decision => Size::LARGE,
        BalanceFigure::GroupDecision => Size::GROUPS,
    };
    let machine = Linux::open();
    let (mut first_ms, mut later_ms) = (Vec::new(), Vec::new());
    for _ in 0..args.runs {
        let mut snapshot = match args.figure {
            BalanceFigure::Decision => misplaced(size),
            BalanceFigure::GroupDecision => grouped(),
        };
        let mut homes = Homes::default();
        for round in 0..ROUNDS {
            let began_ns = machine.own_cpu_time_ns();
            let plan = homes.decide(&snapshot, &Rules::default());
            let ms = (machine.own_cpu_time_ns() - began_ns) as f64 / 1e6;
            drop(plan);
            if round == 0 {
                first_ms.push(ms);
            } else {
                later_ms.push(ms);
            }
            snapshot.at_ns += INTERVAL_NS;
        }
    }
    let [first, later] = [first_ms, later_ms].map(median);
    let number = json!({
        "measured": rounded(first.max(later)),
        "unit": "ms",
        "first_ms": rounded(first),
        "later_ms": rounded(later),
        "cpus": size.cpus,
        "nodes": size.nodes,
        "threads": size.threads,
        "runs": args.runs,
    });
    output::print(&format!("{number}\n"))?;
    Ok(Exit::Done)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: one outlier does not make the number.
    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }
}
