//! The figures of `sim compare`: which balancers each needs, and its value.

use std::collections::BTreeMap;

use clap::ValueEnum;
use nodeward_experiments::compare::{
    BalancerFigures, BalancerKind, CaseTable, CompareCase, Requirement,
};
use serde_json::{Value, json};

use super::rounded;

/// A figure of SPEC.md. It is that of the loads that are named, else of those that it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareFigure {
    /// Share of local accesses at the end under nodeward, in per cent: the smallest of the loads of
    /// 2012
    Local,
    /// Work done under nodeward relative to no balancer: the smallest of all loads
    Work,
    /// The same relative to the kernel's balancing: the smallest of all loads
    KernelWork,
    /// Pages moved by nodeward relative to those of the kernel's balancing: the largest of the
    /// loads of 2012
    Pages,
    /// Work done under the kernel's balancing with nodeward beside it (`--rivals cooperate`)
    /// relative to the kernel's alone: the smallest of all loads
    BesideWork,
    /// The same of pages moved: the largest of the loads of 2012
    BesidePages,
    /// Pages that nodeward moves in a minute on generated machines with constant loads, once all
    /// memory is at home
    Static,
}

impl CompareFigure {
    /// Returns the balancers under which loads run for the figure.
    pub fn balancers(self) -> &'static [BalancerKind] {
        use BalancerKind::{Cooperating, Kernel, Nodeward, Nothing};
        match self {
            Self::Local => &[Nodeward],
            Self::Work => &[Nodeward, Nothing],
            Self::KernelWork => &[Nodeward, Kernel, Nothing],
            Self::Pages => &[Nodeward, Kernel],
            Self::BesideWork => &[Cooperating, Kernel, Nothing],
            Self::BesidePages => &[Cooperating, Kernel],
            Self::Static => &[],
        }
    }

    /// Returns whether it is of a load that nobody named.
    pub fn is_of(self, case: &CompareCase) -> bool {
        let is_of_2012 = matches!(
            case.requirement,
            Requirement::LocalMemory | Requirement::LocalByMovingThreads
        );
        is_of_2012 || matches!(self, Self::Work | Self::KernelWork | Self::BesideWork)
    }

    /// Formats a number with its unit, if it has one, as SPEC.md's checks read it.
    pub fn value(self, tables: &[CaseTable]) -> Value {
        let of_case = |table: &CaseTable| Some((table.name.clone(), rounded(self.of_case(table)?)));
        let cases: BTreeMap<_, _> = tables.iter().filter_map(of_case).collect();
        let values = cases.values().copied();
        let worst = match self {
            Self::Pages | Self::BesidePages => values.fold(0.0, f64::max),
            _ => values.fold(f64::INFINITY, f64::min),
        };
        let mut told = json!({ "measured": worst, "cases": cases });
        if self == Self::Local {
            told["unit"] = json!("%");
        }
        told
    }

    fn of_case(self, table: &CaseTable) -> Option<f64> {
        let ours = table.figures_of(*self.balancers().first()?)?;
        let kernel = || table.figures_of(BalancerKind::Kernel);
        let work = |of: &BalancerFigures| Some(of.median.work_milli? as f64);
        let ratio = |ours: f64, others: f64| ours / others.max(1.0);
        Some(match self {
            Self::Local => ours.median.local_milli as f64 / 10.0,
            Self::Work => work(ours)? / 1e3,
            Self::KernelWork | Self::BesideWork => ratio(work(ours)?, work(kernel()?)?),
            Self::Pages | Self::BesidePages => ratio(ours.pages_mean, kernel()?.pages_mean),
            Self::Static => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use nodeward_experiments::compare::CASES;

    use super::*;

    /// Goal: where no load is named, shares and pages are of the loads of 2012, work of all.
    #[test]
    fn a_figure_has_its_loads() {
        let loads = |figure: CompareFigure| CASES.iter().filter(|case| figure.is_of(case)).count();
        assert_eq!([CompareFigure::Local, CompareFigure::BesidePages].map(loads), [4, 4]);
        assert_eq!([CompareFigure::Work, CompareFigure::BesideWork].map(loads), [CASES.len(); 2]);
    }
}
