//! What was a few minutes ago.

use std::collections::{BTreeMap, VecDeque};

use nodeward_model::{NodeId, Pid};

use crate::results::top::TopSample;

/// So many refreshes are kept: three minutes at one a second.
const KEPT: usize = 180;

/// Figures of past refreshes, the last one at the end. A figure that was not known is 0.
#[derive(Clone, Debug, Default)]
pub struct FigureSeries(VecDeque<u64>);

impl FigureSeries {
    fn push(&mut self, value: u64) {
        self.0.push_back(value);
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// Returns the last figures, so many at most.
    pub fn last(&self, most: usize) -> impl Iterator<Item = u64> {
        self.0.iter().skip(self.0.len().saturating_sub(most)).copied()
    }
}

/// The history of what is shown.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Bytes in use on each node.
    pub used: BTreeMap<NodeId, FigureSeries>,
    /// Bytes migrated per second.
    pub migrated: FigureSeries,
    /// CPU time of processes, and their memory away from home.
    processes: BTreeMap<(Pid, u64), ProcessSeries>,
}

/// The history of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessSeries {
    /// CPU time, in millionths of a CPU.
    pub cpu: FigureSeries,
    /// Bytes away from home.
    pub away: FigureSeries,
}

impl History {
    /// Enters a refresh. Who is gone is forgotten.
    pub fn push(&mut self, sample: &TopSample) {
        let mut used = std::mem::take(&mut self.used);
        for node in &sample.nodes {
            let mut series = used.remove(&node.node).unwrap_or_default();
            series.push(node.used_bytes());
            self.used.insert(node.node, series);
        }
        self.migrated.push(sample.migrated_bytes_per_s.unwrap_or(0));
        let mut processes = std::mem::take(&mut self.processes);
        for process in sample.processes.iter().filter(|process| process.denied.is_none()) {
            let key = (process.pid, process.started_ticks);
            let mut series = processes.remove(&key).unwrap_or_default();
            series.cpu.push(process.cpu_ppm.unwrap_or(0));
            series.away.push(process.bytes_away().unwrap_or(0));
            self.processes.insert(key, series);
        }
    }

    /// Returns the history of a process.
    pub fn of(&self, pid: Pid, started_ticks: u64) -> Option<&ProcessSeries> {
        self.processes.get(&(pid, started_ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::top::test_sample::sample;

    /// Goal: the last 180 refreshes are kept, of processes that are still there.
    #[test]
    fn the_past_is_bounded() {
        let mut history = History::default();
        let mut now = sample();
        for number in 0..KEPT as u64 + 20 {
            now.migrated_bytes_per_s = Some(number);
            history.push(&now);
        }
        assert_eq!(history.migrated.0.len(), KEPT);
        assert_eq!(history.migrated.last(3).collect::<Vec<_>>(), [197, 198, 199]);
        let first = now.processes.remove(0);
        assert!(history.of(first.pid, first.started_ticks).is_some());
        history.push(&now);
        assert!(history.of(first.pid, first.started_ticks).is_none());
    }
}
