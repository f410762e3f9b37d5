//! How a run went, as those who compare balancers ask: how local memory was, from when on, and what
//! was moved for it.

use crate::series::Point;

/// Points in order of time; what they tell are sums since the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    points: Vec<Point>,
}

const MINUTE_NS: u128 = 60_000_000_000;

impl Course {
    /// Of points in order of time.
    pub fn of(points: Vec<Point>) -> Self {
        Self { points }
    }

    /// Its points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The last point until then, or the first of all.
    fn at(&self, at_ns: u64) -> Option<&Point> {
        let after = self.points.partition_point(|point| point.at_ns <= at_ns);
        self.points.get(after.saturating_sub(1))
    }

    /// Of 1000 lines from memory in a stretch of virtual time, those of the own node; none where
    /// there were no lines.
    pub fn local_milli(&self, from_ns: u64, to_ns: u64) -> Option<u64> {
        let (first, last) = (self.at(from_ns)?, self.at(to_ns)?);
        milli(first, last)
    }

    /// From when on, in virtual nanoseconds, so many of 1000 lines were local in each stretch of so
    /// long until the end; none if they were not in the last one. Stretches without lines count
    /// for nothing.
    pub fn local_from_ns(&self, local_milli: u64, stretch_ns: u64) -> Option<u64> {
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

    /// Base pages moved in a minute, by all, as they were moved in this stretch; rounded up.
    pub fn pages_per_minute(&self, from_ns: u64, to_ns: u64) -> u64 {
        let (Some(first), Some(last)) = (self.at(from_ns), self.at(to_ns)) else { return 0 };
        let pages = u128::from(last.migrated_pages - first.migrated_pages);
        let ns = u128::from(last.at_ns - first.at_ns).max(1);
        u64::try_from((pages * MINUTE_NS).div_ceil(ns)).unwrap_or(u64::MAX)
    }
}

fn milli(first: &Point, last: &Point) -> Option<u64> {
    let local = u128::from(last.local_lines - first.local_lines);
    let all = local + u128::from(last.remote_lines - first.remote_lines);
    (all > 0).then(|| u64::try_from(local * 1000 / all).unwrap_or(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point each second, with so many lines of 100 that were local in the second before.
    fn course(local: &[u64]) -> Course {
        let mut point = Point::default();
        let mut points = vec![point.clone()];
        for (&local, second) in local.iter().zip(1..) {
            point.at_ns = second * 1_000_000_000;
            point.local_lines += local;
            point.remote_lines += 100 - local;
            point.migrated_pages += if local < 90 { 10 } else { 0 };
            points.push(point.clone());
        }
        Course::of(points)
    }

    /// Goal: it is local from the end of the last stretch that was not, and shares are of the
    /// stretch alone.
    #[test]
    fn times_and_shares_are_of_stretches() {
        let course = course(&[10, 95, 50, 90, 100, 90]);
        let s = 1_000_000_000;
        assert_eq!(course.local_milli(0, 2 * s), Some(525)); // 105 of 200
        assert_eq!(course.local_from_ns(900, s), Some(3 * s));
        assert_eq!(course.local_from_ns(0, s), Some(0));
        assert_eq!(course.local_from_ns(950, s), None);
        assert_eq!(course.pages_per_minute(3 * s, 6 * s), 0);
        assert_eq!(course.pages_per_minute(0, 3 * s), 400); // 20 in 3 s
        assert_eq!(Course::default().local_from_ns(900, s), None);
    }
}
