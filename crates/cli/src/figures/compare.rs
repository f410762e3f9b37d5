//! The figures of `sim compare`: which balancers each needs, and its value.

use std::collections::BTreeMap;

use clap::ValueEnum;
use nodeward_experiments::compare::{BalancerKind, CASES, CaseTable, CompareCase, Requirement};
use serde_json::{Value, json};

use super::rounded;

/// A figure of SPEC.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareFigure {
    /// Share of local accesses at the end under nodeward, in per cent: the smallest of the loads of
    /// 2012
    Local,
    /// Work done under nodeward relative to no balancer: the smallest of all loads
    Work,
    /// Pages moved by nodeward relative to those of the kernel's balancing: the largest of the
    /// loads of 2012
    Pages,
    /// Pages that nodeward moves in a minute on generated machines with constant loads, once all
    /// memory is at home
    Static,
}

impl CompareFigure {
    /// Returns whether the figure needs a run of a balancer.
    pub fn needs(self, by: BalancerKind) -> bool {
        match self {
            Self::Local => by == BalancerKind::Nodeward,
            Self::Work => matches!(by, BalancerKind::Nodeward | BalancerKind::Nothing),
            Self::Pages => matches!(by, BalancerKind::Nodeward | BalancerKind::Kernel),
            Self::Static => false,
        }
    }

    /// Formats a number with its unit, if it has one, as SPEC.md's checks read it.
    pub fn value(self, tables: &[CaseTable]) -> Value {
        let of_2012 = |table: &&CaseTable| {
            let case = CASES.iter().find(|case| case.name == table.name);
            let is_of_2012 = |case: &CompareCase| {
                matches!(
                    case.requirement,
                    Requirement::LocalMemory | Requirement::LocalByMovingThreads
                )
            };
            self == Self::Work || case.is_some_and(is_of_2012)
        };
        let one = |table: &CaseTable| {
            let ours = table.figures_of(BalancerKind::Nodeward)?;
            let value = match self {
                Self::Local => ours.local_milli as f64 / 10.0,
                Self::Work => ours.work_milli as f64 / 1e3,
                _ => {
                    ours.pages as f64 / table.figures_of(BalancerKind::Kernel)?.pages.max(1) as f64
                }
            };
            Some((table.name, rounded(value)))
        };
        let cases: BTreeMap<_, _> = tables.iter().filter(of_2012).filter_map(one).collect();
        let values = cases.values().copied();
        let worst = match self {
            Self::Pages => values.fold(0.0, f64::max),
            _ => values.fold(f64::INFINITY, f64::min),
        };
        let mut told = json!({ "measured": worst, "cases": cases });
        if self == Self::Local {
            told["unit"] = json!("%");
        }
        told
    }
}
