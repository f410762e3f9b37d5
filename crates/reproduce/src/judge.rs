//! What came out, and whether that is near enough.

use serde::Serialize;

use crate::runs::{Run, Runs};
use crate::table::{Basis, Better, Beyond, Expected, Fitted, Goal, Kind, Row, Table, Unit};

/// How far from the seed a headline may be, and a hold-out.
const HEADLINE: f64 = 0.15;
const HOLD_OUT: f64 = 0.25;
/// As what multiple of the seed's figure, or what part of it, a profile row may come out.
const PROFILE: f64 = 2.0;

/// Whether a figure is near enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Between the seed's own runs.
    InSpread,
    /// Within the tolerance.
    Within,
    /// A hold-out outside of it, for a reason that is told.
    Explained,
    /// Outside of it.
    Outside,
}

impl Verdict {
    /// In a word.
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
    /// What the seed is.
    pub title: &'static str,
    /// Its machine and workload.
    pub about: &'static str,
    /// Its runs.
    pub runs: Vec<RunCommand>,
    /// Parameters that were fitted.
    pub fitted: Vec<Fitted>,
    /// The figures.
    pub rows: Vec<RowResult>,
    /// What nodeward adds.
    pub beyond: Option<BeyondResult>,
}

/// How to look at a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunCommand {
    /// The name of the run.
    pub name: &'static str,
    /// The command that shows it, or what it is without its driver.
    pub command: String,
    /// Whether the table moves threads and memory meanwhile.
    pub driven: bool,
}

impl RunCommand {
    fn of(run: &Run) -> Self {
        Self { name: run.name, command: run.command(), driven: run.driver.is_some() }
    }
}

/// A row with its figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowResult {
    /// What it is.
    pub name: String,
    /// What is asked of it.
    pub kind: Kind,
    /// Where ours comes from.
    pub basis: Basis,
    /// What it counts.
    pub unit: Unit,
    /// The seed's.
    pub expected: Expected,
    /// Ours.
    pub ours: f64,
    /// Before the change: the seed's, and ours.
    pub from: Option<(f64, f64)>,
    /// Ours by the seed's nearest figure.
    pub ratio: f64,
    /// Whether that is near enough.
    pub verdict: Verdict,
    /// What shows the cause.
    pub counter: String,
    /// Why it comes out so.
    pub why: &'static str,
    /// What the model lacks.
    pub lacks: Option<&'static str>,
}

/// What nodeward adds, with figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BeyondResult {
    /// What is measured.
    pub figure: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// The additions, each with all before it.
    pub steps: Vec<StepResult>,
    /// What the last one is to reach.
    pub goal: Goal,
    /// Whether it does.
    pub reached: bool,
}

/// An addition with its figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepResult {
    /// What is added.
    pub name: &'static str,
    /// What it does.
    pub why: &'static str,
    /// The figure with it.
    pub ours: f64,
    /// How many times as good as the step before: above 1 is better.
    pub gain: Option<f64>,
}

impl Table {
    /// With figures.
    pub fn judge(&self, runs: &Runs) -> TableResult {
        TableResult {
            name: self.name,
            title: self.title,
            about: self.about,
            runs: self.runs.iter().map(RunCommand::of).collect(),
            fitted: self.fitted.clone(),
            rows: self.rows.iter().map(|row| row.judge(runs)).collect(),
            beyond: self.beyond.as_ref().map(|beyond| beyond.judge(runs)),
        }
    }
}

impl TableResult {
    /// Rows outside of their tolerance, without those that are explained.
    pub fn outside(&self) -> impl Iterator<Item = &RowResult> {
        self.rows.iter().filter(|row| row.verdict == Verdict::Outside)
    }
}

impl Row {
    fn judge(&self, runs: &Runs) -> RowResult {
        let ours = (self.ours)(runs);
        let ratio = ours / self.expected.nearest(ours);
        let from = self.from.as_ref().map(|(seed, figure)| (*seed, figure(runs)));
        let verdict = match (self.is_in_spread(ours), self.is_within(ours, ratio, from)) {
            (true, true) => Verdict::InSpread,
            (_, true) => Verdict::Within,
            _ if self.kind == Kind::HoldOut && self.lacks.is_some() => Verdict::Explained,
            _ => Verdict::Outside,
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
            lacks: self.lacks.filter(|_| verdict == Verdict::Explained),
        }
    }

    fn is_in_spread(&self, ours: f64) -> bool {
        matches!(self.expected, Expected::Between(least, most) if (least..=most).contains(&ours))
    }

