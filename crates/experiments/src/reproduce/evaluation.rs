//! Compares figures with those of the seeds.

use serde::Serialize;

use crate::reproduce::figure_table::{
    Basis, Better, DocumentTable, Expected, FigureRow, FigureUnit, Fitted, Improvement,
    ImprovementGoal, RowKind,
};
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

/// Tolerance of a headline relative to the seed, and of a hold-out.
const HEADLINE_TOLERANCE: f64 = 0.15;
const HOLD_OUT_TOLERANCE: f64 = 0.25;
/// Maximum factor between a profile row and the seed's figure, in either direction.
const PROFILE_FACTOR: f64 = 2.0;

/// The verdict on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowVerdict {
    /// Between the seed's own runs.
    InSpread,
    /// Within the tolerance.
    Within,
    /// A hold-out outside the tolerance, with a stated reason.
    Explained,
    /// Outside the tolerance.
    Outside,
}

impl RowVerdict {
    /// Returns the verdict in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::InSpread => "in spread",
            Self::Within => "within",
            Self::Explained => "explained",
            Self::Outside => "OUTSIDE",
        }
    }
}

/// A table with figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableResult {
    /// The name on the command line.
    pub name: &'static str,
    /// Title of the seed.
    pub title: &'static str,
    /// Its machine and workload.
    pub about: &'static str,
    /// Its runs.
    pub runs: Vec<RunCommand>,
    /// Fitted parameters.
    pub fitted: Vec<Fitted>,
    /// The figures.
    pub rows: Vec<RowResult>,
    /// Nodeward's additions.
    pub beyond: Option<ImprovementResult>,
}

/// The command for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunCommand {
    /// The name of the run.
    pub name: &'static str,
    /// The command that runs it, without its driver.
    pub command: String,
    /// Whether a driver moves threads and memory during the run.
    pub driven: bool,
}

impl RunCommand {
    fn new(run: &ScenarioRun) -> Self {
        Self { name: run.name, command: run.command(), driven: run.driver.is_some() }
    }
}

/// A row with its figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowResult {
    /// Its name.
    pub name: String,
    /// Its kind, which decides the tolerance.
    pub kind: RowKind,
    /// The basis of our figure.
    pub basis: Basis,
    /// The unit.
    pub unit: FigureUnit,
    /// The seed's figure.
    pub expected: Expected,
    /// Our figure.
    pub ours: f64,
    /// The figures before the change: the seed's and ours.
    pub from: Option<(f64, f64)>,
    /// Our figure divided by the seed's nearest one.
    pub ratio: f64,
    /// The verdict.
    pub verdict: RowVerdict,
    /// The counter that shows the cause.
    pub counter: String,
    /// The explanation of the result.
    pub why: &'static str,
    /// The missing part of the model.
    pub lacks: Option<&'static str>,
}

/// Nodeward's additions, with figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImprovementResult {
    /// The measured quantity.
    pub figure: &'static str,
    /// The unit.
    pub unit: FigureUnit,
    /// The direction of improvement.
    pub better: Better,
    /// The additions, each on top of the previous ones.
    pub steps: Vec<StepResult>,
    /// The goal of the last one.
    pub goal: ImprovementGoal,
    /// Whether the goal is reached.
    pub reached: bool,
}

/// An addition with its figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepResult {
    /// The addition.
    pub name: &'static str,
    /// Its effect.
    pub why: &'static str,
    /// The figure with it.
    pub ours: f64,
    /// Improvement over the step before: above 1 is better.
    pub gain: Option<f64>,
}

impl DocumentTable {
    /// Returns the table with figures.
    pub fn judge(&self, runs: &RunOutcomes) -> TableResult {
        TableResult {
            name: self.name,
            title: self.title,
            about: self.about,
            runs: self.runs.iter().map(RunCommand::new).collect(),
            fitted: self.fitted.clone(),
            rows: self.rows.iter().map(|row| row.judge(runs)).collect(),
            beyond: self.beyond.as_ref().map(|beyond| beyond.judge(runs)),
        }
    }
}

impl TableResult {
    /// Returns the rows outside their tolerance, without the explained ones.
    pub fn rows_outside(&self) -> impl Iterator<Item = &RowResult> {
        self.rows.iter().filter(|row| row.verdict == RowVerdict::Outside)
    }
}

impl FigureRow {
    fn judge(&self, runs: &RunOutcomes) -> RowResult {
        let ours = (self.ours)(runs);
        let ratio = ours / self.expected.nearest(ours);
        let from = self.from.as_ref().map(|(seed, figure)| (*seed, figure(runs)));
        let verdict = match (self.is_in_spread(ours), self.is_within(ours, ratio, from)) {
            (true, true) => RowVerdict::InSpread,
            (_, true) => RowVerdict::Within,
            _ if self.kind == RowKind::HoldOut && self.lacks.is_some() => RowVerdict::Explained,
            _ => RowVerdict::Outside,
        };
        RowResult {
            name: self.name.clone(),
            kind: self.kind,
            basis: self.basis,
            unit: self.unit,
            expected: self.expected,
            ours,
            from,
            ratio,
            verdict,
            counter: (self.counter)(runs),
            why: self.why,
            lacks: self.lacks.filter(|_| verdict == RowVerdict::Explained),
        }
    }

    fn is_in_spread(&self, ours: f64) -> bool {
        matches!(self.expected, Expected::Between(least, most) if (least..=most).contains(&ours))
    }

