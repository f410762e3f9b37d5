//! Locality of last-level misses over the time of a run.

use serde::Serialize;

/// Misses since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MissSample {
    /// Time in milliseconds since the run began.
    pub at_ms: u64,
    /// Misses of CPUs on memory of their own node.
    pub local: u64,
    /// Misses of CPUs on memory of other nodes.
    pub remote: u64,
}

/// Samples in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MissTimeline(pub Vec<MissSample>);

impl MissTimeline {
    /// Returns the share of local misses between two times, in milliseconds; `None` without misses.
    pub fn local_share(&self, from_ms: u64, to_ms: u64) -> Option<f64> {
        let (from, to) = (self.at(from_ms), self.at(to_ms));
        local_share(to.local - from.local, to.remote - from.remote)
    }

    /// Returns the shares in `count` equal parts of the time up to `until_ms`.
    pub fn parts(&self, until_ms: u64, count: u64) -> Vec<Option<f64>> {
        let end = |part: u64| until_ms * part / count;
        (0..count).map(|part| self.local_share(end(part), end(part + 1))).collect()
    }

    /// Returns the end of the first window with at least this share, and with at least this share
    /// from there until `until_ms` as a whole, in milliseconds.
    pub fn time_to_locality_ms(&self, wanted: f64, window_ms: u64, until_ms: u64) -> Option<u64> {
        let ends = self.0.iter().map(|sample| sample.at_ms);
        let is_high = |from, to| self.local_share(from, to).is_some_and(|share| share >= wanted);
        let settled = |end: &u64| {
            let start = end - window_ms;
            is_high(start, *end) && is_high(start, until_ms)
        };
        ends.filter(|&end| end >= window_ms && end <= until_ms).find(settled)
    }

    /// Returns the number of misses.
    pub fn misses(&self) -> u64 {
        self.0.last().map_or(0, |last| last.local + last.remote)
    }

    /// Returns the last sample at or before a time; all zero before the first.
    fn at(&self, ms: u64) -> MissSample {
        let after = self.0.partition_point(|sample| sample.at_ms <= ms);
        after.checked_sub(1).map_or_else(MissSample::default, |last| self.0[last])
    }
}

fn local_share(local: u64, remote: u64) -> Option<f64> {
    let all = local + remote;
    (all > 0).then(|| local as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a track with a hundred misses each 100 ms, of which `local` are local.
    fn track(local: &[u64]) -> MissTimeline {
        let mut last = MissSample::default();
        let sample = |&local: &u64| {
            last.at_ms += 100;
            last.local += local;
            last.remote += 100 - local;
            last
        };
        MissTimeline(local.iter().map(sample).collect())
    }

    /// Goal: shares are of the misses between two times, not of all.
    #[test]
    fn shares_of_stretches() {
        let track = track(&[0, 0, 50, 100]);
        assert_eq!(track.local_share(0, 400), Some(0.375)); // 150 of 400
        assert_eq!(track.local_share(200, 400), Some(0.75)); // 150 of 200
        assert_eq!(track.local_share(250, 310), Some(0.5)); // samples at 200 and at 300
        assert_eq!(track.local_share(400, 900), None);
        assert_eq!(track.parts(400, 2), [Some(0.0), Some(0.75)]);
        assert_eq!(track.misses(), 400);
    }

    /// Goal: the time is that of the first window that is good enough as a whole, and is followed
    /// by a time that is good enough as a whole.
    #[test]
    fn the_first_good_window() {
        let track = track(&[0, 90, 100, 80, 100, 100]);
        assert_eq!(track.time_to_locality_ms(0.9, 100, 600), Some(200)); // then 470 of 500
        // From 300 on it is 380 of 400.
        assert_eq!(track.time_to_locality_ms(0.96, 100, 600), Some(500));
        // (90 + 100) / 200, then 470 / 500.
        assert_eq!(track.time_to_locality_ms(0.9, 200, 600), Some(300));
        assert_eq!(track.time_to_locality_ms(0.9, 100, 400), Some(200)); // then 270 of 300
        assert_eq!(track.time_to_locality_ms(0.99, 300, 600), None);
        assert_eq!(MissTimeline::default().time_to_locality_ms(0.1, 100, 600), None);
    }
}
