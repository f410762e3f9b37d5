//! The processes that are followed: their CPU time by node, and looks at their memory.

use std::collections::BTreeMap;

use nodeward_balancer::ProcessKey;
use nodeward_machine::Machine;
use nodeward_model::{KindResidency, MachineSnapshot, Pid, ProcessSnapshot, Residency, Topology};
use nodeward_mover::MoveControl;
use nodeward_mover::residency::{self, Options};
use nodeward_policy::rank::{self, Candidate};

use crate::results::observation::{
    ByNode, FollowedProcess, MemoryLook, UnfollowedProcesses, Unseen, local_share_ppm, sum,
};

/// Minimum memory of a process that is followed among others, as of `nodeward show`: to move less
/// has no noticeable gain.
const FOLLOWED_BYTES_MIN: u64 = 16 << 20;
/// Processes that are followed at most, those that ended meanwhile included.
const FOLLOWED_MAX: usize = 512;
/// Looks at the memory of processes at one moment, at most.
const LOOKS_MAX: usize = 32;
/// The part of a CPU that looks may take: 1 %.
const LOOKING_PART: u64 = 100;
/// CPU time for one look at first, in nanoseconds. It doubles after each look that it cut short, up
/// to so many times. Such a look has found a part only: it is used only if it could not be longer.
const LOOK_NS: u64 = 20_000_000;
const LOOK_FACTOR_MAX: u64 = 16;
const CUT_SHORT: &str = "looks at its memory took longer than they may, so it is known in part";
/// Wall time for one look, as a multiple of its CPU time: beside busy programs a look waits.
const LOOK_WAITS: u64 = 10;
/// However costly looks are, the next ones are due after this time, in nanoseconds.
const PAID_NS_MAX: u64 = 5_000_000_000;
/// CPU time for looks at the first and the last moment, in nanoseconds: what is shown as before and
/// after is looked at then.
const EDGE_LOOKING_NS: u64 = 250_000_000;
/// Half-width limit of the interval of a share in a look at one of many processes, in ppm.
const HALF_WIDTH_PPM: u64 = 50_000;
/// Of the CPU time by node of the last moments, how many parts of eight count at the next.
const KEPT_EIGHTHS: u64 = 7;

/// What the watched processes did since the last moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuActivity {
    /// CPU time by node, in nanoseconds.
    pub cpu_ns: ByNode,
    /// Threads by the node where they ran last.
    pub threads: ByNode,
}

/// The processes of a watch.
pub struct FollowedProcesses {
    subject: Option<Pid>,
    records: BTreeMap<ProcessKey, FollowedRecord>,
    /// CPU time of each thread at the last snapshot.
    times_ns: BTreeMap<(Pid, u32), u64>,
    unfollowed: UnfollowedProcesses,
    denied: BTreeMap<String, u64>,
    is_first: bool,
    /// When looks are paid for, so that others may follow.
    due_ns: u64,
}

/// What looks at one moment may cost.
#[derive(Clone, Copy, Debug)]
pub struct LookingCost {
    /// Time from one moment to the next.
    pub interval_ns: u64,
    /// Whether it is the first moment or the last.
    pub is_edge: bool,
}

struct FollowedRecord {
    process: FollowedProcess,
    /// CPU time since the last moment, and of the last moments: older ones count less.
    now_ns: ByNode,
    recent_ns: ByNode,
    own_bytes: u64,
    /// When it was looked at last, with whatever result, and the limit of the next look, as a
    /// multiple of the first one's.
    looked_at_ns: Option<u64>,
    look_factor: u64,
}

impl FollowedProcesses {
    /// Follows one process, or all large ones.
    pub fn new(subject: Option<Pid>) -> Self {
        Self {
            subject,
            records: BTreeMap::new(),
            times_ns: BTreeMap::new(),
            unfollowed: UnfollowedProcesses::default(),
            denied: BTreeMap::new(),
            is_first: true,
            due_ns: 0,
        }
    }

    /// Returns how many processes are followed.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Takes in a snapshot; returns what all its processes did.
    pub fn see(
        &mut self,
        at_ns: u64,
        snapshot: &MachineSnapshot,
        topology: &Topology,
    ) -> CpuActivity {
        let mut all = CpuActivity::default();
        let mut times_ns = BTreeMap::new();
        self.unfollowed = UnfollowedProcesses::default();
        self.denied = snapshot.denied.iter().fold(BTreeMap::new(), |mut denied, (_, need)| {
            *denied.entry(need.clone()).or_default() += 1;
            denied
        });
        for record in self.records.values_mut() {
            record.begin_moment();
        }
        for seen in &snapshot.processes {
            let one = self.activity(seen, topology, &mut times_ns);
            add(&mut all.cpu_ns, &one.cpu_ns);
            add(&mut all.threads, &one.threads);
            self.record(at_ns, seen, one);
        }
        self.times_ns = times_ns;
        self.is_first = false;
        self.mark_ended(at_ns, snapshot);
        all
    }

