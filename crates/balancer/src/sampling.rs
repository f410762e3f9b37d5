//! Residency samples: where the memory of a process is, and which memory policies it has. They are
//! expensive, so a round samples only some processes, each for a limited time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use nodeward_machine::{Error, Machine, Process, Result};
use nodeward_model::{Mapping, MappingKind, MemoryPolicies, NodeId, Pid, Range, SegmentId};
use nodeward_mover::MoveControl;
use nodeward_mover::residency::{Options, ResidencyLook};

use super::cpu_budget;
use super::group_part::{self, GroupPart};
use super::mapped_segments::{MappedSegment, is_memory, mapped_segments};
use super::nodes::Nodes;
use super::process_key::ProcessKey;
use super::process_table::ProcessState;
use super::residency_sample::{PartSample, ResidencySample, Sampling};
use super::settings::BalanceSettings;

/// CPU time for one sample: the converging budget of `SAMPLE_SECONDS` seconds at first (100 ms by
/// default). It doubles after each sample that it cut short, up to `SAMPLE_FACTOR_MAX` times the
/// first value. The last such sample is used although it is incomplete.
const SAMPLE_SECONDS: u64 = 5;
const SAMPLE_FACTOR_MAX: u64 = 16;
/// Wall time for one sample, as a multiple of its CPU time: beside busy programs, or at a process
/// that is slow to answer, a sample waits.
const SAMPLE_WAITS: u64 = 10;
/// Wait between two samples that brought nothing new, at first and at most, in nanoseconds.
pub const RETRY_NS: [u64; 2] = [1_000_000_000, 60_000_000_000];
/// However costly a sample is, the next may be due after this time: on a slow host most are.
const PAID_NS_MAX: u64 = 10_000_000_000;
/// Time for which the policies of existing memory are taken to be unchanged, in nanoseconds.
const BOUND_NS: u64 = 60_000_000_000;
/// Age of a sample at which memory in groups by its addresses is looked for again, in nanoseconds.
const ADDRESSED_NS: u64 = 60_000_000_000;
/// Growth by fewer bytes than this is ignored.
const GROWN_BYTES: u64 = 1 << 20;
/// Fewer migrated pages than this are ignored.
const MIGRATED_PAGES: u64 = 256;

/// The reasons for which a process is sampled, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SampleCause {
    /// Memory of the process was just moved.
    Moved,
    /// The process was never sampled.
    First,
    /// The process has more or less memory than before, or another name.
    Changed,
    /// Most of the process's load is on another node.
    Placed,
    /// The process has memory policies. It may have removed them since; no counter shows that.
    Bound,
    /// Groups have addresses of the process. Other memory may be mapped there since, or none; no
    /// counter shows that.
    Addressed,
    /// Others migrated pages on the machine, which may be the process's.
    Migrated,
}

/// Returns the reason for which a process is to be sampled now, if there is one.
pub fn cause(
    process: &ProcessState,
    nodes: &Nodes,
    now_ns: u64,
    settings: &BalanceSettings,
) -> Option<SampleCause> {
    let seen = process.seen.as_ref()?;
    if process.denied.is_some() || seen.cpu_time_ns < settings.rules.run_ns_min {
        return None;
    }
    let may_sample = process.sampling.retry.is_over(now_ns);
    if process.sampling.is_due || process.is_moving {
        return (may_sample && !process.is_moving).then_some(SampleCause::Moved);
    }
    let Some(sample) = &process.sample else { return may_sample.then_some(SampleCause::First) };
    let by = seen.non_file_bytes.abs_diff(sample.own_bytes);
    let part = u128::from(sample.own_bytes) * u128::from(settings.grown_ppm) / 1_000_000;
    let has_changed = (u128::from(by) > part && by > GROWN_BYTES) || seen.name != sample.name;
    let here = busiest(process, nodes);
    let has_moved = here.is_some() && here != sample.busiest;
    match (may_sample, has_changed, has_moved) {
        (true, true, _) => Some(SampleCause::Changed),
        (true, false, true) => Some(SampleCause::Placed),
        (true, false, false) if sample.bound != MemoryPolicies::default() => {
            Some(SampleCause::Bound)
        }
        (true, false, false)
            if now_ns.saturating_sub(sample.at_ns) >= ADDRESSED_NS
                && process.parts.iter().any(GroupPart::has_addresses) =>
        {
            Some(SampleCause::Addressed)
        }
        (true, false, false) => {
            let pages = nodes.pages_migrated_by_others().saturating_sub(sample.others_pages);
            (pages >= MIGRATED_PAGES).then_some(SampleCause::Migrated)
        }
        _ => None,
    }
}

