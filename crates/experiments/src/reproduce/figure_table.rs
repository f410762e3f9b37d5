//! The parts of a table.

use serde::Serialize;

use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

/// The measurements of a seed, and the runs that simulate them.
pub struct DocumentTable {
    /// The name on the command line.
    pub name: &'static str,
    /// Title of the seed.
    pub title: &'static str,
    /// Its machine and workload, and the parts that the model covers, in some sentences.
    pub about: &'static str,
    /// The simulated runs.
    pub runs: Vec<ScenarioRun>,
    /// Fitted parameters.
    pub fitted: Vec<Fitted>,
    /// The figures.
    pub rows: Vec<FigureRow>,
    /// Nodeward's additions.
    pub beyond: Option<Improvement>,
}

/// A parameter that was chosen to make a row come out right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fitted {
    /// Its name in scenarios.
    pub parameter: &'static str,
    /// Its value.
    pub value: &'static str,
    /// The row.
    pub on: &'static str,
}

/// The kind of a row, which decides its tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowKind {
    /// Within 15 % of the seed, or within its own spread.
    Headline,
    /// The right direction, and within a factor of 2.
    Profile,
    /// Nothing was fitted on it: within 25 %, or with a stated gap in the model.
    HoldOut,
}

/// The basis of our figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A parameter of this name was fitted on the row.
    Calibrated(&'static str),
    /// Derived from parameters with other sources.
    Predicted,
}

/// The seed's figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Expected {
    /// One figure.
    One(f64),
    /// Two runs, or a range: the least and the greatest.
    Between(f64, f64),
}

impl Expected {
    /// Returns the figure that is nearest to ours.
    pub fn nearest(self, ours: f64) -> f64 {
        match self {
            Self::One(figure) => figure,
            Self::Between(least, most) => ours.clamp(least, most),
        }
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureUnit {
    /// Milliseconds.
    Ms,
    /// Seconds.
    Seconds,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
    /// 10^9 bytes per second.
    GbPerS,
    /// 10^6 bytes per second.
    MbPerS,
    /// Per cent.
    Percent,
    /// A factor.
    Times,
    /// Millions.
    Millions,
    /// A number.
    Count,
}

impl FigureUnit {
    /// Returns the symbol after a figure.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::Seconds => "s",
            Self::Us => "us",
            Self::Ns => "ns",
            Self::GbPerS => "GB/s",
            Self::MbPerS => "MB/s",
            Self::Percent => "%",
            Self::Times => "x",
            Self::Millions => "M",
            Self::Count => "",
        }
    }
}

/// A figure of the seed beside ours.
pub struct FigureRow {
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
    pub ours: FigureFn,
    /// The figures before the seed's change: the seed's and ours. Both must change in the same
    /// direction.
    pub from: Option<(f64, FigureFn)>,
    /// Counts of the simulated machine that show the cause.
    pub counter: TextFn,
    /// The explanation within the model, in one sentence.
    pub why: &'static str,
    /// The gap in the model, where a hold-out is not within its tolerance.
    pub lacks: Option<&'static str>,
}

impl FigureRow {
    fn new(kind: RowKind, name: impl Into<String>, unit: FigureUnit, expected: Expected) -> Self {
        Self {
            name: name.into(),
            kind,
            basis: Basis::Predicted,
            unit,
            expected,
            ours: Box::new(|_| f64::NAN),
            from: None,
            counter: Box::new(|_| String::new()),
            why: "",
            lacks: None,
        }
    }

    /// Creates a headline row; predicted, unless [`FigureRow::calibrated`].
    pub fn headline(name: impl Into<String>, unit: FigureUnit, expected: Expected) -> Self {
        Self::new(RowKind::Headline, name, unit, expected)
    }

    /// Creates a profile row: a share of a profile, an idle time, a tail.
    pub fn profile(name: impl Into<String>, unit: FigureUnit, expected: Expected) -> Self {
        Self::new(RowKind::Profile, name, unit, expected)
    }

    /// Creates a row that nothing was fitted on.
    pub fn hold_out(name: impl Into<String>, unit: FigureUnit, expected: Expected) -> Self {
        Self::new(RowKind::HoldOut, name, unit, expected)
    }

    /// Marks the row as fitted by a parameter.
    #[must_use]
    pub fn calibrated(mut self, parameter: &'static str) -> Self {
        self.basis = Basis::Calibrated(parameter);
        self
    }

    /// Sets our figure.
    #[must_use]
    pub fn ours(mut self, figure: impl Fn(&RunOutcomes) -> f64 + Send + Sync + 'static) -> Self {
        self.ours = Box::new(figure);
        self
    }

    /// Sets the figures before the seed's change: the seed's and ours.
    #[must_use]
    pub fn from(
        mut self,
        seed: f64,
        ours: impl Fn(&RunOutcomes) -> f64 + Send + Sync + 'static,
    ) -> Self {
        self.from = Some((seed, Box::new(ours)));
        self
    }

    /// Sets the counter that shows the cause.
    #[must_use]
    pub fn counter(
        mut self,
        words: impl Fn(&RunOutcomes) -> String + Send + Sync + 'static,
    ) -> Self {
        self.counter = Box::new(words);
        self
    }

    /// Sets the explanation.
    #[must_use]
    pub fn why(mut self, why: &'static str) -> Self {
        self.why = why;
        self
    }

    /// Sets the gap in the model.
    #[must_use]
    pub fn lacks(mut self, lacks: &'static str) -> Self {
        self.lacks = Some(lacks);
        self
    }
}

/// Nodeward's additions to the seed, one by one.
pub struct Improvement {
    /// The measured quantity.
    pub figure: &'static str,
    /// The unit.
    pub unit: FigureUnit,
    /// The direction of improvement.
    pub better: Better,
    /// The additions, each on top of the previous ones.
    pub steps: Vec<ImprovementStep>,
    /// The goal of the last step.
    pub goal: ImprovementGoal,
}

/// The direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Lower is better.
    Lower,
    /// Higher is better.
    Higher,
}

/// A figure to reach, and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ImprovementGoal {
    /// The figure.
    pub figure: f64,
    /// Its meaning.
    pub what: &'static str,
}

/// One addition.
pub struct ImprovementStep {
    /// The addition; the first step is the seed's own state.
    pub name: &'static str,
    /// Its effect, in one sentence.
    pub why: &'static str,
    /// The figure with it.
    pub ours: FigureFn,
}

impl ImprovementStep {
    /// Creates an addition.
    pub fn new(
        name: &'static str,
        why: &'static str,
        ours: impl Fn(&RunOutcomes) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self { name, why, ours: Box::new(ours) }
    }
}

/// Computes a figure from the outcomes of the runs.
type FigureFn = Box<dyn Fn(&RunOutcomes) -> f64 + Send + Sync>;
/// Computes a text from the outcomes of the runs.
type TextFn = Box<dyn Fn(&RunOutcomes) -> String + Send + Sync>;
