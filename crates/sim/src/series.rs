//! Curves over time, in bounded memory: when there are too many points, every second one goes.

use serde::Serialize;

/// Points that are kept at most. Memory is that many times the nodes.
const POINTS_MAX: usize = 2048;

/// What is known at a time. What only grows is told as its sum so far, so that a point that is left
/// out takes nothing with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Point {
    /// When, in virtual nanoseconds.
    pub at_ns: u64,
    /// Cache lines from the CPUs' own nodes so far.
    pub local_lines: u64,
    /// Cache lines from other nodes so far.
    pub remote_lines: u64,
    /// Base pages that went to another node so far.
    pub migrated_pages: u64,
    /// Those of them that went in a fault of who touched them, as the kernel's balancing does it.
    #[serde(skip)]
    pub fault_pages: u64,
    /// Those that went because a call asked for it.
    #[serde(skip)]
    pub called_pages: u64,
    /// CPUs that are not idle.
    pub busy_cpus: u64,
    /// Each node, in the order of the machine.
    pub nodes: Vec<NodePoint>,
}

/// What is known of a node at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodePoint {
    /// Base pages that nobody uses, those in the lists of CPUs included.
    pub free_pages: u64,
    /// What its memory delivers at this moment, in bytes a second.
    pub bytes_per_s: u64,
}

/// Points in order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    points: Vec<Point>,
    every_ns: u64,
}

impl Series {
    /// Without points; one is wanted so often.
    pub fn new(every_ns: u64) -> Self {
        Self { points: Vec::new(), every_ns: every_ns.max(1) }
    }

    /// How far apart points are now, in virtual nanoseconds.
    pub fn every_ns(&self) -> u64 {
        self.every_ns
    }

    /// The points, by ascending time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Adds a point. With too many, half of them go, and the next are wanted half as often.
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

    /// The last point that is not later than this.
    pub fn at(&self, at_ns: u64) -> Option<&Point> {
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

    /// Goal: memory is bounded, and what is left is evenly spread from the first point on.
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
        assert_eq!(series.at(9), Some(&point(0)));
        assert_eq!(series.at(10), Some(&point(10)));
        assert_eq!(series.at(99), Some(&point(20)));
        assert_eq!(Series::new(1).at(5), None);
    }
}