/// Sorts processes into the order in which they are sampled: first the requested one, then by
/// cause, the busiest first.
pub fn in_order(due: &mut [(ProcessKey, SampleCause, u64)], first: Option<Pid>) {
    due.sort_by_key(|&((pid, started), cause, load_ppm)| {
        (Some(pid) != first, cause, Reverse(load_ppm), pid, started)
    });
}

/// Samples a process. Segments that others map, too, are not its own.
///
/// # Errors
/// The error of the process; it then waits before it is sampled again.
pub fn sample(
    machine: &dyn Machine,
    (key, process): (ProcessKey, &mut ProcessState),
    (nodes, shared): (&Nodes, &BTreeSet<SegmentId>),
    (settings, cause, live): (&BalanceSettings, SampleCause, &MoveControl),
) -> Result<()> {
    let now_ns = machine.now_ns();
    let time = SampleTime::of(&process.sampling, settings);
    let options = time.options(settings, live);
    let began_ns = machine.own_cpu_time_ns();
    let taken = take(machine, (key, &*process), (cause, shared), time, options);
    let took_ns = machine.own_cpu_time_ns() - began_ns;
    let sampling = &mut process.sampling;
    match taken {
        Ok(None) => {
            sampling.time_ns = time.ns * 2;
            sampling.retry.start(now_ns, false, RETRY_NS);
            Ok(())
        }
        Ok(Some((sample, mapped))) => {
            process.mapped = Some(mapped);
            let before = process.sample.as_ref();
            let in_vain = before.is_some_and(|before| before.says_the_same(&sample));
            *sampling = Sampling { is_due: false, time_ns: 0, ..*sampling };
            // A change of groups must not wait because addresses were looked at in vain.
            let is_retry = in_vain && cause != SampleCause::Addressed;
            sampling.retry.start(now_ns, is_retry, retry_ns(took_ns, settings));
            let is_other = before.is_none_or(|before| before.program != sample.program);
            if is_other || (cause == SampleCause::Changed && !in_vain) {
                process.stuck.by_node.clear();
                process.parts.iter_mut().for_each(|part| part.stuck.by_node.clear());
            }
            // Samples are identified by their time, so it must increase.
            let at_ns = sample.at_ns.max(before.map_or(1, |before| before.at_ns + 1));
            let busiest = busiest(process, nodes);
            let others_pages = nodes.pages_migrated_by_others();
            process.sample = Some(ResidencySample { at_ns, busiest, others_pages, ..sample });
            Ok(())
        }
        Err(error) => {
            sampling.retry.start(now_ns, true, RETRY_NS);
            Err(error)
        }
    }
}

/// Returns the waits after a sample that took `took_ns` of CPU time. To read tens of thousands of
/// mappings takes a fifth of a second, and little more than the converging budget goes into one
/// process.
fn retry_ns(took_ns: u64, settings: &BalanceSettings) -> [u64; 2] {
    let [first_ns, most_ns] = RETRY_NS;
    let allowed = u128::from(cpu_budget::converging_ns_per_s(settings).max(1));
    let paid_ns = u128::from(took_ns) * 1_000_000_000 / allowed;
    [u64::try_from(paid_ns).unwrap_or(u64::MAX).clamp(first_ns, PAID_NS_MAX), most_ns]
}

/// Returns the process's own memory, without that of these segments, divided into what may be moved
/// and what is tied.
pub fn own_memory(
    mappings: Vec<Mapping>,
    tied_ranges: &[Range],
    shared: &BTreeSet<SegmentId>,
) -> (Vec<Mapping>, Vec<Mapping>) {
    let (mut free, mut tied) = (Vec::new(), Vec::new());
    let is_shared =
        |mapping: &Mapping| mapping.segment.is_some_and(|part| shared.contains(&part.id));
    for mapping in mappings.into_iter().filter(|mapping| is_own(mapping) && !is_shared(mapping)) {
        let piece = |range| mapping.part(range);
        let mut start = mapping.range.start;
        for cut in tied_ranges.iter().filter_map(|range| mapping.range.intersection(*range)) {
            if cut.end <= start {
                continue;
            }
            free.push(piece(Range::new(start, cut.start)));
            tied.push(piece(Range::new(start.max(cut.start), cut.end)));
            start = cut.end;
        }
        free.push(piece(Range::new(start, mapping.range.end)));
    }
    free.retain(|mapping| !mapping.range.is_empty());
    (free, tied)
}

/// The CPU time that a sample may take.
#[derive(Clone, Copy)]
pub struct SampleTime {
    pub ns: u64,
    /// True if the next sample may not take longer than this one.
    is_most: bool,
}

