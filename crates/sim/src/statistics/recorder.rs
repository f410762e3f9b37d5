//! What reports of a run need and counters do not hold.

use nodeward_scenario::Scenario;
use serde::Serialize;

use super::observer::Observer;
use super::series::Series;

/// State for reports of the run.
pub struct Recorder {
    /// The time series.
    pub series: Series,
    /// The memory before the first action; without actions, when all memory was populated.
    pub before: Option<ResidencySnapshot>,
    /// Local and remote lines of each workload.
    pub workload_lines: Vec<[u64; 2]>,
    /// The time of the next sample.
    pub next_ns: u64,
    /// Who is told of turns, interrupts and samples.
    pub observer: Option<Box<dyn Observer>>,
}

/// The moment of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// Just before the first action of the scenario.
    FirstAction,
    /// When no more pages were faulted in.
    Populated,
    /// The end of the run.
    End,
}

/// Memory placement at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResidencySnapshot {
    /// The moment.
    pub moment: Moment,
    /// Its time, in virtual nanoseconds.
    pub at_ns: u64,
    /// Base pages of all processes on each node, in the order of the machine.
    pub pages: Vec<u64>,
}

impl Recorder {
    /// Creates an empty state.
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            series: Series::new(scenario.sample_ns),
            before: None,
            workload_lines: vec![[0; 2]; scenario.workloads.len()],
            next_ns: 0,
            observer: None,
        }
    }

    /// Counts local and remote lines of a workload, by its index.
    pub fn record_lines(&mut self, workload: Option<usize>, lines: [u64; 2]) {
        if let Some(sums) = workload.and_then(|index| self.workload_lines.get_mut(index)) {
            sums.iter_mut().zip(lines).for_each(|(sum, more)| *sum += more);
        }
    }
}
