//! Confidence intervals of shares, in integers.
//!
//! Wilson's score interval for a share `p` of `n` samples: the values that a test at the same
//! confidence would not reject. Centre `(p + z²/2n) / (1 + z²/n)`, half width
//! `z √(p(1-p)/n + z²/4n²) / (1 + z²/n)`.

/// The whole, in millionths.
pub const WHOLE_PPM: u64 = 1_000_000;

/// Returns z², in millionths, such that the intervals of this number of nodes all hold with 95 %
/// probability: 1.96² for up to two (the shares of two nodes complement each other), Bonferroni's
/// correction above.
pub fn z2_ppm(nodes: usize) -> u64 {
    match nodes {
        0..=2 => 3_841_459,
        3 => 5_731_000,
        4 => 6_239_000,
        5..=8 => 7_477_000,
        9..=16 => 8_733_000,
        17..=64 => 11_263_000,
        _ => 16_500_000,
    }
}

/// A share with its confidence interval, all in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The lower bound.
    pub low_ppm: u64,
    /// The most likely value.
    pub ppm: u64,
    /// The upper bound.
    pub high_ppm: u64,
}

impl Interval {
    /// Returns a share that is known exactly.
    pub fn exact(ppm: u64) -> Self {
        Self { low_ppm: ppm, ppm, high_ppm: ppm }
    }

    /// Returns the larger of the distances from the value to its bounds.
    pub fn half_width_ppm(self) -> u64 {
        (self.high_ppm - self.ppm).max(self.ppm - self.low_ppm)
    }
}

/// Returns Wilson's interval of a share of `milli_samples` thousandths of a sample (an effective
/// sample size need not be an integer). With no samples the interval is the whole.
pub fn wilson(ppm: u64, milli_samples: u64, z2_ppm: u64) -> Interval {
    if milli_samples == 0 {
        return Interval { low_ppm: 0, ppm, high_ppm: WHOLE_PPM };
    }
    let (one, p) = (u128::from(WHOLE_PPM), u128::from(ppm.min(WHOLE_PPM)));
    let z2_per_n = u128::from(z2_ppm) * 1000 / u128::from(milli_samples); // z²/n, ppm
    let spread = p * (one - p) / one * z2_per_n + z2_per_n * z2_per_n / 4; // ppm²
    let half = spread.isqrt() * one / (one + z2_per_n);
    let centre = (p + z2_per_n / 2) * one / (one + z2_per_n);
    Interval {
        low_ppm: clamp(centre.saturating_sub(half)).min(ppm),
        ppm,
        high_ppm: clamp(centre + half).max(ppm),
    }
}

/// Returns about the number of samples after which Wilson's interval of a share has a half-width of
/// at most `half_width_ppm`.
pub fn sample_size_for(ppm: u64, reach_ppm: u64, z2_ppm: u64) -> u64 {
    let (one, reach) = (u128::from(WHOLE_PPM), u128::from(reach_ppm.max(1)));
    let p = u128::from(ppm.min(WHOLE_PPM));
    let z2 = u128::from(z2_ppm);
    let normal = z2 * p * (one - p) / (reach * reach) / one; // z² p(1-p) / d²
    let at_the_edge = z2 * (one - reach.min(one)) / reach / one; // p = 0: z²(1-d)/d
    saturating_u64(normal.max(at_the_edge) + 1)
}

fn clamp(ppm: u128) -> u64 {
    saturating_u64(ppm).min(WHOLE_PPM)
}

fn saturating_u64(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textbook_values() {
        // p = 0.5, n = 100: centre 0.5, half 0.0962 = 1.96 √(0.0025 + 0.000096) / 1.0384.
        let half = wilson(500_000, 100_000, 3_841_459);
        assert!((403_700..403_900).contains(&half.low_ppm), "{half:?}");
        assert!((596_100..596_300).contains(&half.high_ppm), "{half:?}");
        // p = 0, n = 100: the bound is z²/(n + z²) = 3.8415/103.84 = 0.03699.
        let none = wilson(0, 100_000, 3_841_459);
        assert_eq!(none.low_ppm, 0);
        assert!((36_900..37_100).contains(&none.high_ppm), "{none:?}");
    }

    #[test]
    fn two_points_need_2401_samples_at_worst_and_189_at_best() {
        assert_eq!(sample_size_for(500_000, 20_000, z2_ppm(2)), 2401); // 3.8415 x 0.25 / 0.0004
        assert_eq!(sample_size_for(0, 20_000, z2_ppm(2)), 189); // 3.8415 x 0.98 / 0.02 = 188.2
        assert!(wilson(0, 189_000, z2_ppm(2)).half_width_ppm() <= 20_000);
        // Three equal nodes: 5.731 x (1/3 x 2/3) / 0.0004 = 3184, as in Thompson (1987).
        assert_eq!(sample_size_for(333_333, 20_000, z2_ppm(3)), 3184);
    }

    #[test]
    fn bounds_enclose_the_value_whatever_it_is() {
        for ppm in [0, 1, 9_999, 500_000, 999_999, WHOLE_PPM] {
            for milli in [0, 1, 1_000, 50_000, 10_000_000, u64::MAX / 2] {
                let seen = wilson(ppm, milli, z2_ppm(8));
                assert!(seen.low_ppm <= ppm && ppm <= seen.high_ppm, "{seen:?}");
                assert!(seen.high_ppm <= WHOLE_PPM);
            }
        }
    }
}