impl SampleTime {
    /// The time of the next sample.
    pub fn of(sampling: &Sampling, settings: &BalanceSettings) -> Self {
        let first_ns = cpu_budget::converging_ns_per_s(settings) * SAMPLE_SECONDS;
        let most_ns = first_ns * SAMPLE_FACTOR_MAX;
        let ns = sampling.time_ns.clamp(first_ns, most_ns);
        Self { ns, is_most: ns == most_ns }
    }

    /// Returns whether a sample that was cut short is used: the next one would not see more. What a
    /// stop cut short is not.
    pub fn is_enough(self, options: &Options<'_>) -> bool {
        self.is_most && !options.control.is_some_and(MoveControl::is_stopped)
    }

    /// Returns options with which a sample stays within this time.
    pub fn options<'a>(self, settings: &BalanceSettings, live: &'a MoveControl) -> Options<'a> {
        Options {
            half_width_ppm: settings.reach_ppm,
            time_ns_max: Some(self.ns.saturating_mul(SAMPLE_WAITS)),
            cpu_ns_max: Some(self.ns),
            control: Some(live),
            ..Options::default()
        }
    }
}

/// Takes a sample, and returns it with the segments that were mapped; `None` if the time did not
/// suffice.
fn take(
    machine: &dyn Machine,
    (key, state): (ProcessKey, &ProcessState),
    (cause, shared): (SampleCause, &BTreeSet<SegmentId>),
    time: SampleTime,
    options: Options<'_>,
) -> Result<Option<(ResidencySample, Vec<MappedSegment>)>> {
    let process = machine.open_process(key.0)?;
    let identity = process.identity()?;
    if identity.started_ticks != key.1 {
        return Err(Error::Gone(key.0));
    }
    let earlier = state.sample.as_ref().filter(|sample| sample.program == identity.auxv_checksum);
    let now_ns = machine.now_ns();
    let (bound, bound_at_ns) = match earlier.filter(|it| it.is_bound_known(cause, now_ns)) {
        Some(sample) => (sample.bound.clone(), sample.bound_at_ns),
        None => (bound_of(&*process)?, now_ns),
    };
    let mappings = process.mappings()?;
    let mapped = mapped_segments(&mappings, &bound.policy_ranges);
    let (free, tied) = own_memory(mappings, &state.tied_ranges(&bound), shared);
    let (free, of_segments) = by_segment(free, &mapped);
    let options = Options { seed: state.entity.0, ..options };
    let mut was_cut = false;
    let look = ResidencyLook::new(machine, &*process, &options);
    let mut pages = |mappings| -> Result<BTreeMap<NodeId, u64>> {
        let seen = look.measure(mappings)?;
        was_cut |= seen.capped;
        Ok(seen.total().nodes.into_iter().map(|(node, share)| (node, share.pages)).collect())
    };
    let (tied_of_parts, tied) = group_part::divide(tied, &state.parts);
    let (free_of_parts, free) = group_part::divide(free, &state.parts);
    let mut parts = BTreeMap::new();
    for ((part, tied), (_, free)) in tied_of_parts.into_iter().zip(free_of_parts) {
        parts.insert(part, PartSample::of(pages(free)?, pages(tied)?));
    }
    let bound_pages = if tied.is_empty() { BTreeMap::new() } else { pages(tied)? };
    let mut all = pages(free)?;
    let mut segment_pages = BTreeMap::new();
    for (id, mappings) in of_segments {
        segment_pages.insert(id, pages(mappings)?);
    }
    if was_cut && !time.is_enough(&options) {
        return Ok(None);
    }
    for (node, pages) in bound_pages.iter().chain(segment_pages.values().flatten()) {
        *all.entry(*node).or_default() += pages;
    }
    let seen = state.seen.as_ref();
    let sample = ResidencySample {
        at_ns: now_ns,
        pages: all,
        segment_pages,
        bound_pages,
        parts,
        bound,
        bound_at_ns,
        name: seen.map(|seen| seen.name.clone()).unwrap_or_default(),
        own_bytes: seen.map_or(0, |seen| seen.non_file_bytes),
        others_pages: 0,
        busiest: None,
        program: identity.auxv_checksum,
    };
    Ok(Some((sample, mapped)))
}

/// Own memory without segments, and that of each segment, which may turn out to be shared.
fn by_segment(
    own: Vec<Mapping>,
    mapped: &[MappedSegment],
) -> (Vec<Mapping>, BTreeMap<SegmentId, Vec<Mapping>>) {
    let (mut rest, mut segments) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for mapping in own {
        let id = mapping.segment.map(|part| part.id);
        match id.filter(|id| mapped.iter().any(|one| one.id == *id)) {
            Some(id) => segments.entry(id).or_default().push(mapping),
            None => rest.push(mapping),
        }
    }
    (rest, segments)
}

