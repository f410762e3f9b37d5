//! Parses and prints sizes, rates and times such as `64K`, `1.5GiB`, `500MB/s`, `1ms`.
//!
//! `K M G T` and `KiB MiB GiB TiB` are powers of 1024, `kB KB MB GB TB` are powers of 1000.

use crate::Escape as _;

/// The error of a text that is not the requested quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is {} {expected}", text.escaped(), problem.words())]
pub struct UnitError {
    text: String,
    problem: UnitProblem,
    expected: &'static str,
}

/// What is wrong with a text that is to be a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitProblem {
    /// No number, or no unit that is known.
    Malformed,
    Zero,
    TooLarge,
}

impl UnitProblem {
    /// Returns the words before the quantity that is expected.
    fn words(self) -> &'static str {
        match self {
            Self::Malformed => "not",
            Self::Zero => "zero, not",
            Self::TooLarge => "too large, not",
        }
    }
}

const SIZE_UNITS: [(&str, u64); 15] = [
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("kB", 1_000),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("T", 1 << 40),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
];

const TIME_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const PICOSECOND_UNITS: [(&str, u64); 4] = [("", 1), ("ps", 1), ("ns", 1_000), ("us", 1_000_000)];

/// Parses bytes from text such as `64K`, `2MiB` or `1.5GB`.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    quantity(text, &SIZE_UNITS).map_err(of(text, "a size such as 64K, 2MiB or 1.5GB"))
}

/// Parses bytes per second from text such as `500MB/s`; the `/s` may be left out; zero is refused.
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    quantity(text.strip_suffix("/s").unwrap_or(text), &SIZE_UNITS)
        .and_then(above_zero)
        .map_err(of(text, "a rate such as 500MB/s or 2GiB/s"))
}

/// Parses nanoseconds from text such as `250us`, `1ms` or `2min`; the unit is required and zero is
/// refused.
pub fn parse_duration_ns(text: &str) -> Result<u64, UnitError> {
    quantity(text, &TIME_UNITS)
        .and_then(above_zero)
        .map_err(of(text, "a time such as 250us, 1ms or 2s"))
}

/// Parses picoseconds from text such as `500ps`, `2.5ns` or `500`; zero is allowed.
pub fn parse_duration_ps(text: &str) -> Result<u64, UnitError> {
    quantity(text, &PICOSECOND_UNITS).map_err(of(text, "a time such as 500ps or 2.5ns"))
}

/// Parses thousandths from a number with at most three decimals, such as `4` or `1.5`.
pub fn parse_thousandths(text: &str) -> Result<u64, UnitError> {
    quantity(text, &[("", 1000)]).map_err(of(text, "a number such as 4 or 1.5"))
}

fn of(text: &str, expected: &'static str) -> impl FnOnce(UnitProblem) -> UnitError {
    move |problem| UnitError { text: text.to_owned(), problem, expected }
}

fn above_zero(value: u64) -> Result<u64, UnitProblem> {
    if value > 0 { Ok(value) } else { Err(UnitProblem::Zero) }
}

/// Parses digits with at most three decimals, then a unit; exact in integers.
fn quantity(text: &str, units: &[(&str, u64)]) -> Result<u64, UnitProblem> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = units.iter().find(|(name, _)| *name == unit.trim_start());
    let scale = unit.ok_or(UnitProblem::Malformed)?.1;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || decimals.len() > 3 || number.ends_with('.') {
        return Err(UnitProblem::Malformed);
    }
    let thousandths: u64 = format!("{decimals:0<3}").parse().map_err(|_| UnitProblem::Malformed)?;
    let part = u128::from(thousandths) * u128::from(scale) / 1000;
    // Digits alone: a number that does not fit is too large.
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(scale));
    let sum = whole.and_then(|whole| whole.checked_add(u64::try_from(part).ok()?));
    sum.ok_or(UnitProblem::TooLarge)
}

/// Formats bytes in powers of 1024 with three significant digits: `1.50 GiB`.
pub fn format_bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {}", units[unit])
}

/// Formats a time: `850 ns`, `12.3 us`, `1.04 ms`, `2.50 s`.
pub fn format_ns(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65_536),
            ("2MiB", 2_097_152),
            ("1.5G", 1_610_612_736), // 1.5 x 2^30
            ("1.5 GB", 1_500_000_000),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_rate("500MB/s"), Ok(500_000_000));
        assert_eq!(parse_rate("1G"), Ok(1 << 30));
    }

    #[test]
    fn what_is_finer_than_a_nanosecond_or_than_one() {
        for (text, ps) in [("0", 0), ("500", 500), ("39.5ns", 39_500), ("1us", 1_000_000)] {
            assert_eq!(parse_duration_ps(text), Ok(ps), "{text}");
        }
        for (text, thousandths) in [("4", 4000), ("1.5", 1500), ("0.001", 1)] {
            assert_eq!(parse_thousandths(text), Ok(thousandths), "{text}");
        }
        assert!(parse_duration_ps("1ms").is_err());
        assert!(parse_thousandths("0.0001").is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "x", "1X", "-1", "1.", ".5", "1.2345K", "1e3", "99999999999T", "MB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert!(parse_rate("0/s").is_err());
        assert_eq!(parse_duration_ns("1.5h").unwrap(), 90 * parse_duration_ns("1min").unwrap());
        for (text, problem) in [
            ("1", "not"),
            ("1m", "not"),
            ("1d", "not"),
            ("ms", "not"),
            ("0ms", "zero, not"),
            ("9999999999h", "too large, not"),
        ] {
            let told = format!("'{text}' is {problem} a time such as 250us, 1ms or 2s");
            assert_eq!(parse_duration_ns(text).unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn shown_as_people_read_them() {
        assert_eq!(format_bytes(1023), "1023 B");
        assert_eq!(format_bytes(1536), "1.50 KiB");
        assert_eq!(format_bytes(512 << 20), "512 MiB");
        assert_eq!(format_bytes(u64::MAX), "16.0 EiB");
        assert_eq!(format_ns(1_040_000), "1.04 ms");
        assert_eq!(format_ns(850), "850 ns");
    }
}
