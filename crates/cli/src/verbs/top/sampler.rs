//! Samples where the memory of processes is: of those that are seen, or large, within a budget of
//! CPU time. What did not run keeps its sample.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use nodeward_balancer::ProcessKey;
use nodeward_machine::Machine;
use nodeward_model::{MachineSnapshot, NodeId, Pid, ProcessSnapshot};
use nodeward_mover::residency::{self, Options};

use crate::results::top::SampledResidency;

/// Of the processes that nobody sees, so many of the largest are sampled, too.
const LARGEST: usize = 16;
/// Half-width limit of the interval of a share, in ppm, as for the ranking of `show`.
const HALF_WIDTH_PPM: u64 = 50_000;
/// Limits of one sample, in nanoseconds.
const SAMPLE_CPU_NS_MAX: u64 = 5_000_000;
const SAMPLE_NS_MAX: u64 = 50_000_000;
/// One that was cut short by them is taken again with twice the limits, up to this multiple.
const LIMIT_FACTOR_MAX: u64 = 8;
/// CPU time for samples, in millionths of the time that passes: 0.2 %.
const BUDGET_PPM: u64 = 2_000;
/// So much of it is saved up: the first refresh has all of that.
const SAVED_NS_MAX: i64 = 50_000_000;
/// A process that ran, or whose sample was cut short, is sampled again after this time ...
const CHANGED_NS: u64 = 2_000_000_000;
/// ... any other after this one, and one that could not be.
const UNCHANGED_NS: u64 = 60_000_000_000;

/// The last sample of a process, and what tells that the next would differ.
struct MemorySample {
    at_ns: u64,
    cpu_time_ns: u64,
    migrated_pages: Option<u64>,
    outcome: SampleOutcome,
    /// Its limits, as a multiple of those of a first sample.
    limit_factor: u64,
}

/// What came of a sample.
enum SampleOutcome {
    /// Bytes by node.
    Known(BTreeMap<NodeId, u64>),
    /// Its time was over before all memory had been looked at; a part would mislead.
    CutShort,
    /// The process is gone, or cannot be looked at.
    Failed,
}

/// Samples of processes.
#[derive(Default)]
pub struct MemorySampler {
    samples: BTreeMap<ProcessKey, MemorySample>,
    left_ns: i64,
    at_ns: Option<u64>,
}

impl MemorySampler {
    /// Samples as many processes as the budget allows: first those that are seen.
    pub fn refresh(&mut self, machine: &dyn Machine, snapshot: &MachineSnapshot, seen: &[Pid]) {
        self.grant(snapshot.at_ns);
        let alive: BTreeSet<ProcessKey> = snapshot.processes.iter().map(key).collect();
        self.samples.retain(|key, _| alive.contains(key));
        for process in self.due(snapshot, seen) {
            if self.left_ns <= 0 {
                break;
            }
            let before_ns = machine.own_cpu_time_ns();
            let limit_factor = self.limit_factor(process);
            let sample = MemorySample {
                at_ns: machine.now_ns(),
                cpu_time_ns: process.cpu_time_ns,
                migrated_pages: snapshot.migrated_pages,
                outcome: bytes_by_node(machine, process, limit_factor),
                limit_factor,
            };
            self.samples.insert(key(process), sample);
            let took_ns = machine.own_cpu_time_ns().saturating_sub(before_ns);
            self.left_ns = self.left_ns.saturating_sub_unsigned(took_ns);
        }
    }

    /// Returns where the memory of a process is, if that was sampled.
    pub fn residency(&self, process: &ProcessSnapshot) -> Option<SampledResidency> {
        let sample = self.samples.get(&key(process))?;
        match &sample.outcome {
            SampleOutcome::Known(bytes) => {
                Some(SampledResidency { bytes: bytes.clone(), at_ns: Some(sample.at_ns) })
            }
            SampleOutcome::CutShort | SampleOutcome::Failed => None,
        }
    }