impl ResidencySample {
    /// Returns whether the policies need not be read again. New memory may have a policy of its
    /// own.
    fn is_bound_known(&self, cause: SampleCause, now_ns: u64) -> bool {
        let may_differ = matches!(cause, SampleCause::Changed | SampleCause::Bound);
        let is_fresh = now_ns.abs_diff(self.bound_at_ns) < BOUND_NS;
        is_fresh && !may_differ && !self.bound.has_task_policy
    }
}

/// Returns the node that has more than half of a process's load.
fn busiest(process: &ProcessState, nodes: &Nodes) -> Option<NodeId> {
    let mut loads: BTreeMap<NodeId, u64> = BTreeMap::new();
    for (thread, load) in process.threads() {
        if let Some(node) = nodes.node_of(thread.cpu) {
            *loads.entry(node).or_default() += u64::from(load.load_ppm);
        }
    }
    let whole: u64 = loads.values().sum();
    loads.into_iter().find(|&(_, load)| load * 2 > whole).map(|(node, _)| node)
}

/// Returns the policies of a process; none on a machine that cannot report them.
fn bound_of(process: &dyn Process) -> Result<MemoryPolicies> {
    match process.memory_policies() {
        Err(Error::Unsupported { .. }) => Ok(MemoryPolicies::default()),
        bound => bound,
    }
}

/// Returns whether a mapping holds memory of the process itself, not page cache of a file.
fn is_own(mapping: &Mapping) -> bool {
    match mapping.kind {
        MappingKind::File => false,
        MappingKind::Shared => is_memory(mapping),
        MappingKind::Heap | MappingKind::Stack | MappingKind::Anonymous | MappingKind::Huge => true,
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::MappingOrigin;

    use super::*;

    fn mapping(start: u64, end: u64, kind: MappingKind, path: &str) -> Mapping {
        let range = Range::new(start, end);
        let shared = kind == MappingKind::Shared;
        let (path, origin) = (path.into(), MappingOrigin::default());
        Mapping { range, kind, shared, huge_page_bytes: None, path, segment: None, origin }
    }

    fn ranges(mappings: &[Mapping]) -> Vec<(u64, u64)> {
        mappings.iter().map(|m| (m.range.start, m.range.end)).collect()
    }

    /// Goal: at 20 ms of CPU time a second a sample of 100 ms is followed by a wait of 5 s; none
    /// waits for less than a second, or at first for more than ten.
    #[test]
    fn costly_samples_are_fewer() {
        let first_s = |ms: u64| {
            retry_ns(ms * 1_000_000, &BalanceSettings::default()).map(|ns| ns / 1_000_000_000)
        };
        assert_eq!(first_s(100), [5, 60]);
        assert_eq!((first_s(0), first_s(20), first_s(10_000)), ([1, 60], [1, 60], [10, 60]));
    }

    /// Goal: bound memory is cut out, wherever it lies in a mapping or beyond it; page cache of
    /// files is left out altogether.
    #[test]
    fn bound_ranges_are_cut_out() {
        use MappingKind::{Anonymous, File, Shared};
        let mappings = vec![
            mapping(0, 100, Anonymous, ""),
            mapping(100, 200, File, "/bin/db"),
            mapping(200, 300, Shared, "/data/table"),
            mapping(300, 400, Shared, "/dev/shm/x"),
            mapping(400, 500, Anonymous, ""),
        ];
        let bound = [(0, 10), (5, 20), (50, 60), (350, 450)].map(|(a, b)| Range::new(a, b));
        let (free, bound) = own_memory(mappings, &bound, &BTreeSet::new());
        assert_eq!(ranges(&free), [(20, 50), (60, 100), (300, 350), (450, 500)]);
        assert_eq!(ranges(&bound), [(0, 10), (10, 20), (50, 60), (350, 400), (400, 450)]);
    }

    /// Goal: the requested process comes first, then processes whose memory was moved, then those
    /// never sampled, the busiest first.
    #[test]
    fn the_order_of_samples() {
        let key = |pid| (Pid::new(pid).unwrap(), 0);
        let mut due = [
            (key(1), SampleCause::Placed, 9),
            (key(2), SampleCause::First, 1),
            (key(3), SampleCause::First, 5),
            (key(4), SampleCause::Moved, 0),
            (key(5), SampleCause::Changed, 7),
        ];
        in_order(&mut due, Pid::new(5).ok());
        assert_eq!(due.map(|(key, ..)| key.0.number()), [5, 4, 3, 2, 1]);
    }
}
