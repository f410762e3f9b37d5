//! Summary of several figures.

use serde::Serialize;

/// The median and the range of several figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MedianRange {
    /// The median; of an even number of figures, the mean of the two in the middle.
    pub median: f64,
    /// The least figure.
    pub least: f64,
    /// The greatest figure.
    pub most: f64,
}

impl MedianRange {
    /// Computes the spread of at least one figure. Infinity represents an event that never
    /// happened.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (&least, &most) = (figures.first()?, figures.last()?);
        let middle = figures.len() / 2;
        let median = match figures.len() % 2 {
            1 => figures[middle],
            _ => f64::midpoint(figures[middle - 1], figures[middle]),
        };
        Some(Self { median, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the median of an odd number, of an even number, and the range.
    #[test]
    fn medians_and_ranges() {
        let spread = |figures: &[f64]| MedianRange::of(figures.iter().copied());
        let of = |median, least, most| Some(MedianRange { median, least, most });
        assert_eq!(spread(&[3.0, 1.0, 2.0]), of(2.0, 1.0, 3.0));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 9.0]), of(3.0, 1.0, 9.0)); // (2 + 4) / 2
        assert_eq!(spread(&[7.0]), of(7.0, 7.0, 7.0));
        assert_eq!(spread(&[]), None);
    }

    /// Goal: an event that never happened is later than any other.
    #[test]
    fn never_is_the_most() {
        let of = |figures: [f64; 3]| MedianRange::of(figures).unwrap();
        assert_eq!(of([2.0, f64::INFINITY, 1.0]).median, 2.0);
        assert_eq!(of([2.0, f64::INFINITY, f64::INFINITY]).median, f64::INFINITY);
    }
}
