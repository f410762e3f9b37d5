//! Parsers of typed values that several verbs take.

use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::value_parser;
use nodeward_model::units;
use nodeward_scenario::limits;

/// The time between two looks is at least this.
const INTERVAL_NS_MIN: u64 = 100_000_000;
/// And at most this: an hour.
const INTERVAL_NS_MAX: u64 = 3_600_000_000_000;

/// Creates a parser of one of `all` by its name; `--help` lists the names.
pub fn choice_parser<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name))
        .map(move |word| all.into_iter().find(|&value| name(value) == word).unwrap_or(all[0]))
}

/// Parses `KEY=VALUE` of a setting or a scenario, without changing either word.
pub fn parse_override(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let expected = "expected KEY=VALUE, such as move.rate=500MB/s for a setting, or \
                    machine.latency=100ns for a scenario";
    pair.map(|(key, value)| (key.into(), value.into())).ok_or_else(|| expected.to_owned())
}

/// Parses a seed of a series, to which a number of them can be added.
pub fn seed() -> RangedU64ValueParser {
    value_parser!(u64).range(..1 << 63)
}

/// Parses a number of seeds.
pub fn seed_count() -> RangedU64ValueParser {
    value_parser!(u64).range(1..1 << 63)
}

/// Parses `KEY=VALUE`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as time=3s")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Parses a time that can be simulated, in nanoseconds.
pub fn virtual_ns(text: &str) -> Result<u64, String> {
    let ns = units::parse_duration_ns(text).map_err(|error| error.to_string())?;
    match ns <= limits::TIME_NS_MAX {
        true => Ok(ns),
        false => Err(format!("expected {} s or less", limits::TIME_NS_MAX / 1_000_000_000)),
    }
}

/// Parses the time between two looks at a machine, in nanoseconds.
pub fn interval_ns(text: &str) -> Result<u64, String> {
    let ns = units::parse_duration_ns(text).map_err(|error| error.to_string())?;
    match ns {
        INTERVAL_NS_MIN..=INTERVAL_NS_MAX => Ok(ns),
        _ => Err("give 100ms to 3600s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an interval that would load the machine, or never come, is refused.
    #[test]
    fn intervals_are_bounded() {
        assert_eq!(interval_ns("100ms"), Ok(100_000_000));
        assert_eq!(interval_ns("3600s"), Ok(3_600_000_000_000));
        for text in ["99ms", "0s", "3601s", "soon", ""] {
            assert!(interval_ns(text).is_err(), "{text}");
        }
    }
}
