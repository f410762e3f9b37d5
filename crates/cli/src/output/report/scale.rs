//! Axes: steps that people read easily, and their labels.

use nodeward_model::units::format_bytes;

/// Steps on an axis of values at most.
const STEPS_MAX: u64 = 5;
/// Steps of an axis of time, in seconds.
const TIME_STEPS: [u64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400];
/// Labels on an axis of time at most: more would meet on a narrow screen.
const TIME_LABELS_MAX: u64 = 4;

/// What the values of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Thousandths of a CPU.
    MilliCpus,
    /// Millionths of a whole.
    Share,
}

impl Quantity {
    /// Formats a value in a few characters.
    pub fn label(self, value: u64) -> String {
        match self {
            Self::Bytes => short_bytes(value),
            Self::BytesPerSecond => format!("{}/s", short_bytes(value)),
            Self::MilliCpus if value.is_multiple_of(1000) => (value / 1000).to_string(),
            Self::MilliCpus => format!("{:.2}", value as f64 / 1000.0),
            Self::Share => format!("{} %", (value + 5_000) / 10_000),
        }
    }

    /// The unit in which steps are 1, 2 or 5 times a power of ten.
    fn unit(self, highest: u64) -> u64 {
        match self {
            Self::Bytes | Self::BytesPerSecond => {
                let powers = [40, 30, 20, 10, 0].map(|bits| 1_u64 << bits);
                powers.into_iter().find(|&unit| highest >= unit).unwrap_or(1)
            }
            Self::MilliCpus | Self::Share => 1,
        }
    }
}

/// The steps of an axis from zero to at least the highest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueAxis {
    step: u64,
    steps: u64,
}

impl ValueAxis {
    /// Creates the axis of values up to `highest`.
    pub fn of(quantity: Quantity, highest: u64) -> Self {
        if quantity == Quantity::Share {
            return Self { step: 250_000, steps: 4 };
        }
        let unit = quantity.unit(highest);
        let highest = highest.max(1);
        let powers = (0..20).map(|power| 10_u64.saturating_pow(power));
        let steps =
            powers.flat_map(|power| [power, power.saturating_mul(2), power.saturating_mul(5)]);
        let fits = |step: &u64| highest.div_ceil(*step) <= STEPS_MAX;
        let step = steps.map(|step| step.saturating_mul(unit)).find(fits).unwrap_or(highest);
        Self { step, steps: highest.div_ceil(step) }
    }

    /// The value at its end.
    pub fn end(self) -> u64 {
        self.step.saturating_mul(self.steps)
    }

    /// Its steps, from zero.
    pub fn ticks(self) -> impl Iterator<Item = u64> {
        (0..=self.steps).map(move |step| self.step.saturating_mul(step))
    }
}

/// Returns the moments with labels on an axis of time of this length, in nanoseconds.
pub fn time_ticks(length_ns: u64) -> Vec<u64> {
    let seconds = length_ns / 1_000_000_000;
    let fits = |step: &u64| seconds / step <= TIME_LABELS_MAX;
    let step = TIME_STEPS.into_iter().find(fits).unwrap_or(seconds / TIME_LABELS_MAX);
    (0..=seconds / step).map(|at| at * step * 1_000_000_000).collect()
}

/// Formats a time since the beginning: `45 s`, `1 min 30 s`, `2 h 5 min`.
pub fn clock(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let two = |whole: u64, unit: &str, rest: u64, rest_unit: &str| match rest {
        0 => format!("{whole} {unit}"),
        rest => format!("{whole} {unit} {rest} {rest_unit}"),
    };
    match seconds {
        0..10 if !ns.is_multiple_of(1_000_000_000) => format!("{:.1} s", ns as f64 / 1e9),
        0..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        _ => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
    }
}

/// Formats bytes without meaningless decimals.
fn short_bytes(bytes: u64) -> String {
    let text = format_bytes(bytes);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    match number.contains('.') {
        true => format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.')),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(quantity: Quantity, highest: u64) -> Vec<String> {
        ValueAxis::of(quantity, highest).ticks().map(|tick| quantity.label(tick)).collect()
    }

    /// Goal: steps are round numbers in the unit that is shown, and reach the highest value.
    #[test]
    fn steps_are_round() {
        let mib = 1 << 20;
        let bytes = |highest| labels(Quantity::Bytes, highest);
        assert_eq!(bytes(260 * mib), ["0 B", "100 MiB", "200 MiB", "300 MiB"]);
        assert_eq!(bytes(5 << 30), ["0 B", "1 GiB", "2 GiB", "3 GiB", "4 GiB", "5 GiB"]);
        assert_eq!(bytes(0), ["0 B", "1 B"]);
        assert_eq!(labels(Quantity::MilliCpus, 1_700), ["0", "0.50", "1", "1.50", "2"]);
        assert_eq!(labels(Quantity::Share, 7), ["0 %", "25 %", "50 %", "75 %", "100 %"]);
        assert!(ValueAxis::of(Quantity::Bytes, u64::MAX).end() > u64::MAX / 2);
    }

    /// Goal: an axis of time has at most five labels, whatever its length.
    #[test]
    fn times_are_labelled_sparsely() {
        let second = 1_000_000_000;
        assert_eq!(
            time_ticks(30 * second).iter().map(|&ns| clock(ns)).collect::<Vec<_>>(),
            ["0 s", "10 s", "20 s", "30 s"]
        );
        for seconds in [0, 1, 4, 5, 59, 61, 599, 3600, 86_400, 1_000_000] {
            let ticks = time_ticks(seconds * second);
            assert!((1..=5).contains(&ticks.len()), "{seconds}: {ticks:?}");
        }
    }

    #[test]
    fn times_are_read_aloud() {
        let clock = |ms: u64| clock(ms * 1_000_000);
        assert_eq!([clock(1_500), clock(59_900), clock(90_000)], ["1.5 s", "59 s", "1 min 30 s"]);
        assert_eq!([clock(3_600_000), clock(7_500_000)], ["1 h", "2 h 5 min"]);
    }
}
