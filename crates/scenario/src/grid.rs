//! Grids: all combinations of some values of some keys, each with every seed, in a fixed order; and
//! shards, which split that order over several machines.

use std::str::FromStr;

/// Maximum number of points in a grid.
pub const POINTS_MAX: usize = 100_000;

/// The error of an invalid grid, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; expected {expected}")]
pub struct GridError {
    problem: String,
    expected: &'static str,
}

impl GridError {
    fn new(what: impl Into<String>, expected: &'static str) -> Self {
        Self { problem: what.into(), expected }
    }
}

/// A key of a scenario and its values in order, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    key: String,
    values: Vec<String>,
}

impl Axis {
    /// Returns the key, such as `machine.latency`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the values, as `--set` takes them; at least one.
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

impl FromStr for Axis {
    type Err = GridError;

    /// Parses `KEY=VALUE,...`, where a value may be a range.
    fn from_str(text: &str) -> Result<Self, GridError> {
        let expected = "KEY=VALUE,VALUE,... such as machine.latency=80ns,120ns";
        let wrong = || GridError::new(format!("'{text}' is no line of a grid"), expected);
        let (key, list) = text.split_once('=').ok_or_else(wrong)?;
        let key = key.trim().to_owned();
        if key.is_empty() || text.chars().any(char::is_control) {
            return Err(wrong());
        }
        let mut values = Vec::new();
        for part in split_list(list) {
            let part = part.trim();
            if part.is_empty() {
                return Err(GridError::new(format!("'{text}' has an empty value"), expected));
            }
            values.extend(expand_range(part)?);
            check_point_count(values.len())?;
        }
        check_distinct(&values, |value| format!("{key} takes {value} twice"))?;
        Ok(Self { key, values })
    }
}

/// Splits a list at its commas, except inside quotes or brackets.
fn split_list(list: &str) -> Vec<&str> {
    let (mut is_quoted, mut depth) = (false, 0_i32);
    list.split(|letter: char| {
        match letter {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth -= 1,
            _ => {}
        }
        letter == ',' && !is_quoted && depth <= 0
    })
    .collect()
}

/// Expands a range; anything else stands for itself.
fn expand_range(part: &str) -> Result<Vec<String>, GridError> {
    let Some((from, rest)) = part.split_once("..").filter(|_| !part.starts_with('"')) else {
        return Ok(vec![part.to_owned()]);
    };
    let wrong = || {
        GridError::new(
            format!("'{part}' is no range"),
            "A..B, A..B+STEP or A..B*FACTOR such as 1..8, 0..100ns+20ns or 1MiB..16MiB*2, with \
             whole numbers, from a smaller to a larger one in the same unit",
        )
    };
    let (to, step) = match rest.find(['+', '*']) {
        Some(at) => (&rest[..at], Some((&rest[at..=at], &rest[at + 1..]))),
        None => (rest, None),
    };
    let (from, to) = (quantity(from).ok_or_else(wrong)?, quantity(to).ok_or_else(wrong)?);
    let step = match step {
        None => RangeStep::Plus(1),
        Some(("+", step)) => {
            let (step, unit) = quantity(step).ok_or_else(wrong)?;
            let fits = unit.is_empty() || unit == to.1;
            RangeStep::Plus(Some(step).filter(|_| fits).ok_or_else(wrong)?)
        }
        Some((_, factor)) => RangeStep::Times(factor.trim().parse().map_err(|_| wrong())?),
    };
    // 0 has no unit, as everywhere.
    let is_one_unit = from.1 == to.1 || from == (0, "");
    let ends = is_one_unit && from.0 <= to.0 && step.reaches_end(from.0);
    let numbers = if ends { numbers(from.0, to.0, step)? } else { return Err(wrong()) };
    Ok(numbers.into_iter().map(|number| format!("{number}{}", to.1)).collect())
}

/// The step between two numbers of a range.
#[derive(Clone, Copy)]
enum RangeStep {
    Plus(u64),
    Times(u64),
}

impl RangeStep {
    /// Returns whether a range that begins with `from` ends.
    fn reaches_end(self, from: u64) -> bool {
        match self {
            Self::Plus(step) => step > 0,
            Self::Times(factor) => factor > 1 && from > 0,
        }
    }

