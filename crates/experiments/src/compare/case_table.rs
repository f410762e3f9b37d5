//! A case as a table, with a verdict on the goals for nodeward.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compare::{BalancerKind, CompareCase, CompareOutcome, Requirement};

/// Goal of local lines per 1000 at the end, where memory can become local.
const LOCAL_MILLI: u64 = 950;
/// What may lack of the local lines of placing by hand, per 1000.
const LOCAL_SLACK_MILLI: u64 = 20;
/// Goal of work, per 1000 of the work without a balancer.
const WORK_MILLI: u64 = 980;

/// A case with its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseTable {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Simulated time, in virtual nanoseconds.
    pub time_ns: u64,
    /// The results of each balancer.
    pub entries: Vec<BalancerFigures>,
    /// The goals for nodeward.
    pub goals: Vec<CompareGoal>,
}

/// A balancer's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BalancerFigures {
    /// The balancer.
    pub balancer: BalancerKind,
    /// The command that runs the same load, without a balancer that acts from outside.
    pub command: String,
    /// Local lines per 1000 in the last ten seconds.
    pub local_milli: u64,
    /// The virtual time (ns) since which nine of ten lines were local.
    pub home_ns: Option<u64>,
    /// Base pages moved to another node.
    pub pages: u64,
    /// Base pages moved per minute, in the last ten seconds.
    pub pages_per_minute_at_end: u64,
    /// Work per 1000 of the work without a balancer.
    pub work_milli: u64,
    /// CPU time in the kernel and for samples beyond that without a balancer, in ppm of one CPU.
    pub cpu_ppm: u64,
    /// Per cent of local lines, by second.
    pub curve: Vec<(f64, f64)>,
}

/// A goal for nodeward, with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompareGoal {
    /// The quantity.
    pub what: GoalMeasure,
    /// Nodeward's value; `None` if it never gets there.
    pub ours: Option<u64>,
    /// The required value; `None` if any is good enough.
    pub asked: Option<u64>,
    /// Whether the goal is reached.
    pub reached: bool,
}

/// The quantity of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoalMeasure {
    /// Local lines per 1000 at the end, at least.
    Local,
    /// The same, at least that of the kernel's NUMA balancing.
    LocalAsKernel,
    /// The same, at least that of placing by hand but for a little.
    LocalAsByHand,
    /// Virtual nanoseconds until nine of ten lines are local, at most those of the kernel.
    HomeAsKernel,
    /// Pages moved, at most the required part of the kernel's.
    PagesOfKernel,
    /// Work per 1000 of that without a balancer, at least.
    Work,
}

impl CompareGoal {
    fn at_least(what: GoalMeasure, ours: u64, asked: u64) -> Self {
        Self { what, ours: Some(ours), asked: Some(asked), reached: ours >= asked }
    }

    /// `None` is later than any value.
    fn at_most(what: GoalMeasure, ours: Option<u64>, asked: Option<u64>) -> Self {
        let reached = ours.is_some_and(|ours| asked.is_none_or(|asked| ours <= asked));
        Self { what, ours, asked, reached }
    }
}

/// Returns the table of a case. Balancers without a run are left out, and so are goals that need
/// them.
pub fn evaluate_case(
    case: &CompareCase,
    outcomes: &BTreeMap<BalancerKind, CompareOutcome>,
) -> CaseTable {
    let nothing = outcomes.get(&BalancerKind::Nothing);
    let entries = outcomes.iter().map(|(&by, outcome)| figures(case, by, outcome, nothing));
    let time_ns = outcomes.values().map(|outcome| outcome.time_ns).min().unwrap_or(0);
    let goals = match outcomes.get(&BalancerKind::Nodeward) {
        Some(ours) => goals(case.requirement, ours, outcomes),
        None => Vec::new(),
    };
    CaseTable { name: case.name, about: case.about, time_ns, entries: entries.collect(), goals }
}

fn figures(
    case: &CompareCase,
    by: BalancerKind,
    outcome: &CompareOutcome,
    nothing: Option<&CompareOutcome>,
) -> BalancerFigures {
    let kernel_ns = nothing.map_or(0, |nothing| nothing.kernel_ns);
    let cpu_ns = outcome.kernel_ns.saturating_sub(kernel_ns);
    BalancerFigures {
        balancer: by,
        command: case.command(by),
        local_milli: outcome.local_milli,
        home_ns: outcome.local_since_ns,
        pages: outcome.pages,
        pages_per_minute_at_end: outcome.pages_per_minute_at_end,
        work_milli: nothing.map_or(1000, |nothing| outcome.work_milli(nothing)),
        cpu_ppm: cpu_ns.saturating_mul(1_000_000) / outcome.time_ns.max(1),
        curve: outcome.curve.clone(),
    }
}

fn goals(
    asked: Requirement,
    ours: &CompareOutcome,
    outcomes: &BTreeMap<BalancerKind, CompareOutcome>,
) -> Vec<CompareGoal> {
    let (kernel, hand) = (outcomes.get(&BalancerKind::Kernel), outcomes.get(&BalancerKind::Hand));
    let local = |what, least| CompareGoal::at_least(what, ours.local_milli, least);
    let against_kernel =
        |part| kernel.into_iter().flat_map(move |kernel| goals_against_kernel(ours, kernel, part));
    let mut goals = Vec::new();
    match asked {
        Requirement::LocalMemory | Requirement::LocalByMovingThreads => {
            goals.push(local(GoalMeasure::Local, LOCAL_MILLI));
            let may_move_threads = asked == Requirement::LocalByMovingThreads;
            goals.extend(against_kernel(if may_move_threads { 2 } else { 1 }));
        }
        Requirement::PagesPlaced => goals.push(local(GoalMeasure::Local, LOCAL_MILLI)),
        Requirement::PlacedAsByHand => goals.extend(hand.map(|hand| {
            let least = hand.local_milli.saturating_sub(LOCAL_SLACK_MILLI);
            local(GoalMeasure::LocalAsByHand, least)
        })),
        Requirement::WorkOnly => {}
    }
    let work = outcomes.get(&BalancerKind::Nothing).map(|nothing| ours.work_milli(nothing));
    goals.extend(work.map(|work| CompareGoal::at_least(GoalMeasure::Work, work, WORK_MILLI)));
    goals
}