    fn activity(
        &self,
        seen: &ProcessSnapshot,
        topology: &Topology,
        times_ns: &mut BTreeMap<(Pid, u32), u64>,
    ) -> CpuActivity {
        let mut activity = CpuActivity::default();
        for thread in &seen.threads {
            let key = (seen.pid, thread.tid);
            // What ran before the watch is not of it.
            let unknown = if self.is_first { thread.cpu_time_ns } else { 0 };
            let before = self.times_ns.get(&key).copied().unwrap_or(unknown);
            times_ns.insert(key, thread.cpu_time_ns);
            if let Some(node) = topology.node_of_cpu(thread.cpu) {
                let ran_ns = thread.cpu_time_ns.saturating_sub(before);
                *activity.cpu_ns.entry(node).or_default() += ran_ns;
                *activity.threads.entry(node).or_default() += 1;
            }
        }
        activity
    }

    fn record(&mut self, at_ns: u64, seen: &ProcessSnapshot, activity: CpuActivity) {
        let key = (seen.pid, seen.started_ticks);
        let is_large = self.subject.is_some() || seen.non_file_bytes >= FOLLOWED_BYTES_MIN;
        let has_room = self.records.len() < FOLLOWED_MAX;
        if !(self.records.contains_key(&key) || is_large && has_room) {
            self.unfollowed.processes += 1;
            self.unfollowed.bytes = self.unfollowed.bytes.saturating_add(seen.non_file_bytes);
            return;
        }
        let record = self.records.entry(key).or_insert_with(|| FollowedRecord::begin(at_ns, seen));
        record.see(seen, activity);
    }

    fn mark_ended(&mut self, at_ns: u64, snapshot: &MachineSnapshot) {
        let present = |pid: Pid| snapshot.processes.binary_search_by_key(&pid, |it| it.pid);
        for (&(pid, started), record) in &mut self.records {
            let is_there =
                present(pid).is_ok_and(|at| snapshot.processes[at].started_ticks == started);
            if !is_there && record.process.ended_ns.is_none() {
                record.process.ended_ns = Some(at_ns);
            }
        }
    }

    /// Looks at the memory of processes until the CPU time for it is used up: of those first that
    /// were never looked at, then of large ones and of those whose last look is long ago.
    pub fn look(
        &mut self,
        machine: &dyn Machine,
        at_ns: u64,
        LookingCost { interval_ns, is_edge }: LookingCost,
        control: &MoveControl,
    ) {
        if at_ns < self.due_ns && !is_edge {
            return;
        }
        let budget_ns = if is_edge { EDGE_LOOKING_NS } else { interval_ns / LOOKING_PART };
        let is_alone = self.subject.is_some();
        let began_ns = machine.own_cpu_time_ns();
        let took_ns = || machine.own_cpu_time_ns().saturating_sub(began_ns);
        let mut due: Vec<_> = self.records.values_mut().filter(|it| it.is_there()).collect();
        due.sort_by_key(|record| std::cmp::Reverse(record.urgency(at_ns)));
        for record in due.into_iter().take(LOOKS_MAX) {
            let factor = if is_edge { LOOK_FACTOR_MAX } else { record.look_factor };
            record.look(machine, at_ns, &options(is_alone, factor, control));
            if took_ns() >= budget_ns {
                break;
            }
        }
        self.due_ns = at_ns + took_ns().saturating_mul(LOOKING_PART).min(PAID_NS_MAX);
    }

    /// Returns the local share of all accesses since the last moment, by the CPU time of the
    /// followed processes and the last looks; `None` if none of them ran, or if those whose memory
    /// was never looked at had more than a tenth of the time.
    pub fn local_ppm(&self) -> Option<u64> {
        let of = |record: &FollowedRecord| {
            let share = local_share_ppm(&record.now_ns, record.process.memory()?)?;
            Some((u128::from(sum(&record.now_ns)), u128::from(share)))
        };
        let shares: Vec<_> = self.records.values().filter_map(of).collect();
        let known: u128 = shares.iter().map(|(cpu, _)| cpu).sum();
        let all: u128 = self.records.values().map(|it| u128::from(sum(&it.now_ns))).sum();
        let local: u128 = shares.iter().map(|(cpu, share)| cpu * share).sum();
        let is_known = known > 0 && known * 10 >= all * 9;
        is_known.then(|| u64::try_from(local / known).unwrap_or(1_000_000))
    }

