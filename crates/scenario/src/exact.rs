//! Exact quantities, in the largest unit that makes them whole numbers. Different values therefore
//! have different texts.

const SIZES: [(u64, &str); 5] =
    [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
const RATES: [(u64, &str); 5] = [
    (1_000_000_000_000, "TB/s"),
    (1_000_000_000, "GB/s"),
    (1_000_000, "MB/s"),
    (1_000, "KB/s"),
    (1, "B/s"),
];
const TIMES: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
const SHORT_TIMES: [(u64, &str); 3] = [(1_000_000, "us"), (1_000, "ns"), (1, "ps")];

pub(crate) fn bytes(bytes: u64) -> String {
    in_largest_whole_unit(bytes, &SIZES)
}

pub(crate) fn rate(bytes_per_s: u64) -> String {
    in_largest_whole_unit(bytes_per_s, &RATES)
}

/// Zero has no unit, as a time of zero has none anywhere.
pub(crate) fn ns(ns: u64) -> String {
    if ns == 0 { "0".to_owned() } else { in_largest_whole_unit(ns, &TIMES) }
}

pub(crate) fn ps(ps: u64) -> String {
    in_largest_whole_unit(ps, &SHORT_TIMES)
}

fn in_largest_whole_unit(value: u64, units: &[(u64, &str)]) -> String {
    let fits = |(scale, _): &&(u64, &str)| value >= *scale && value.is_multiple_of(*scale);
    let (scale, unit) = units.iter().find(fits).or(units.last()).copied().unwrap_or((1, ""));
    format!("{}{unit}", value / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_whole_in_their_unit() {
        assert_eq!(bytes(2 << 30), "2GiB");
        assert_eq!(bytes((2 << 30) + 4096), "2097156KiB");
        assert_eq!(bytes(1025), "1025B");
        assert_eq!((bytes(0), ns(0)), ("0B".to_owned(), "0".to_owned()));
        assert_eq!((ns(1_500_000), ns(60_000_000_000)), ("1500us".to_owned(), "60s".to_owned()));
        assert_eq!(rate(1_000_000), "1MB/s");
    }
}
