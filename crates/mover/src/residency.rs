//! Residency of a process: sampled until it is precise enough, or counted page by page.
//!
//! Both methods query the process in bounded pieces and check the clock between them, so that a
//! large process is not held up for long, and neither is the caller.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use nodeward_machine::{Machine, PagesByMapping, Process, Result};
use nodeward_model::{
    KindResidency, Mapping, MappingKind, NodeId, NodeShare, PageLocation, Range, Residency,
};
use nodeward_policy::sampling::{
    Estimate, NodeEstimate, ResidencySampler, SamplingGoal, SamplingStep,
};

use crate::MoveControl;
use crate::outcomes::{NodeCounts, add_counts};
use crate::populated::populated;
use crate::sparse::{counted_in, counted_within};

/// Pages queried at once: about a millisecond, after which the clock is checked.
const PAGES_PER_CALL: usize = 4096;

/// Limit on the memory that one walk inside the kernel may find: it holds the process's memory lock
/// for about 30 ns a page, 8 ms.
const WALK_BYTES_MAX: u64 = 1 << 30;
/// Limit on the addresses of mappings that came after the walk and are read instead: 2 ms.
const UNKNOWN_BYTES_MAX: u64 = 1 << 30;
/// From this many bytes of addresses for each byte in memory on, so few samples find a page that a
/// walk costs less.
const SPARSE_FACTOR: u64 = 8;

/// Options of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Count every page instead of sampling.
    pub exact: bool,
    /// Include private mappings of files: mostly page cache that many processes share.
    pub files: bool,
    /// What is measured may be parts of mappings. (What the kernel counts of a mapping holds for
    /// the whole.)
    pub parts: bool,
    /// Half-width limit of the interval of a share, in ppm (20000 = 2 points).
    pub half_width_ppm: u64,
    /// Minimum number of sampled pages of each kind (fewer where the kind has fewer).
    pub samples_min: u64,
    /// Seed of the choice of sampled addresses.
    pub seed: u64,
    /// Time limit, after which the present result is returned, in nanoseconds; `None`: no limit.
    pub time_ns_max: Option<u64>,
    /// Limit of our own CPU time, likewise, in nanoseconds; `None`: no limit.
    pub cpu_ns_max: Option<u64>,
    /// Stopping it ends the time.
    pub control: Option<&'a MoveControl>,
}

impl Default for Options<'_> {
    /// Sampling to two points, for at most five seconds.
    fn default() -> Self {
        Self {
            exact: false,
            files: true,
            parts: false,
            half_width_ppm: 20_000,
            samples_min: 0,
            seed: 0,
            time_ns_max: Some(5_000_000_000),
            cpu_ns_max: None,
            control: None,
        }
    }
}

/// Measures on which nodes the memory of a process is.
///
/// # Errors
/// `Gone` if it ended meanwhile; otherwise the errors of reading the process.
pub fn measure(
    machine: &dyn Machine,
    process: &dyn Process,
    options: &Options<'_>,
) -> Result<Residency> {
    let wanted = |mapping: &Mapping| options.files || mapping.kind != MappingKind::File;
    let mappings = process.mappings()?.into_iter().filter(wanted).collect();
    measure_mappings(machine, process, mappings, options)
}

/// Measures on which nodes these parts of the memory of a process are.
///
/// # Errors
/// As [`measure`].
pub fn measure_mappings(
    machine: &dyn Machine,
    process: &dyn Process,
    mappings: Vec<Mapping>,
    options: &Options<'_>,
) -> Result<Residency> {
    ResidencyLook::new(machine, process, options).measure(mappings)
}

/// A look at a process, part by part. What the kernel counts, it counts for all of them at once.
pub struct ResidencyLook<'a> {
    machine: &'a dyn Machine,
    process: &'a dyn Process,
    options: &'a Options<'a>,
    counted: OnceCell<Option<PagesByMapping>>,
}

impl<'a> ResidencyLook<'a> {
    /// Begins a look.
    pub fn new(
        machine: &'a dyn Machine,
        process: &'a dyn Process,
        options: &'a Options<'a>,
    ) -> Self {
        Self { machine, process, options, counted: OnceCell::new() }
    }