    /// Returns the processes that were not followed at the last moment.
    pub fn unfollowed(&self) -> UnfollowedProcesses {
        self.unfollowed
    }

    /// Returns what could not be seen of processes.
    pub fn unseen(&self) -> Vec<Unseen> {
        let denied = self.denied.iter().map(|(need, count)| Unseen {
            what: format!("{count} processes of others"),
            why: need.clone(),
        });
        let unlooked = self.records.values().filter(|it| it.process.looks.is_empty()).count();
        let unlooked = (unlooked > 0).then(|| Unseen {
            what: format!("where the memory of {unlooked} followed processes was"),
            why: "they ended too soon, may not be read, or others came first; the table of \
                  processes says which"
                .to_owned(),
        });
        denied.chain(unlooked).collect()
    }

    /// Returns the processes in the order in which they were seen, each with what it would gain.
    pub fn into_processes(self, topology: &Topology) -> Vec<FollowedProcess> {
        let mut processes: Vec<_> =
            self.records.into_values().map(|record| record.end(topology)).collect();
        processes.sort_by_key(|process| (process.began_ns, process.pid));
        processes
    }
}

impl FollowedRecord {
    fn begin(at_ns: u64, seen: &ProcessSnapshot) -> Self {
        let process = FollowedProcess {
            pid: seen.pid,
            name: seen.name.clone(),
            started_ticks: seen.started_ticks,
            began_ns: at_ns,
            ended_ns: None,
            cpu_ns: ByNode::new(),
            threads: ByNode::new(),
            looks: Vec::new(),
            obstacle: None,
            gain: None,
        };
        Self {
            process,
            now_ns: ByNode::new(),
            recent_ns: ByNode::new(),
            own_bytes: 0,
            looked_at_ns: None,
            look_factor: 1,
        }
    }

    fn begin_moment(&mut self) {
        self.now_ns.clear();
        self.recent_ns.values_mut().for_each(|ns| *ns = *ns / 8 * KEPT_EIGHTHS);
    }

    fn see(&mut self, seen: &ProcessSnapshot, activity: CpuActivity) {
        let CpuActivity { cpu_ns, threads } = activity;
        self.process.name = seen.name.clone();
        self.own_bytes = seen.non_file_bytes;
        add(&mut self.process.cpu_ns, &cpu_ns);
        add(&mut self.recent_ns, &cpu_ns);
        self.now_ns = cpu_ns;
        self.process.threads = threads;
    }

    fn is_there(&self) -> bool {
        self.process.ended_ns.is_none()
    }

    /// Returns what puts looks in order: whether there was none, then size and age of the last one.
    fn urgency(&self, at_ns: u64) -> (bool, u128) {
        let age_ns = at_ns.saturating_sub(self.looked_at_ns.unwrap_or(0));
        let weight = u128::from(age_ns + 1) * u128::from(self.own_bytes);
        (self.looked_at_ns.is_none(), weight)
    }

    fn look(&mut self, machine: &dyn Machine, at_ns: u64, options: &Options<'_>) {
        self.looked_at_ns = Some(at_ns);
        let looked = machine
            .open_process(self.process.pid)
            .and_then(|process| residency::measure(machine, &*process, options));
        match looked {
            Ok(residency) if residency.capped && self.look_factor < LOOK_FACTOR_MAX => {
                self.look_factor *= 2;
                self.process.obstacle = Some(CUT_SHORT.to_owned());
            }
            Ok(residency)
                if residency.capped && options.control.is_some_and(MoveControl::is_stopped) => {}
            Ok(residency) => {
                self.process.obstacle = residency.capped.then(|| CUT_SHORT.to_owned());
                self.process.looks.push(memory_look(at_ns, &residency, options.files));
            }
            Err(error) if error.is_gone() => {}
            Err(error) => self.process.obstacle = Some(error.to_string()),
        }
    }

    fn end(self, topology: &Topology) -> FollowedProcess {
        let mut process = self.process;
        let bytes = process.memory().cloned().unwrap_or_default();
        let candidate = Candidate {
            pid: process.pid,
            name: process.name.clone(),
            bytes,
            cpu_time_ns: self.recent_ns,
            active: true,
        };
        let nodes = topology.nodes_with_memory();
        let distance = |from, to| topology.distance(from, to);
        process.gain = rank::rank(vec![candidate], &nodes, &distance).pop();
        process
    }
}