    /// Returns the limits of the next sample of a process.
    fn limit_factor(&self, process: &ProcessSnapshot) -> u64 {
        match self.samples.get(&key(process)) {
            None => 1,
            Some(last) if matches!(last.outcome, SampleOutcome::CutShort) => {
                (last.limit_factor * 2).min(LIMIT_FACTOR_MAX)
            }
            Some(last) => last.limit_factor,
        }
    }

    fn grant(&mut self, at_ns: u64) {
        let granted_ns = match self.at_ns.replace(at_ns) {
            None => SAVED_NS_MAX.unsigned_abs(),
            Some(before_ns) => at_ns.saturating_sub(before_ns) / 1_000_000 * BUDGET_PPM,
        };
        self.left_ns = self.left_ns.saturating_add_unsigned(granted_ns).min(SAVED_NS_MAX);
    }

    /// Returns the processes that are to be sampled: those that never were, then by the age of
    /// their sample; among equals the largest.
    fn due<'a>(&self, snapshot: &'a MachineSnapshot, seen: &[Pid]) -> Vec<&'a ProcessSnapshot> {
        let mut processes: Vec<_> = snapshot.processes.iter().collect();
        processes.sort_by_key(|process| Reverse(process.non_file_bytes));
        let seen: BTreeSet<Pid> = seen.iter().copied().collect();
        let is_wanted = |&(rank, process): &(usize, &ProcessSnapshot)| {
            (rank < LARGEST || seen.contains(&process.pid)) && self.is_due(process, snapshot)
        };
        let mut due: Vec<_> = processes.into_iter().enumerate().filter(is_wanted).collect();
        due.sort_by_key(|(rank, process)| {
            let sampled_ns = self.samples.get(&key(process)).map(|sample| sample.at_ns);
            (!seen.contains(&process.pid), sampled_ns, *rank)
        });
        due.into_iter().map(|(_, process)| process).collect()
    }

    fn is_due(&self, process: &ProcessSnapshot, snapshot: &MachineSnapshot) -> bool {
        let Some(sample) = self.samples.get(&key(process)) else { return true };
        let age_ns = snapshot.at_ns.saturating_sub(sample.at_ns);
        let may_differ = sample.cpu_time_ns != process.cpu_time_ns
            || sample.migrated_pages != snapshot.migrated_pages;
        let is_soon = match sample.outcome {
            SampleOutcome::Known(_) => may_differ,
            SampleOutcome::CutShort => true,
            SampleOutcome::Failed => false,
        };
        age_ns >= if is_soon { CHANGED_NS } else { UNCHANGED_NS }
    }
}

fn key(process: &ProcessSnapshot) -> ProcessKey {
    (process.pid, process.started_ticks)
}

