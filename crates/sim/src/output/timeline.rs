//! Summary of a run over time, for comparing balancers: how local memory accesses were, since when,
//! and how many pages moved.

use crate::statistics::Point;

/// Samples in order of time. Their values are sums since the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    points: Vec<Point>,
}

const MINUTE_NS: u128 = 60_000_000_000;

impl Timeline {
    /// Creates a timeline from points in order of time.
    pub fn of(points: Vec<Point>) -> Self {
        Self { points }
    }

    /// Returns the points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the last point at or before a time, or the first point if all are later.
    fn point_at(&self, at_ns: u64) -> Option<&Point> {
        let after = self.points.partition_point(|point| point.at_ns <= at_ns);
        self.points.get(after.saturating_sub(1))
    }

    /// Returns local lines per 1000 lines from memory in an interval of virtual time. `None` if
    /// there were no lines.
    pub fn local_milli(&self, from_ns: u64, to_ns: u64) -> Option<u64> {
        let (first, last) = (self.point_at(from_ns)?, self.point_at(to_ns)?);
        local_share_milli(first, last)
    }

    /// Returns the virtual time (ns) since which every interval of `stretch_ns` until the end had
    /// at least `local_milli` local lines per 1000. `None` if the last interval had fewer.
    /// Intervals without lines are ignored.
    pub fn local_since_ns(&self, local_milli: u64, stretch_ns: u64) -> Option<u64> {
        let end_ns = self.points.last()?.at_ns;
        let begin_ns = self.points.first()?.at_ns;
        let mut from_ns = None;
        let mut to_ns = end_ns;
        while to_ns > begin_ns {
            let back_ns = to_ns.saturating_sub(stretch_ns.max(1)).max(begin_ns);
            match self.local_milli(back_ns, to_ns) {
                Some(milli) if milli < local_milli => break,
                Some(_) => from_ns = Some(back_ns),
                None => {}
            }
            to_ns = back_ns;
        }
        from_ns
    }

    /// Returns the base pages moved per minute in an interval, by all movers, rounded up.
    pub fn pages_per_minute(&self, from_ns: u64, to_ns: u64) -> u64 {
        let (Some(first), Some(last)) = (self.point_at(from_ns), self.point_at(to_ns)) else {
            return 0;
        };
        let pages = u128::from(last.migrated_pages - first.migrated_pages);
        let ns = u128::from(last.at_ns - first.at_ns).max(1);
        u64::try_from((pages * MINUTE_NS).div_ceil(ns)).unwrap_or(u64::MAX)
    }
}

fn local_share_milli(first: &Point, last: &Point) -> Option<u64> {
    let local = u128::from(last.local_lines - first.local_lines);
    let all = local + u128::from(last.remote_lines - first.remote_lines);
    (all > 0).then(|| u64::try_from(local * 1000 / all).unwrap_or(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a timeline with one point per second and the given local lines (of 100) in each.
    fn timeline(local: &[u64]) -> Timeline {
        let mut point = Point::default();
        let mut points = vec![point.clone()];
        for (&local, second) in local.iter().zip(1..) {
            point.at_ns = second * 1_000_000_000;
            point.local_lines += local;
            point.remote_lines += 100 - local;
            point.migrated_pages += if local < 90 { 10 } else { 0 };
            points.push(point.clone());
        }
        Timeline::of(points)
    }

    /// Goal: the result is the end of the last interval that was not local, and shares are of the
    /// interval alone.
    #[test]
    fn times_and_shares_are_of_stretches() {
        let timeline = timeline(&[10, 95, 50, 90, 100, 90]);
        let s = 1_000_000_000;
        assert_eq!(timeline.local_milli(0, 2 * s), Some(525)); // 105 of 200
        assert_eq!(timeline.local_since_ns(900, s), Some(3 * s));
        assert_eq!(timeline.local_since_ns(0, s), Some(0));
        assert_eq!(timeline.local_since_ns(950, s), None);
        assert_eq!(timeline.pages_per_minute(3 * s, 6 * s), 0);
        assert_eq!(timeline.pages_per_minute(0, 3 * s), 400); // 20 in 3 s
        assert_eq!(Timeline::default().local_since_ns(900, s), None);
    }
}