/// One process is looked at as `nodeward show PID` does, each of many as in its ranking.
fn options(is_alone: bool, factor: u64, control: &MoveControl) -> Options<'_> {
    let usual = Options::default();
    let half_width_ppm = if is_alone { usual.half_width_ppm } else { HALF_WIDTH_PPM };
    let cpu_ns = LOOK_NS * factor;
    Options {
        files: is_alone,
        half_width_ppm,
        time_ns_max: Some(cpu_ns * LOOK_WAITS),
        cpu_ns_max: Some(cpu_ns),
        control: Some(control),
        ..usual
    }
}

fn memory_look(at_ns: u64, residency: &Residency, with_kinds: bool) -> MemoryLook {
    let bytes = |kind: &KindResidency| kind.bytes(residency.page_bytes);
    let kinds = residency.kinds.iter().filter(|_| with_kinds);
    MemoryLook {
        at_ns,
        bytes: bytes(&residency.total()),
        kinds: kinds.map(|(&kind, found)| (kind, bytes(found))).collect(),
    }
}

fn add(sum: &mut ByNode, other: &ByNode) {
    for (&node, &value) in other {
        let sum = sum.entry(node).or_default();
        *sum = sum.saturating_add(value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nodeward_model::{CpuId, Cpumask, NodeId, Synthetic, ThreadSnapshot};

    use super::*;

    const LARGE: u64 = FOLLOWED_BYTES_MIN;

    fn process(pid: u32, cpu: u32, cpu_time_ns: u64) -> ProcessSnapshot {
        let cpus = Arc::new(Cpumask::new());
        let thread = ThreadSnapshot { tid: pid, cpu: CpuId(cpu), cpu_time_ns, waited_ns: 0, cpus };
        ProcessSnapshot {
            pid: Pid::new(pid).unwrap(),
            name: "worker".into(),
            started_ticks: 1,
            cpu_time_ns,
            children_cpu_time_ns: 0,
            non_file_bytes: LARGE,
            memory_nodes: "0-1".parse().unwrap(),
            frozen: false,
            threads: vec![thread],
        }
    }

    fn snapshot(processes: Vec<ProcessSnapshot>) -> MachineSnapshot {
        MachineSnapshot { processes, ..MachineSnapshot::default() }
    }

    fn topology() -> Topology {
        "2n 1c 1t 4GiB".parse::<Synthetic>().unwrap().topology()
    }

    /// Goal: CPU time counts on the node where a thread ran last, from the first moment on; that of
    /// a thread that came later counts from its start.
    #[test]
    fn time_counts_where_it_was_spent() {
        let (mut followed, nodes) = (FollowedProcesses::new(None), topology());
        let first = followed.see(0, &snapshot(vec![process(7, 0, 1_000)]), &nodes);
        assert_eq!(first.cpu_ns, [(NodeId(0), 0)].into());
        let later = snapshot(vec![process(7, 1, 1_500), process(8, 0, 30)]);
        let second = followed.see(1, &later, &nodes);
        assert_eq!(second.cpu_ns, [(NodeId(0), 30), (NodeId(1), 500)].into());
        assert_eq!(second.threads, [(NodeId(0), 1), (NodeId(1), 1)].into());
    }

    /// Goal: who was never looked at comes first, then twice the memory is as urgent as twice
    /// the age of the last look.
    #[test]
    fn looks_have_an_order() {
        let urgency = |own_bytes: u64, looked_at_ns: Option<u64>| {
            let begun = FollowedRecord::begin(0, &process(7, 0, 1));
            FollowedRecord { own_bytes, looked_at_ns, ..begun }.urgency(999)
        };
        assert!(urgency(1, None) > urgency(LARGE, Some(0)));
        assert_eq!(urgency(2 * LARGE, Some(500)), urgency(LARGE, Some(0))); // 2 x 500, 1 x 1000
        assert!(urgency(LARGE, Some(10)) < urgency(LARGE, Some(9)));
    }

    /// Goal: of ten thousand large processes 512 are followed, the others are summed; one that
    /// is no longer there has an end.
    #[test]
    fn many_processes_are_bounded() {
        let (mut followed, nodes) = (FollowedProcesses::new(None), topology());
        let many = (1..=10_000).map(|pid| process(pid, 0, 1)).collect();
        followed.see(0, &snapshot(many), &nodes);
        assert_eq!(followed.len(), FOLLOWED_MAX);
        let rest = 10_000 - FOLLOWED_MAX as u64;
        let rest = UnfollowedProcesses { processes: rest, bytes: rest * LARGE };
        assert_eq!(followed.unfollowed(), rest);
        followed.see(5, &snapshot(vec![process(1, 0, 1)]), &nodes);
        let processes = followed.into_processes(&topology());
        assert_eq!((processes[0].ended_ns, processes[1].ended_ns), (None, Some(5)));
    }
}
