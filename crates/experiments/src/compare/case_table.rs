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
    pub name: String,
    /// Its description.
    pub about: String,
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
    /// Those of its run, or the median of each of several.
    #[serde(flatten)]
    pub median: RunFigures,
    /// The mean of the pages of all runs: whole programs move or stay, so medians jump.
    #[serde(skip)]
    pub pages_mean: f64,
    /// How far several runs differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<FigureSpan>,
    /// Per cent of local lines, by second, in the run with the first seed.
    pub curve: Vec<(f64, f64)>,
}

/// The least and the most of each figure of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FigureSpan {
    /// The number of runs.
    pub runs: usize,
    /// The least of each figure.
    pub least: RunFigures,
    /// The most of each figure.
    pub most: RunFigures,
}

/// What a run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RunFigures {
    /// Local lines per 1000 in the last ten seconds.
    pub local_milli: u64,
    /// The virtual time (ns) since which nine of ten lines were local.
    pub home_ns: Option<u64>,
    /// Base pages moved to another node.
    pub pages: u64,
    /// Base pages moved per minute, in the last ten seconds.
    pub pages_per_minute_at_end: u64,
    /// Work per 1000 of the work without a balancer; `None` if nothing ran without one.
    pub work_milli: Option<u64>,
    /// CPU time in the kernel and for samples beyond that without a balancer, in ppm of one CPU.
    pub cpu_ppm: u64,
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

/// The outcomes of a case under each balancer, a run for each seed, in the order of the seeds.
pub type Outcomes = BTreeMap<BalancerKind, Vec<CompareOutcome>>;

/// Returns the table of a case. Balancers without a run are left out, and so are goals that need
/// them. The goals are those of the first seed.
pub fn evaluate_case(case: &CompareCase, outcomes: &Outcomes) -> CaseTable {
    let nothing = outcomes.get(&BalancerKind::Nothing).map_or(&[][..], Vec::as_slice);
    let entries = outcomes.iter().filter_map(|(&by, runs)| balancer(case, by, runs, nothing));
    let time_ns = outcomes.values().flatten().map(|outcome| outcome.time_ns).min().unwrap_or(0);
    let first: BTreeMap<_, _> =
        outcomes.iter().filter_map(|(&by, runs)| Some((by, runs.first()?))).collect();
    let goals = match first.get(&BalancerKind::Nodeward) {
        Some(ours) => goals(case.requirement, ours, &first),
        None => Vec::new(),
    };
    let (name, about) = (case.name.to_owned(), case.about.to_owned());
    CaseTable { name, about, time_ns, entries: entries.collect(), goals }
}

/// Returns the figures of a balancer; `None` without a run.
fn balancer(
    case: &CompareCase,
    by: BalancerKind,
    runs: &[CompareOutcome],
    nothing: &[CompareOutcome],
) -> Option<BalancerFigures> {
    let figures = runs.iter().enumerate().map(|(seed, run)| RunFigures::of(run, nothing.get(seed)));
    let figures: Vec<RunFigures> = figures.collect();
    let (median, span) = median_and_span(&figures)?;
    let pages: u64 = figures.iter().map(|run| run.pages).sum();
    let pages_mean = pages as f64 / figures.len() as f64;
    let curve = runs.first()?.curve.clone();
    let command = case.command(by);
    Some(BalancerFigures { balancer: by, command, median, pages_mean, span, curve })
}

/// Returns the median of each figure, and, of several runs, the least and the most.
fn median_and_span(runs: &[RunFigures]) -> Option<(RunFigures, Option<FigureSpan>)> {
    let last = runs.len().checked_sub(1)?;
    let at = |rank: usize| RunFigures {
        local_milli: ranked(runs, rank, |run| run.local_milli),
        home_ns: ranked(runs, rank, |run| (run.home_ns.is_none(), run.home_ns)).1,
        pages: ranked(runs, rank, |run| run.pages),
        pages_per_minute_at_end: ranked(runs, rank, |run| run.pages_per_minute_at_end),
        work_milli: ranked(runs, rank, |run| run.work_milli),
        cpu_ppm: ranked(runs, rank, |run| run.cpu_ppm),
    };
    let span = FigureSpan { runs: runs.len(), least: at(0), most: at(last) };
    Some((at(last / 2), (last > 0).then_some(span)))
}

/// Returns the value with this rank among those of all runs, the least first.
fn ranked<T: Ord>(runs: &[RunFigures], rank: usize, value: impl Fn(&RunFigures) -> T) -> T {
    let mut values: Vec<T> = runs.iter().map(value).collect();
    values.sort_unstable();
    values.swap_remove(rank)
}

impl RunFigures {
    fn of(outcome: &CompareOutcome, nothing: Option<&CompareOutcome>) -> Self {
        let kernel_ns = nothing.map_or(0, |nothing| nothing.kernel_ns);
        let cpu_ns = outcome.kernel_ns.saturating_sub(kernel_ns);
        Self {
            local_milli: outcome.local_milli,
            home_ns: outcome.local_since_ns,
            pages: outcome.pages,
            pages_per_minute_at_end: outcome.pages_per_minute_at_end,
            work_milli: nothing.map(|nothing| outcome.work_milli(nothing)),
            cpu_ppm: cpu_ns.saturating_mul(1_000_000) / outcome.time_ns.max(1),
        }
    }
}

fn goals(
    asked: Requirement,
    ours: &CompareOutcome,
    outcomes: &BTreeMap<BalancerKind, &CompareOutcome>,
) -> Vec<CompareGoal> {
    if asked == Requirement::FiguresOnly {
        return Vec::new();
    }
    let [kernel, hand] =
        [BalancerKind::Kernel, BalancerKind::Hand].map(|by| outcomes.get(&by).copied());
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
        Requirement::WorkOnly | Requirement::FiguresOnly => {}
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
            (BalancerKind::Nothing, vec![nothing]),
            (BalancerKind::Kernel, vec![kernel]),
            (BalancerKind::Hand, vec![outcome(930, Some(1), 100)]),
            (BalancerKind::Nodeward, vec![ours]),
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

    /// Goal: of several runs the table has the median of each figure, beside the least and the
    /// most; a time that is never reached is the latest; work is relative to the run without a
    /// balancer that has the same seed. No goals are asked of somebody's own load.
    #[test]
    fn several_seeds_have_a_median_and_a_span() {
        let case = CompareCase { requirement: Requirement::FiguresOnly, ..CASES[0] };
        // Work is as the local lines.
        let nothing = [500, 400, 600].map(|local| outcome(local, None, 0)).to_vec();
        let ours = vec![outcome(900, None, 7), outcome(800, Some(5), 9), outcome(900, Some(4), 8)];
        let outcomes = [(BalancerKind::Nothing, nothing), (BalancerKind::Nodeward, ours)];
        let table = evaluate_case(&case, &outcomes.into());
        assert_eq!(table.goals, []);
        let entry = table.figures_of(BalancerKind::Nodeward).unwrap();
        let span = entry.span.unwrap();
        let of =
            |of: fn(&RunFigures) -> u64| [span.least, entry.median, span.most].map(|it| of(&it));
        assert_eq!(of(|it| it.local_milli), [800, 900, 900]);
        assert_eq!((of(|it| it.pages), entry.pages_mean), ([7, 8, 9], 8.0));
        // 900 / 600, 900 / 500, 800 / 400.
        assert_eq!(of(|it| it.work_milli.unwrap()), [1500, 1800, 2000]);
        let times = [span.least, entry.median, span.most].map(|it| it.home_ns);
        assert_eq!((times, span.runs), ([Some(4), Some(5), None], 3));
    }
}
