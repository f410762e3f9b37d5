//! What a table is made of.

use serde::Serialize;

use crate::runs::{Run, Runs};

/// A figure, from what came of the runs.
type Figure = Box<dyn Fn(&Runs) -> f64 + Send + Sync>;
/// The same as text.
type Words = Box<dyn Fn(&Runs) -> String + Send + Sync>;

/// What a seed measured, and what it takes to simulate that.
pub struct Table {
    /// The name on the command line.
    pub name: &'static str,
    /// What the seed is.
    pub title: &'static str,
    /// Its machine and workload, and what the model has of them, in some sentences.
    pub about: &'static str,
    /// What is simulated.
    pub runs: Vec<Run>,
    /// Parameters that were fitted.
    pub fitted: Vec<Fitted>,
    /// The figures.
    pub rows: Vec<Row>,
    /// What nodeward adds.
    pub beyond: Option<Beyond>,
}

/// A parameter that was chosen so that a row comes out right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fitted {
    /// Its name in scenarios.
    pub parameter: &'static str,
    /// Its value.
    pub value: &'static str,
    /// The row.
    pub on: &'static str,
}

/// What is asked of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Within 15 % of the seed, or within its own spread.
    Headline,
    /// The right direction, and within a factor of 2.
    Profile,
    /// Nothing was fitted on it: within 25 %, or it is told what the model lacks.
    HoldOut,
}

/// Where our figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A parameter of this name was fitted on the row.
    Calibrated(&'static str),
    /// From parameters with other sources.
    Predicted,
}

/// What the seed says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Expected {
    /// One figure.
    One(f64),
    /// Two runs, or a range: the least and the most.
    Between(f64, f64),
}

impl Expected {
    /// The figure that is nearest to ours.
    pub fn nearest(self, ours: f64) -> f64 {
        match self {
            Self::One(figure) => figure,
            Self::Between(least, most) => ours.clamp(least, most),
        }
    }
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Milliseconds.
    Ms,
    /// Seconds.
    Seconds,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
    /// 10^9 bytes in a second.
    GbPerS,
    /// 10^6 bytes in a second.
    MbPerS,
    /// Per cent.
    Percent,
    /// Times as much.
    Times,
    /// Millions.
    Millions,
    /// A number.
    Count,
}

impl Unit {
    /// As it stands behind a figure.
    pub fn sign(self) -> &'static str {
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
pub struct Row {
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
    pub ours: Figure,
    /// What it was before the seed's change, of the seed and ours: the direction must be the same.
    pub from: Option<(f64, Figure)>,
    /// What the simulated machine counted that shows the cause.
    pub counter: Words,
    /// Why it comes out so in the model, in one sentence.
    pub why: &'static str,
    /// What the model lacks, where a hold-out is not within its tolerance.
    pub lacks: Option<&'static str>,
}

impl Row {
    fn new(kind: Kind, name: impl Into<String>, unit: Unit, expected: Expected) -> Self {
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

    /// A headline; predicted, unless it is told otherwise.
    pub fn headline(name: impl Into<String>, unit: Unit, expected: Expected) -> Self {
        Self::new(Kind::Headline, name, unit, expected)
    }

    /// A share of a profile, an idle time, a tail.
    pub fn profile(name: impl Into<String>, unit: Unit, expected: Expected) -> Self {
        Self::new(Kind::Profile, name, unit, expected)
    }

    /// A figure that nothing was fitted on.
    pub fn hold_out(name: impl Into<String>, unit: Unit, expected: Expected) -> Self {
        Self::new(Kind::HoldOut, name, unit, expected)
    }

    /// A parameter was fitted on it.
    #[must_use]
    pub fn calibrated(mut self, parameter: &'static str) -> Self {
        self.basis = Basis::Calibrated(parameter);
        self
    }

    /// Ours.
    #[must_use]
    pub fn ours(mut self, figure: impl Fn(&Runs) -> f64 + Send + Sync + 'static) -> Self {
        self.ours = Box::new(figure);
        self
    }

    /// Before the seed's change: the seed's figure and ours.
    #[must_use]
    pub fn from(mut self, seed: f64, ours: impl Fn(&Runs) -> f64 + Send + Sync + 'static) -> Self {
        self.from = Some((seed, Box::new(ours)));
        self
    }

    /// The counter that shows the cause.
    #[must_use]
    pub fn counter(mut self, words: impl Fn(&Runs) -> String + Send + Sync + 'static) -> Self {
        self.counter = Box::new(words);
        self
    }

    /// Why it comes out so.
    #[must_use]
    pub fn why(mut self, why: &'static str) -> Self {
        self.why = why;
        self
    }

    /// What the model lacks.
    #[must_use]
    pub fn lacks(mut self, lacks: &'static str) -> Self {
        self.lacks = Some(lacks);
        self
    }
}

/// What nodeward adds to what the seed did, one by one.
pub struct Beyond {
    /// What is measured.
    pub figure: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// Each with all before it.
    pub steps: Vec<Step>,
    /// What the last step is to reach.
    pub goal: Goal,
}

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Less.
    Lower,
    /// More.
    Higher,
}

/// A figure to reach, and why that one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// The figure.
    pub figure: f64,
    /// What it is.
    pub what: &'static str,
}

/// One addition.
pub struct Step {
    /// What is added; the first is what the seed has.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub why: &'static str,
    /// The figure with it.
    pub ours: Figure,
}

impl Step {
    /// An addition.
    pub fn new(
        name: &'static str,
        why: &'static str,
        ours: impl Fn(&Runs) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self { name, why, ours: Box::new(ours) }
    }
}