    /// Measures on which nodes these parts of the memory are. The limits of time are for each call.
    ///
    /// # Errors
    /// As [`measure`].
    pub fn measure(&self, mappings: Vec<Mapping>) -> Result<Residency> {
        let Self { machine, process, options, counted } = self;
        let deadline = options.time_ns_max.map(|ns| machine.now_ns().saturating_add(ns));
        let cpu_deadline =
            options.cpu_ns_max.map(|ns| machine.own_cpu_time_ns().saturating_add(ns));
        let look = ResidencyMeasurement {
            machine: *machine,
            process: *process,
            options,
            counted,
            deadline,
            cpu_deadline,
        };
        look.measure(mappings)
    }
}

/// One measurement of one process.
struct ResidencyMeasurement<'a> {
    machine: &'a dyn Machine,
    process: &'a dyn Process,
    options: &'a Options<'a>,
    counted: &'a OnceCell<Option<PagesByMapping>>,
    deadline: Option<u64>,
    cpu_deadline: Option<u64>,
}

impl ResidencyMeasurement<'_> {
    fn measure(&self, mappings: Vec<Mapping>) -> Result<Residency> {
        let walked = self.walk(&mappings)?;
        let mut by_kind: BTreeMap<MappingKind, Vec<Mapping>> = BTreeMap::new();
        for mapping in mappings {
            by_kind.entry(mapping.kind).or_default().push(mapping);
        }
        let mut kinds = BTreeMap::new();
        let mut capped = false;
        for (kind, mappings) in by_kind {
            let (found, complete) = match walked {
                Some(_) => self.count(&mappings, walked)?,
                None if self.options.exact => self.count(&mappings, None)?,
                None => self.sample(&mappings)?,
            };
            capped |= !complete;
            if !found.is_empty() {
                kinds.insert(kind, found);
            }
        }
        let page_bytes = self.machine.page_bytes();
        Ok(Residency { pid: self.process.pid(), page_bytes, kinds, capped })
    }

    fn is_out_of_time(&self) -> bool {
        self.options.control.is_some_and(MoveControl::is_stopped)
            || self.deadline.is_some_and(|deadline| self.machine.now_ns() >= deadline)
            || self.cpu_deadline.is_some_and(|at| self.machine.own_cpu_time_ns() >= at)
    }

    /// Returns what a walk inside the kernel finds in each mapping, where nearly all addresses are
    /// empty: it takes less time for empty page tables than PAGEMAP_SCAN, where there is that.
    /// `None` where that does not pay, or the kernel does not tell it of nearly all mappings.
    fn walk(&self, mappings: &[Mapping]) -> Result<Option<&PagesByMapping>> {
        if self.is_out_of_time() {
            return Ok(None);
        }
        let addresses: u64 = mappings.iter().map(|mapping| mapping.range.bytes()).sum();
        let resident = self.process.resident_bytes()?;
        if resident > WALK_BYTES_MAX || addresses / SPARSE_FACTOR < resident {
            return Ok(None);
        }
        if self.counted.get().is_none() {
            let counted = self.process.pages_by_mapping()?;
            self.counted.get_or_init(|| counted);
        }
        let walked = self.counted.get().and_then(Option::as_ref);
        let has = |walked: &&PagesByMapping| {
            let unknown = mappings.iter().filter(|it| self.counted(walked, it.range).is_none());
            unknown.map(|it| it.range.bytes()).sum::<u64>() <= UNKNOWN_BYTES_MAX
        };
        Ok(walked.filter(has))
    }

    fn counted(&self, walked: &PagesByMapping, range: Range) -> Option<NodeCounts> {
        let counted = if self.options.parts { counted_within } else { counted_in };
        counted(walked, range)
    }

    /// Counts the pages of mappings, but those that were found by a walk; returns false if time ran
    /// out.
    fn count(
        &self,
        mappings: &[Mapping],
        walked: Option<&PagesByMapping>,
    ) -> Result<(KindResidency, bool)> {
        let mut tally = LocationCounts::default();
        let mut ranges = Vec::new();
        for &Mapping { range, .. } in mappings {
            match walked.and_then(|walked| self.counted(walked, range)) {
                Some(found) => add_counts(&mut tally.nodes, &found),
                None => ranges.push(range),
            }
        }
        let complete = ranges.is_empty() || self.count_pages(ranges, &mut tally)?;
        let mut found = KindResidency::counted(&tally.nodes);
        found.swapped = tally.swapped;
        found.fixed = tally.fixed;
        found.probes = tally.pages;
        found.exact = complete;
        Ok((found, complete))
    }

    fn count_pages(&self, ranges: Vec<Range>, tally: &mut LocationCounts) -> Result<bool> {
        let piece_bytes = PAGES_PER_CALL as u64 * self.machine.page_bytes();
        let populated = match self.is_dense(&ranges)? {
            true => ranges,
            false => self.populated(&ranges)?,
        };
        let pieces = populated.iter().flat_map(|range| range.aligned_pieces(piece_bytes));
        let mut places = Vec::new();
        for ranges in together(pieces, piece_bytes) {
            if self.is_out_of_time() {
                return Ok(false);
            }
            places.clear();
            self.process.locations_of(&ranges, &mut places)?;
            tally.add(&places);
        }
        Ok(true)
    }

    /// Returns whether pages could fill half of the addresses: then it takes longer to list what is
    /// populated than to read all.
    fn is_dense(&self, ranges: &[Range]) -> Result<bool> {
        let addresses: u64 = ranges.iter().map(|range| range.bytes()).sum();
        Ok(addresses <= 2 * self.process.resident_bytes()?)
    }

    /// Samples the pages of mappings; returns false if time or probes ran out before it was precise
    /// enough.
    fn sample(&self, mappings: &[Mapping]) -> Result<(KindResidency, bool)> {
        let ranges = mappings.iter().map(|mapping| mapping.range).collect();
        let goal = SamplingGoal {
            half_width_ppm: self.options.half_width_ppm,
            hits_min: self.options.samples_min,
            can_scan: self.machine.capabilities().pagemap_scan,
            ..SamplingGoal::default()
        };
        let mut survey =
            ResidencySampler::new(ranges, self.machine.page_bytes(), goal, self.options.seed);
        let complete = loop {
            if self.is_out_of_time() {
                break false;
            }
            match survey.next_step() {
                SamplingStep::Probe(addresses) => survey.record(&self.probe(&addresses)?),
                SamplingStep::Scan(ranges) => {
                    survey.restrict_to_populated(self.populated(&ranges)?);
                }
                SamplingStep::Done(end) => break end.is_complete(),
            }
        };
        Ok((residency(survey.estimate(), survey.probes()), complete))
    }

    /// Locates pages.
    fn probe(&self, addresses: &[u64]) -> Result<Vec<PageLocation>> {
        let mut places = Vec::with_capacity(addresses.len());
        for chunk in addresses.chunks(PAGES_PER_CALL) {
            places.extend(self.process.locate(chunk)?);
        }
        Ok(places)
    }

    /// Returns the populated parts of ranges; when time runs out, the rest counts as populated.
    fn populated(&self, ranges: &[Range]) -> Result<Vec<Range>> {
        populated(self.process, ranges, &|| self.is_out_of_time())
    }
}

