//! Reads the counter's file while the guest runs.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use nodeward_lab_counts::{CounterSnapshot, CountsReader, FileWords, Locality, SELECTABLE_SLOTS};

use crate::miss_timeline::{MissSample, MissTimeline};

/// Interval between samples.
const INTERVAL: Duration = Duration::from_millis(100);

/// Misses of all tasks up to a time.
pub type Reading = (Instant, Locality);

/// Samples until told to stop. The file need not exist yet.
pub fn sample(path: &Path, stop: &AtomicBool) -> Vec<Reading> {
    let mut readings = Vec::new();
    let mut reader = None;
    while !stop.load(Relaxed) {
        reader = reader.or_else(|| CountsReader::open(path).ok());
        readings.extend(reader.as_ref().and_then(read));
        thread::sleep(INTERVAL);
    }
    readings.extend(reader.as_ref().and_then(read));
    readings
}

fn read(reader: &CountsReader<FileWords>) -> Option<Reading> {
    let counts = reader.snapshot().ok()?;
    Some((Instant::now(), of_tasks(&counts)))
}

/// Sums the misses of tasks, which are those that chose their slot.
fn of_tasks(counts: &CounterSnapshot) -> Locality {
    let tasks = counts.slots.iter().filter(|slot| SELECTABLE_SLOTS.contains(&slot.slot));
    tasks.map(|slot| counts.locality(slot)).fold(Locality::default(), |sum, one| sum + one)
}

/// Returns the samples between two times and the first one after, relative to the last one before.
pub fn miss_timeline(readings: &[Reading], begin: Instant, end: Instant) -> MissTimeline {
    let after = readings.partition_point(|(at, _)| *at <= begin);
    let zero = after.checked_sub(1).map_or_else(Locality::default, |last| readings[last].1);
    let until = readings.len().min(readings.partition_point(|(at, _)| *at < end) + 1);
    let sample = |(at, sum): &Reading| MissSample {
        at_ms: at.duration_since(begin).as_millis() as u64,
        local: (sum.local - zero.local).misses,
        remote: (sum.remote - zero.remote).misses,
    };
    MissTimeline(readings[after.min(until)..until].iter().map(sample).collect())
}

#[cfg(test)]
mod tests {
    use nodeward_lab_counts::AccessCount;

    use super::*;

    /// Goal: samples before and after the run are left out; the one at its very end is not.
    #[test]
    fn only_the_run_counts() {
        let start = Instant::now();
        let ms = |ms: u64| start + Duration::from_millis(ms);
        let misses = |misses| AccessCount { accesses: 0, misses };
        let reading = |at: u64, local, remote| {
            (ms(at), Locality { local: misses(local), remote: misses(remote) })
        };
        let readings =
            [reading(0, 5, 5), reading(200, 9, 5), reading(400, 9, 8), reading(900, 99, 99)];
        let expected = [
            MissSample { at_ms: 50, local: 4, remote: 0 }, // less the 5 and 5 at 0
            MissSample { at_ms: 250, local: 4, remote: 3 },
        ];
        assert_eq!(miss_timeline(&readings, ms(150), ms(390)).0, expected);
        assert_eq!(miss_timeline(&readings, ms(150), ms(9000)).0.len(), 3);
        assert!(miss_timeline(&[], ms(0), ms(1)).0.is_empty());
    }
}