    /// Returns whether a figure is within the tolerance and changed in the right direction.
    fn is_within(&self, ours: f64, ratio: f64, from: Option<(f64, f64)>) -> bool {
        let near = match self.kind {
            RowKind::Headline => (ratio - 1.0).abs() <= HEADLINE_TOLERANCE,
            RowKind::HoldOut => (ratio - 1.0).abs() <= HOLD_OUT_TOLERANCE,
            RowKind::Profile => (1.0 / PROFILE_FACTOR..=PROFILE_FACTOR).contains(&ratio),
        };
        let seed_now = self.expected.nearest(ours);
        let same_way = |(seed, before): (f64, f64)| (seed_now > seed) == (ours > before);
        near && from.is_none_or(same_way)
    }
}

impl Improvement {
    fn judge(&self, runs: &RunOutcomes) -> ImprovementResult {
        let mut steps: Vec<StepResult> = Vec::new();
        for step in &self.steps {
            let ours = (step.ours)(runs);
            let gain = steps.last().map(|before| match self.better {
                Better::Lower => before.ours / ours,
                Better::Higher => ours / before.ours,
            });
            steps.push(StepResult { name: step.name, why: step.why, ours, gain });
        }
        let reached = steps.last().is_some_and(|last| match self.better {
            Better::Lower => last.ours < self.goal.figure,
            Better::Higher => last.ours >= self.goal.figure,
        });
        let (figure, unit, better, goal) = (self.figure, self.unit, self.better, self.goal);
        ImprovementResult { figure, unit, better, steps, goal, reached }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::figure_table::ImprovementStep;

    fn verdict(row: FigureRow, ours: f64) -> RowVerdict {
        row.ours(move |_| ours).judge(&RunOutcomes::default()).verdict
    }

    /// Goal: a headline may differ by 15 % in both directions, and no more.
    #[test]
    fn headlines_are_near_within_15_percent() {
        let row = || FigureRow::headline("time", FigureUnit::Ms, Expected::One(100.0));
        for (ours, expected) in [
            (85.1, RowVerdict::Within),
            (114.9, RowVerdict::Within),
            (84.9, RowVerdict::Outside),
            (115.1, RowVerdict::Outside),
            (f64::NAN, RowVerdict::Outside),
            (f64::INFINITY, RowVerdict::Outside),
        ] {
            assert_eq!(verdict(row(), ours), expected, "{ours}");
        }
    }

    /// Goal: a gap in the model excuses only a hold-out, because nothing could be fitted on it.
    #[test]
    fn hold_outs_alone_are_explained() {
        let row = |kind| {
            let row = FigureRow::headline("time", FigureUnit::Ms, Expected::One(100.0));
            FigureRow { kind, ..row }
        };
        for (kind, expected) in [
            (RowKind::Headline, RowVerdict::Outside),
            (RowKind::Profile, RowVerdict::Outside),
            (RowKind::HoldOut, RowVerdict::Explained),
        ] {
            assert_eq!(verdict(row(kind).lacks("caches"), 45.0), expected, "{kind:?}");
            assert_eq!(verdict(row(kind).lacks("caches"), 99.0), RowVerdict::Within, "{kind:?}");
            assert_eq!(verdict(row(kind), 45.0), RowVerdict::Outside, "{kind:?}");
        }
    }

    /// Goal: two runs of a seed are a spread, and the tolerance counts from its ends.
    #[test]
    fn spreads_count_from_their_ends() {
        let row = || FigureRow::headline("time", FigureUnit::Ms, Expected::Between(54.0, 86.0));
        for (ours, expected) in [
            (54.0, RowVerdict::InSpread),
            (86.0, RowVerdict::InSpread),
            (46.0, RowVerdict::Within),  // 54 * 0.852
            (98.8, RowVerdict::Within),  // 86 * 1.149
            (45.8, RowVerdict::Outside), // 54 * 0.848
        ] {
            assert_eq!(verdict(row(), ours), expected, "{ours}");
        }
    }

    /// Goal: a profile row may be off by a factor of 2, but never in the wrong direction.
    #[test]
    fn profiles_go_the_right_way() {
        let row = |before: f64| {
            let row = FigureRow::profile("idle", FigureUnit::Percent, Expected::One(60.0));
            row.from(70.0, move |_| before)
        };
        assert_eq!(verdict(row(80.0), 31.0), RowVerdict::Within);
        assert_eq!(verdict(row(80.0), 29.0), RowVerdict::Outside);
        assert_eq!(verdict(row(40.0), 50.0), RowVerdict::Outside);
    }

    /// Goal: a gain above 1 is better in either direction, and the goal concerns the last step.
    #[test]
    fn gains_are_above_one_where_it_gets_better() {
        let beyond = |better, figures: [f64; 2], goal| {
            let [first, last] = figures;
            let steps = vec![
                ImprovementStep::new("a", "", move |_| first),
                ImprovementStep::new("b", "", move |_| last),
            ];
            let goal = ImprovementGoal { figure: goal, what: "" };
            Improvement { figure: "", unit: FigureUnit::Ms, better, steps, goal }
                .judge(&RunOutcomes::default())
        };
        let less = beyond(Better::Lower, [100.0, 50.0], 60.0);
        assert_eq!((less.steps[1].gain, less.reached), (Some(2.0), true));
        let more = beyond(Better::Higher, [100.0, 50.0], 60.0);
        assert_eq!((more.steps[1].gain, more.reached), (Some(0.5), false));
    }
}