    fn after(self, number: u64) -> Option<u64> {
        match self {
            Self::Plus(step) => number.checked_add(step),
            Self::Times(factor) => number.checked_mul(factor),
        }
    }
}

/// Returns the numbers of a range, its end included if a step meets it.
fn numbers(from: u64, to: u64, step: RangeStep) -> Result<Vec<u64>, GridError> {
    let all = std::iter::successors(Some(from), |&number| step.after(number));
    let some: Vec<_> = all.take_while(|&number| number <= to).take(POINTS_MAX + 1).collect();
    check_point_count(some.len()).map(|()| some)
}

/// Splits a quantity into a whole number and its unit, which may be empty.
fn quantity(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let is_unit = unit.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '/');
    number.parse().ok().filter(|_| is_unit).map(|number| (number, unit))
}

fn check_point_count(points: usize) -> Result<(), GridError> {
    match points <= POINTS_MAX {
        true => Ok(()),
        false => Err(GridError::new("the grid has too many points", "100000 of them at most")),
    }
}

/// Refuses a list with equal items.
fn check_distinct<T: Ord>(items: &[T], told: impl Fn(&T) -> String) -> Result<(), GridError> {
    let mut sorted: Vec<_> = items.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(GridError::new(told(pair[0]), "each once")),
    }
}

/// Seeds without duplicates, from text such as `1-5` or `1,7,10-12`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(Vec<u64>);

impl FromStr for Seeds {
    type Err = GridError;

    fn from_str(text: &str) -> Result<Self, GridError> {
        let wrong = || GridError::new(format!("'{text}' is no list of seeds"), "such as 1-5 or 7");
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to) = (number(from)?, number(to)?);
            if from > to {
                return Err(wrong());
            }
            seeds.extend(numbers(from, to, RangeStep::Plus(1))?);
            check_point_count(seeds.len())?;
        }
        check_distinct(&seeds, |seed| format!("seed {seed} stands twice in '{text}'"))?;
        Ok(Self(seeds))
    }
}

/// All combinations of the values of some axes, each with every seed.
///
/// Points are numbered from 0. The seed changes fastest, then the last axis, and the first one
/// slowest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    axes: Vec<Axis>,
    seeds: Vec<u64>,
}

/// A point of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridPoint<'a> {
    /// Its number.
    pub number: usize,
    /// The value of each axis, in order.
    pub values: Vec<&'a str>,
    /// The seed.
    pub seed: u64,
}

impl Grid {
    /// Creates the grid of these axes; without any, one point per seed.
    ///
    /// # Errors
    /// If a key occurs twice, or if there are more than [`POINTS_MAX`] points.
    pub fn new(axes: Vec<Axis>, Seeds(seeds): Seeds) -> Result<Self, GridError> {
        let keys: Vec<_> = axes.iter().map(Axis::key).collect();
        check_distinct(&keys, |key| format!("{key} has two lines of the grid"))?;
        let counts = axes.iter().map(|axis| axis.values.len());
        let points = counts.fold(seeds.len(), usize::saturating_mul);
        check_point_count(points)?;
        Ok(Self { axes, seeds })
    }

    /// Returns the axes, in order.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the seeds, in order; at least one.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// Returns the number of points, 1 or more.
    pub fn points(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product::<usize>() * self.seeds.len()
    }

    /// Returns the point of a number below [`Grid::points`].
    pub fn point(&self, number: usize) -> GridPoint<'_> {
        let mut rest = number / self.seeds.len();
        let slower = self.axes.iter().rev().map(|axis| {
            let value = &axis.values[rest % axis.values.len()];
            rest /= axis.values.len();
            value.as_str()
        });
        let mut values: Vec<_> = slower.collect();
        values.reverse();
        GridPoint { number, values, seed: self.seeds[number % self.seeds.len()] }
    }
}

/// A shard of a grid: of `n` shards, the `i`th has the points `i - 1`, `i - 1 + n` and so on.
/// Neighbouring points have similar costs, and so have shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// The whole grid.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Returns the numbers of its points, of a grid of `points` points.
    pub fn numbers(self, points: usize) -> impl Iterator<Item = usize> {
        (self.index..points).step_by(self.count)
    }
}

impl FromStr for Shard {
    type Err = GridError;

    /// Parses `i/n`, with `i` from 1 to `n`.
    fn from_str(text: &str) -> Result<Self, GridError> {
        let wrong = || {
            let expected = "I/N, from 1/N to N/N, such as 3/16, and 100000/100000 at most";
            GridError::new(format!("'{text}' is no shard"), expected)
        };
        let (number, count) = text.split_once('/').ok_or_else(wrong)?;
        let parsed = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let (number, count) = (parsed(number)?, parsed(count)?);
        match (1..=count).contains(&number) && count <= POINTS_MAX {
            true => Ok(Self { index: number - 1, count }),
            false => Err(wrong()),
        }
    }
}