fn bytes_by_node(
    machine: &dyn Machine,
    seen: &ProcessSnapshot,
    limit_factor: u64,
) -> SampleOutcome {
    let options = Options {
        files: false,
        half_width_ppm: HALF_WIDTH_PPM,
        time_ns_max: Some(SAMPLE_NS_MAX * limit_factor),
        cpu_ns_max: Some(SAMPLE_CPU_NS_MAX * limit_factor),
        ..Options::default()
    };
    let process = machine.open_process(seen.pid);
    match process.and_then(|process| residency::measure(machine, &*process, &options)) {
        Ok(residency) if residency.capped => SampleOutcome::CutShort,
        Ok(residency) => SampleOutcome::Known(residency.total().bytes(machine.page_bytes())),
        Err(_) => SampleOutcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::Page;

    use super::*;

    fn pid(number: u32) -> Pid {
        Pid::new(number).unwrap()
    }

    fn process(number: u32, non_file_bytes: u64, cpu_time_ns: u64) -> ProcessSnapshot {
        ProcessSnapshot {
            pid: pid(number),
            name: "worker".into(),
            started_ticks: 1,
            cpu_time_ns,
            children_cpu_time_ns: 0,
            non_file_bytes,
            memory_nodes: "0-1".parse().unwrap(),
            frozen: false,
            threads: Vec::new(),
        }
    }

    fn at(at_s: u64, processes: Vec<ProcessSnapshot>) -> MachineSnapshot {
        let at_ns = at_s * 1_000_000_000;
        MachineSnapshot { at_ns, processes, migrated_pages: Some(0), ..MachineSnapshot::default() }
    }

    fn pids(due: &[&ProcessSnapshot]) -> Vec<u32> {
        due.iter().map(|process| process.pid.number()).collect()
    }

    /// Goal: of 40 processes the 16 largest are sampled, and the smallest one, because it is seen:
    /// that one first.
    #[test]
    fn the_seen_and_the_large_are_sampled() {
        let all = (1..=40).map(|number| process(number, u64::from(number), 0)).collect();
        let due = pids(&MemorySampler::default().due(&at(0, all), &[pid(1)]));
        let expected: Vec<u32> = std::iter::once(1).chain((25..=40).rev()).collect();
        assert_eq!(due, expected);
    }

    /// Goal: a process that sleeps is not sampled again within a minute; one that ran is after two
    /// seconds, and so are all when somebody migrates pages. One that is gone has no figures.
    #[test]
    fn what_cannot_differ_is_not_sampled_again() {
        let fake = FakeMachine::new(true);
        let pages: Vec<_> = (0..4).map(|page| Page::on(NodeId(u32::from(page == 3)))).collect();
        fake.spawn(pid(1), FakeProcess::with_pages(&pages));
        let mut sampler = MemorySampler::default();
        let (asleep, gone) = (process(1, 5, 7), process(2, 4, 7));
        sampler.refresh(&fake, &at(0, vec![asleep.clone(), gone.clone()]), &[]);
        let expected = [(NodeId(0), 3 * 4096), (NodeId(1), 4096)].into();
        assert_eq!(sampler.residency(&asleep).unwrap().bytes, expected);
        assert_eq!(sampler.residency(&gone), None);
        let due = |at_s, cpu_time_ns, migrated| {
            let all = vec![process(1, 5, cpu_time_ns), process(2, 4, 7)];
            let snapshot = MachineSnapshot { migrated_pages: Some(migrated), ..at(at_s, all) };
            pids(&sampler.due(&snapshot, &[]))
        };
        assert_eq!(due(59, 7, 0), [0; 0]);
        assert_eq!((due(1, 8, 0), due(3, 8, 0)), (vec![], vec![1]));
        assert_eq!((due(3, 7, 1), due(61, 7, 0)), (vec![1], vec![1, 2]));
    }

    /// Goal: a sample that was cut short tells nothing, instead of a part as if it were all; the
    /// next follows soon and may take longer. Some 380 looks of 60 us do not fit into 5 ms, nor
    /// into 10, but into 40.
    #[test]
    fn a_sample_that_is_cut_short_is_no_sample() {
        let fake = FakeMachine::new(true);
        let pages: Vec<_> = (0..100_000).map(|page| Page::on(NodeId(page % 2))).collect();
        let slow = FakeProcess { locate_ns: 60_000, ..FakeProcess::with_pages(&pages) };
        fake.spawn(pid(1), slow);
        let mut sampler = MemorySampler::default();
        let asleep = process(1, 5, 7);
        let mut is_known = |at_s| {
            sampler.refresh(&fake, &at(at_s, vec![asleep.clone()]), &[]);
            sampler.residency(&asleep).is_some()
        };
        assert_eq!([0, 1, 3].map(&mut is_known), [false; 3]);
        assert!([6, 9].map(is_known)[1]);
    }

    /// Goal: in the long run samples take 0.2 % of a CPU: 2 ms a second; what is unused is saved
    /// up, but not without end.
    #[test]
    fn samples_are_paid_for() {
        let mut sampler = MemorySampler::default();
        sampler.grant(0);
        assert_eq!(sampler.left_ns, 50_000_000);
        sampler.left_ns = -1_000_000;
        sampler.grant(1_000_000_000);
        assert_eq!(sampler.left_ns, 1_000_000);
        sampler.grant(3_600_000_000_000);
        assert_eq!(sampler.left_ns, SAVED_NS_MAX);
    }
}