/// Returns the goals relative to the kernel's NUMA balancing: at most 1/`part` of its pages.
fn goals_against_kernel(
    ours: &CompareOutcome,
    kernel: &CompareOutcome,
    part: u64,
) -> [CompareGoal; 3] {
    let pages = Some(kernel.pages / part);
    [
        CompareGoal::at_least(GoalMeasure::LocalAsKernel, ours.local_milli, kernel.local_milli),
        CompareGoal::at_most(GoalMeasure::HomeAsKernel, ours.local_since_ns, kernel.local_since_ns),
        CompareGoal::at_most(GoalMeasure::PagesOfKernel, Some(ours.pages), pages),
    ]
}

impl CaseTable {
    /// Returns the goals that are not reached.
    pub fn missed_goals(&self) -> impl Iterator<Item = &CompareGoal> {
        self.goals.iter().filter(|goal| !goal.reached)
    }

    /// Returns the figures of a balancer, if it took part.
    pub fn figures_of(&self, by: BalancerKind) -> Option<&BalancerFigures> {
        self.entries.iter().find(|entry| entry.balancer == by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::CASES;

    fn outcome(local_milli: u64, home_ns: Option<u64>, pages: u64) -> CompareOutcome {
        let work_per_s = [("lines", local_milli)].into();
        CompareOutcome {
            time_ns: 1_000,
            local_milli,
            local_since_ns: home_ns,
            pages,
            work_per_s,
            ..CompareOutcome::default()
        }
    }

    fn missed(
        asked: Requirement,
        ours: CompareOutcome,
        kernel: CompareOutcome,
        nothing: CompareOutcome,
    ) -> Vec<GoalMeasure> {
        let case = CompareCase { requirement: asked, ..CASES[0] };
        let outcomes = [
            (BalancerKind::Nothing, nothing),
            (BalancerKind::Kernel, kernel),
            (BalancerKind::Hand, outcome(930, Some(1), 100)),
            (BalancerKind::Nodeward, ours),
        ];
        evaluate_case(&case, &outcomes.into()).missed_goals().map(|goal| goal.what).collect()
    }

    /// Goal: each goal is missed alone when only its quantity falls short; half the pages are
    /// required only where threads can move.
    #[test]
    fn each_goal_can_be_missed() {
        let kernel = || outcome(960, Some(5), 100);
        let nothing = || outcome(500, None, 0);
        let of = |asked, ours| missed(asked, ours, kernel(), nothing());
        assert_eq!(of(Requirement::LocalByMovingThreads, outcome(960, Some(5), 50)), []);
        assert_eq!(
            of(Requirement::LocalByMovingThreads, outcome(960, Some(5), 51)),
            [GoalMeasure::PagesOfKernel]
        );
        assert_eq!(of(Requirement::LocalMemory, outcome(960, Some(5), 100)), []);
        assert_eq!(of(Requirement::PagesPlaced, outcome(950, Some(9), 999)), []);
        assert_eq!(of(Requirement::PagesPlaced, outcome(949, Some(9), 999)), [GoalMeasure::Local]);
        assert_eq!(
            of(Requirement::LocalMemory, outcome(960, Some(5), 101)),
            [GoalMeasure::PagesOfKernel]
        );
        assert_eq!(
            of(Requirement::LocalMemory, outcome(959, Some(5), 0)),
            [GoalMeasure::LocalAsKernel]
        );
        assert_eq!(
            of(Requirement::LocalMemory, outcome(960, Some(6), 0)),
            [GoalMeasure::HomeAsKernel]
        );
        let by_hand = Requirement::PlacedAsByHand;
        assert_eq!(of(by_hand, outcome(910, None, 999)), []); // 930, less 20
        assert_eq!(of(by_hand, outcome(909, None, 999)), [GoalMeasure::LocalAsByHand]);
        let both = [GoalMeasure::Local, GoalMeasure::LocalAsKernel];
        assert_eq!(of(Requirement::LocalMemory, outcome(949, Some(5), 0)), both);
        let busy = || outcome(980, None, 0);
        // 960 lines of 980 are 979 of 1000.
        assert_eq!(
            missed(Requirement::WorkOnly, outcome(960, None, 9), kernel(), busy()),
            [GoalMeasure::Work]
        );
    }

    /// Goal: a time that the kernel's NUMA balancing never reaches is no bound, but nodeward must
    /// reach it.
    #[test]
    fn never_is_later_than_anything() {
        let kernel = || outcome(800, None, 100);
        let nothing = || outcome(500, None, 0);
        assert_eq!(
            missed(Requirement::LocalMemory, outcome(960, Some(9), 0), kernel(), nothing()),
            []
        );
        let missed = missed(Requirement::LocalMemory, outcome(960, None, 0), kernel(), nothing());
        assert_eq!(missed, [GoalMeasure::HomeAsKernel]);
    }
}