/// Counts of pages.
#[derive(Default)]
pub(crate) struct LocationCounts {
    pub(crate) nodes: BTreeMap<NodeId, u64>,
    swapped: u64,
    fixed: u64,
    pages: u64,
}

impl LocationCounts {
    pub(crate) fn add(&mut self, places: &[PageLocation]) {
        self.pages += places.len() as u64;
        for run in places.chunk_by(|a, b| a == b) {
            let count = run.len() as u64;
            match run[0] {
                PageLocation::Absent => {}
                PageLocation::Swapped | PageLocation::InFlight => self.swapped += count,
                PageLocation::Unmovable => self.fixed += count,
                PageLocation::On(node) => *self.nodes.entry(node).or_default() += count,
            }
        }
    }
}

/// Groups ranges that are read together: up to `bytes` in each group.
pub(crate) fn together(
    ranges: impl Iterator<Item = Range>,
    bytes: u64,
) -> impl Iterator<Item = Vec<Range>> {
    let mut ranges = ranges.peekable();
    std::iter::from_fn(move || {
        let mut group = vec![ranges.next()?];
        let mut left = bytes.saturating_sub(group[0].bytes());
        while let Some(next) = ranges.next_if(|next| next.bytes() <= left) {
            left -= next.bytes();
            group.push(next);
        }
        Some(group)
    })
}

