//! Medians and ratios of measured values.

use std::time::Duration;

pub use nodeward_proof::median;

/// Returns for each duration of the first series its ratio to the same one of the second.
pub fn ratios(first: &[Duration], second: &[Duration]) -> Vec<f64> {
    let ratio = |(a, b): (&Duration, &Duration)| a.as_secs_f64() / b.as_secs_f64();
    first.iter().zip(second).map(ratio).collect()
}

/// Returns the durations in milliseconds.
pub fn ms(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|time| time.as_secs_f64() * 1e3).collect()
}

/// Rounds to three decimals, which is more than any of this is worth.
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Rounds all values to three decimals.
pub fn all_rounded(values: &[f64]) -> Vec<f64> {
    values.iter().map(|&value| rounded(value)).collect()
}

/// Returns bytes per second, for moves of `bytes` bytes with these durations in milliseconds.
pub fn rate(bytes: u64, times_ms: &[f64]) -> u64 {
    (bytes as f64 / median(times_ms).max(1e-3) * 1e3) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_neighbours() {
        let of = |ms: &[u64]| ms.iter().map(|&ms| Duration::from_millis(ms)).collect::<Vec<_>>();
        assert_eq!(ratios(&of(&[10, 30]), &of(&[5, 60])), [2.0, 0.5]);
    }

    #[test]
    fn a_rate_is_that_of_the_median() {
        assert_eq!(rate(1000, &[1.0, 2.0, 50.0]), 500_000);
    }
}