    /// Whether a figure is near enough, and went the right way.
    fn is_within(&self, ours: f64, ratio: f64, from: Option<(f64, f64)>) -> bool {
        let near = match self.kind {
            Kind::Headline => (ratio - 1.0).abs() <= HEADLINE,
            Kind::HoldOut => (ratio - 1.0).abs() <= HOLD_OUT,
            Kind::Profile => (1.0 / PROFILE..=PROFILE).contains(&ratio),
        };
        let seed_now = self.expected.nearest(ours);
        let same_way = |(seed, before): (f64, f64)| (seed_now > seed) == (ours > before);
        near && from.is_none_or(same_way)
    }
}

impl Beyond {
    fn judge(&self, runs: &Runs) -> BeyondResult {
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
        BeyondResult { figure, unit, better, steps, goal, reached }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Step;

    fn verdict(row: Row, ours: f64) -> Verdict {
        row.ours(move |_| ours).judge(&Runs::default()).verdict
    }

    /// Goal: a headline is near within 15 % on both sides, and no farther.
    #[test]
    fn headlines_are_near_within_15_percent() {
        let row = || Row::headline("time", Unit::Ms, Expected::One(100.0));
        for (ours, expected) in [
            (85.1, Verdict::Within),
            (114.9, Verdict::Within),
            (84.9, Verdict::Outside),
            (115.1, Verdict::Outside),
            (f64::NAN, Verdict::Outside),
            (f64::INFINITY, Verdict::Outside),
        ] {
            assert_eq!(verdict(row(), ours), expected, "{ours}");
        }
    }

    /// Goal: what the model lacks is an answer for a hold-out alone: nobody could fit it.
    #[test]
    fn hold_outs_alone_are_explained() {
        let row = |kind| {
            let row = Row::headline("time", Unit::Ms, Expected::One(100.0));
            Row { kind, ..row }
        };
        for (kind, expected) in [
            (Kind::Headline, Verdict::Outside),
            (Kind::Profile, Verdict::Outside),
            (Kind::HoldOut, Verdict::Explained),
        ] {
            assert_eq!(verdict(row(kind).lacks("caches"), 45.0), expected, "{kind:?}");
            assert_eq!(verdict(row(kind).lacks("caches"), 99.0), Verdict::Within, "{kind:?}");
            assert_eq!(verdict(row(kind), 45.0), Verdict::Outside, "{kind:?}");
        }
    }

    /// Goal: two runs of a seed are a spread, and the tolerance counts from its ends.
    #[test]
    fn spreads_count_from_their_ends() {
        let row = || Row::headline("time", Unit::Ms, Expected::Between(54.0, 86.0));
        for (ours, expected) in [
            (54.0, Verdict::InSpread),
            (86.0, Verdict::InSpread),
            (46.0, Verdict::Within),  // 54 * 0.852
            (98.8, Verdict::Within),  // 86 * 1.149
            (45.8, Verdict::Outside), // 54 * 0.848
        ] {
            assert_eq!(verdict(row(), ours), expected, "{ours}");
        }
    }

    /// Goal: a profile row may be off by a factor of 2, but never go the wrong way.
    #[test]
    fn profiles_go_the_right_way() {
        let row = |before: f64| {
            let row = Row::profile("idle", Unit::Percent, Expected::One(60.0));
            row.from(70.0, move |_| before)
        };
        assert_eq!(verdict(row(80.0), 31.0), Verdict::Within);
        assert_eq!(verdict(row(80.0), 29.0), Verdict::Outside);
        assert_eq!(verdict(row(40.0), 50.0), Verdict::Outside);
    }

    /// Goal: a gain above 1 is better whichever way is good, and the goal is about the last step.
    #[test]
    fn gains_are_above_one_where_it_gets_better() {
        let beyond = |better, figures: [f64; 2], goal| {
            let [first, last] = figures;
            let steps = vec![Step::new("a", "", move |_| first), Step::new("b", "", move |_| last)];
            let goal = Goal { figure: goal, what: "" };
            Beyond { figure: "", unit: Unit::Ms, better, steps, goal }.judge(&Runs::default())
        };
        let less = beyond(Better::Lower, [100.0, 50.0], 60.0);
        assert_eq!((less.steps[1].gain, less.reached), (Some(2.0), true));
        let more = beyond(Better::Higher, [100.0, 50.0], 60.0);
        assert_eq!((more.steps[1].gain, more.reached), (Some(0.5), false));
    }
}