fn residency(estimate: Estimate, probes: u64) -> KindResidency {
    let share = |known: NodeEstimate| NodeShare {
        pages: known.pages,
        share_ppm: known.share.ppm,
        share_ppm_low: known.share.low_ppm,
        share_ppm_high: known.share.high_ppm,
    };
    KindResidency {
        nodes: estimate.nodes.into_iter().map(|(node, known)| (node, share(known))).collect(),
        pages: estimate.on_nodes,
        swapped: estimate.swapped,
        fixed: estimate.unmovable,
        exact: estimate.exact,
        probes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{Page, Pid};

    /// Returns `pages` pages, of which every third is on node 1; each 100 pages are followed by a
    /// hole of 100.
    fn layout(pages: u64) -> Vec<Page> {
        let node = |i: u64| Page::on(NodeId(u32::from(i.is_multiple_of(3))));
        let page = |i: u64| if (i / 100).is_multiple_of(2) { node(i) } else { Page::ABSENT };
        (0..pages).map(page).collect()
    }

    fn measured(pages: u64, options: &Options<'_>) -> (Residency, BTreeMap<NodeId, u64>) {
        let fake = FakeMachine::new(true);
        let pid = Pid::new(7).unwrap();
        let fake_process = FakeProcess::with_pages(&layout(pages));
        let truth = fake_process.residency();
        fake.spawn(pid, fake_process);
        let process = fake.open_process(pid).unwrap();
        (measure(&fake, &*process, options).unwrap(), truth)
    }

    #[test]
    fn exact_counts_every_page() {
        let (seen, truth) = measured(20_000, &Options { exact: true, ..Options::default() });
        let kind = &seen.kinds[&MappingKind::Anonymous];
        let counts: BTreeMap<_, _> = kind.nodes.iter().map(|(&n, s)| (n, s.pages)).collect();
        assert_eq!((counts, kind.exact, kind.probes), (truth, true, 20_000));
        assert_eq!(kind.half_width_ppm(), 0);
    }

    #[test]
    fn sampling_finds_the_shares_with_fewer_looks() {
        let (seen, truth) = measured(100_000, &Options { seed: 1, ..Options::default() });
        let kind = &seen.kinds[&MappingKind::Anonymous];
        assert!(!kind.exact && kind.half_width_ppm() <= 20_000 && kind.probes < 10_000, "{kind:?}");
        let whole: u64 = truth.values().sum();
        for (node, share) in &kind.nodes {
            let ppm = truth[node] * 1_000_000 / whole;
            assert!((share.share_ppm_low..=share.share_ppm_high).contains(&ppm), "{share:?}");
        }
        assert!(!seen.capped);
    }

    #[test]
    fn a_few_pages_are_counted_without_being_asked() {
        let (seen, truth) = measured(300, &Options::default());
        let kind = &seen.kinds[&MappingKind::Anonymous];
        assert!(kind.exact);
        assert_eq!(kind.pages, truth.values().sum::<u64>());
    }

    /// Goal: 50 pages in a million are counted, and none is looked for, whether populated ranges
    /// are listed or not; the same pages among a few hundred addresses are not worth a walk.
    #[test]
    fn a_few_pages_in_a_large_mapping_are_found_by_a_walk() {
        let pid = Pid::new(7).unwrap();
        let newer = FakeMachine::new(true);
        let older = FakeMachine::new(true).without_pagemap_scan();
        for ((pages, walks), fake) in [(1_000_000, true), (300, false)]
            .into_iter()
            .flat_map(|shape| [(shape, &newer), (shape, &older)])
        {
            let mut fake_process = FakeProcess::with_pages(&layout(100)[..50]);
            fake_process.mappings[0].range.end =
                fake_process.mappings[0].range.start + pages * 4096;
            let truth = fake_process.residency();
            fake.spawn(pid, fake_process);
            let process = fake.open_process(pid).unwrap();
            for exact in [false, true] {
                let options = Options { exact, ..Options::default() };
                let seen = measure(fake, &*process, &options).unwrap();
                let kind = &seen.kinds[&MappingKind::Anonymous];
                let counts: BTreeMap<_, _> =
                    kind.nodes.iter().map(|(&n, s)| (n, s.pages)).collect();
                assert_eq!((counts, kind.exact, kind.probes == 0), (truth.clone(), true, walks));
            }
        }
    }

    /// Goal: a mapping that came after the kernel had counted is read, and the others are not.
    #[test]
    fn a_mapping_that_came_later_is_read() {
        let fake = FakeMachine::new(true).without_pagemap_scan();
        let pid = Pid::new(7).unwrap();
        let mut process = FakeProcess::with_pages(&layout(100)[..50]);
        process.mappings[0].range.end = 1 << 32;
        let later = Range::new(1 << 33, (1 << 33) + 16 * 4096);
        process.pages.insert(later.start / 4096, Page::on(NodeId(1)));
        let truth = process.residency();
        let mut mappings = process.mappings.clone();
        mappings.push(Mapping { range: later, ..mappings[0].clone() });
        fake.spawn(pid, process);
        let process = fake.open_process(pid).unwrap();
        let seen = measure_mappings(&fake, &*process, mappings, &Options::default()).unwrap();
        let kind = &seen.kinds[&MappingKind::Anonymous];
        let counts: BTreeMap<_, _> = kind.nodes.iter().map(|(&n, s)| (n, s.pages)).collect();
        assert_eq!((counts, kind.probes), (truth, 16));
    }

    /// Goal: what the kernel counted of a mapping is not told of a part of it: of a million pages
    /// the first 50 are there, so the second half has none, and the first 100 have all.
    #[test]
    fn a_part_of_a_mapping_has_its_own_pages() {
        let fake = FakeMachine::new(true).without_pagemap_scan();
        let pid = Pid::new(7).unwrap();
        let mut process = FakeProcess::with_pages(&layout(100)[..50]);
        let start = process.mappings[0].range.start;
        process.mappings[0].range.end = start + 1_000_000 * 4096;
        let whole = process.mappings[0].clone();
        fake.spawn(pid, process);
        let process = fake.open_process(pid).unwrap();
        let options = Options { exact: true, parts: true, ..Options::default() };
        let pages = |first: u64, last: u64| {
            let range = Range::new(start + first * 4096, start + last * 4096);
            let part = Mapping { range, ..whole.clone() };
            measure_mappings(&fake, &*process, vec![part], &options).unwrap().total().pages
        };
        assert_eq!((pages(500_000, 800_000), pages(0, 100)), (0, 50));
        assert_eq!(pages(0, 1_000_000), 50);
    }

    #[test]
    fn no_time_is_told_and_not_an_error() {
        for exact in [true, false] {
            let options = Options { exact, time_ns_max: Some(0), ..Options::default() };
            let (seen, _) = measured(10_000, &options);
            assert!(seen.capped && seen.total().pages == 0);
        }
    }

    /// Goal: a look that is stopped ends as if its time were over.
    #[test]
    fn a_stop_ends_a_look() {
        let control = MoveControl::default();
        control.stop();
        for exact in [true, false] {
            let options = Options { exact, control: Some(&control), ..Options::default() };
            let (seen, _) = measured(10_000, &options);
            assert!(seen.capped && seen.total().pages == 0);
        }
    }
}
