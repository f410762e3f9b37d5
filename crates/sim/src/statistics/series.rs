//! Time series in bounded memory: when there are too many points, every second one is dropped.

use serde::Serialize;

/// Maximum number of points. Memory is this number times the nodes.
const POINTS_MAX: usize = 2048;

/// The state at one time. Values that only grow are stored as their sum so far, so that dropping a
/// point loses no events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Time, in virtual nanoseconds.
    pub at_ns: u64,
    /// Cache lines from the CPUs' own nodes so far.
    pub local_lines: u64,
    /// Cache lines from other nodes so far.
    pub remote_lines: u64,
    /// Base pages moved to another node so far.
    pub migrated_pages: u64,
    /// Of those, pages moved in a fault of the thread that touched them, as by the kernel's NUMA
    /// balancing.
    #[serde(skip)]
    pub fault_pages: u64,
    /// Of those, pages moved by a call.
    #[serde(skip)]
    pub called_pages: u64,
    /// CPUs that are not idle.
    pub busy_cpus: u64,
    /// State of each node, in the order of the machine.
    pub nodes: Vec<NodePoint>,
}

/// The state of a node at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodePoint {
    /// Unused base pages, those in the lists of CPUs included.
    pub free_pages: u64,
    /// Present bandwidth of its memory, in bytes per second.
    pub bytes_per_s: u64,
}

/// Points in order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    points: Vec<Point>,
    every_ns: u64,
}

impl Series {
    /// Creates a series without points, with one point per `every_ns`.
    pub fn new(every_ns: u64) -> Self {
        Self { points: Vec::new(), every_ns: every_ns.max(1) }
    }

    /// Returns the present interval between points, in virtual nanoseconds.
    pub fn every_ns(&self) -> u64 {
        self.every_ns
    }

    /// Returns the points, by ascending time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Adds a point. If there are too many, drops every second one and doubles the interval.
    pub fn push(&mut self, point: Point) {
        self.points.push(point);
        if self.points.len() > POINTS_MAX {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every_ns = self.every_ns.saturating_mul(2);
        }
    }

    /// Returns the last point that is not later than `at_ns`.
    pub fn point_at(&self, at_ns: u64) -> Option<&Point> {
        let after = self.points.partition_point(|point| point.at_ns <= at_ns);
        self.points[..after].last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_ns: u64) -> Point {
        Point { at_ns, ..Point::default() }
    }

    /// Goal: memory is bounded, and the remaining points are evenly spaced from the first one on.
    #[test]
    fn too_many_points_are_halved() {
        let mut series = Series::new(10);
        let mut at_ns = 0;
        for _ in 0..20_000 {
            series.push(point(at_ns));
            assert!(series.points().len() <= POINTS_MAX);
            at_ns += series.every_ns();
        }
        let points = series.points();
        assert_eq!(points[0].at_ns, 0);
        let step = series.every_ns();
        // 20,000 points fit after halving 2048 four times or more: 10 ns x 2^n.
        assert!(step >= 160 && (step / 10).is_power_of_two(), "{step}");
        assert!(points.windows(2).all(|pair| pair[1].at_ns - pair[0].at_ns == step));
    }

    #[test]
    fn points_are_found_by_time() {
        let mut series = Series::new(10);
        (0..3).for_each(|number| series.push(point(number * 10)));
        assert_eq!(series.point_at(9), Some(&point(0)));
        assert_eq!(series.point_at(10), Some(&point(10)));
        assert_eq!(series.point_at(99), Some(&point(20)));
        assert_eq!(Series::new(1).point_at(5), None);
    }
}
