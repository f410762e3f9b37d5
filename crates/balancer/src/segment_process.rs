//! A segment as a process that holds only the segment, for the mover and the sampler of residency.
//!
//! A page table has only those pages of a segment that its process touched. So a page is looked for
//! in the tables of several processes that map the segment, one after the other, and is seen and
//! moved through the first that has it. Addresses are those of the first process, the *leader*. If
//! a process ends, the others go on.

use std::collections::BTreeSet;
use std::sync::Arc;

use nodeward_machine::{
    CallEnd, EntryRefusal, EntryStatus, Error, Liveness, Machine, MovePagesCall, MovePagesOutcome,
    Process, Result, SEPARATOR,
};
use nodeward_model::{
    AffinityOutcome, Cpumask, Mapping, MemoryPolicies, Page, PageLocation, Pid, ProcessIdentity,
    ProcessTraits, Range, SegmentId,
};

use super::mapped_segments::MappedPart;
use super::process_key::ProcessKey;

/// Page tables that a page is looked for in, at most.
const VIEWS_MAX: usize = 4;

/// A segment that is held through processes that map it.
pub struct SegmentProcess {
    /// The views of the segment through each process, the leader's first; at least one.
    views: Vec<SegmentView>,
    page_bytes: u64,
}

/// A process that maps the segment.
struct SegmentView {
    process: Arc<dyn Process>,
    /// The process's mappings of the segment by ascending address. Offsets ascend, too.
    mappings: Vec<Mapping>,
}

impl SegmentProcess {
    /// Holds a segment through those of these processes that still map it. Returns what was wrong
    /// with the others, too; `None` if nobody is left.
    pub fn open(
        machine: &dyn Machine,
        mappers: impl Iterator<Item = ProcessKey>,
        segment: SegmentId,
    ) -> (Option<Self>, Vec<(ProcessKey, Error)>) {
        let (mut views, mut errors) = (Vec::new(), Vec::new());
        for key in mappers {
            match SegmentView::open(machine, key, segment) {
                Ok(view) => views.extend(view),
                Err(error) => errors.push((key, error)),
            }
            if views.len() == VIEWS_MAX {
                break;
            }
        }
        let held = Self { views, page_bytes: machine.page_bytes() };
        ((!held.views.is_empty()).then_some(held), errors)
    }

    /// Returns the leader's mappings of the segment.
    pub fn held_mappings(&self) -> &[Mapping] {
        &self.views[0].mappings
    }

    /// Returns whether addresses of the segment are those of this process.
    pub fn is_led_by(&self, (pid, _): ProcessKey) -> bool {
        self.pid() == pid
    }

    /// The offsets of ranges of the leader, in ascending order.
    pub fn offsets_of(&self, ranges: &[Range]) -> Vec<Range> {
        let leader = &self.views[0];
        let parts = |range: &Range| leader.parts(*range).into_iter().map(|(_, part)| part);
        let mut offsets: Vec<_> = ranges.iter().flat_map(parts).collect();
        offsets.sort_unstable();
        offsets
    }

    /// Returns the leader's addresses of parts of the segment, in ascending order. The parts are
    /// given as offsets.
    pub fn ranges_at(&self, parts: &[Range]) -> Vec<Range> {
        let leader = &self.views[0];
        let mut ranges: Vec<_> = parts.iter().flat_map(|part| leader.addresses(*part)).collect();
        ranges.sort_unstable();
        ranges
    }

    /// The first offset behind all that the leader maps.
    pub fn end(&self) -> u64 {
        let last = self.views[0].mappings.last();
        last.map_or(0, |mapping| offset(mapping).saturating_add(mapping.range.bytes()))
    }

    /// The offset in the segment of an address of the leader, or of the end of a mapping.
    pub fn offset_of(&self, address: u64) -> u64 {
        let mut before = self.views[0].mappings.iter().rev();
        let mapping = before.find(|mapping| mapping.range.start <= address);
        mapping.map_or(0, |mapping| {
            offset(mapping) + (address.min(mapping.range.end) - mapping.range.start)
        })
    }

    /// Returns the addresses in another view of the leader's addresses `range`, each with those of
    /// the leader.
    fn seen_by(&self, view: usize, range: Range) -> Vec<(Range, Range)> {
        let parts = self.views[0].parts(range);
        let other = |(at, part): (u64, Range)| {
            let addresses = self.views[view].addresses(part);
            let of_part = move |theirs: Range| {
                let behind = self.views[view].offset_of(theirs.start).unwrap_or(part.start);
                let start = at + (behind - part.start);
                (Range::new(start, start + theirs.bytes()), theirs)
            };
            addresses.into_iter().map(of_part).collect::<Vec<_>>()
        };
        parts.into_iter().flat_map(other).collect()
    }

    /// Reads a range of the leader; what is absent there is read in the other views.
    fn read<T: Clone>(
        &self,
        range: Range,
        is_absent: fn(&T) -> bool,
        absent: &T,
        look: impl Fn(&SegmentView, Range, &mut Vec<T>) -> Result<()>,
    ) -> Result<Vec<T>> {
        let pages = (range.bytes() / self.page_bytes) as usize;
        let mut found = vec![absent.clone(); pages];
        let mut ended = 0;
        for view in 0..self.views.len() {
            for (ours, theirs) in self.missing(&found, range, view, is_absent) {
                let mut seen = Vec::new();
                match look(&self.views[view], theirs, &mut seen) {
                    Ok(()) => {
                        let first = ((ours.start - range.start) / self.page_bytes) as usize;
                        found[first..first + seen.len()].clone_from_slice(&seen);
                    }
                    Err(error) if error.is_gone() => {
                        ended += 1;
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        match ended == self.views.len() {
            true => Err(Error::Gone(self.pid())),
            false => Ok(found),
        }
    }

    /// Returns the parts of a range that no view before this one has, as the leader and as this
    /// view have them.
    fn missing<T>(
        &self,
        found: &[T],
        range: Range,
        view: usize,
        is_absent: fn(&T) -> bool,
    ) -> Vec<(Range, Range)> {
        let mut missing = Vec::new();
        let mut at = range.start;
        for run in found.chunk_by(|a, b| is_absent(a) == is_absent(b)) {
            let end = at + run.len() as u64 * self.page_bytes;
            if is_absent(&run[0]) {
                missing.extend(self.seen_by(view, Range::new(at, end)));
            }
            at = end;
        }
        missing
    }

    /// In which view each page is, and where there; `None` if in none.
    fn find(&self, addresses: &[u64], dead: &BTreeSet<usize>) -> Result<Vec<Found>> {
        let mut found: Vec<Found> = vec![None; addresses.len()];
        for view in (0..self.views.len()).filter(|view| !dead.contains(view)) {
            let theirs = |&at: &usize| Some((at, self.address_in(view, addresses[at])?));
            let open = (0..addresses.len()).filter(|&at| found[at].is_none());
            let open: Vec<_> = open.filter_map(|at| theirs(&at)).collect();
            let asked: Vec<u64> = open.iter().map(|&(_, address)| address).collect();
            let places = match self.views[view].process.locate(&asked) {
                Ok(places) => places,
                Err(error) if error.is_gone() => continue,
                Err(error) => return Err(error),
            };
            for (&(at, address), place) in open.iter().zip(places) {
                if place != PageLocation::Absent {
                    found[at] = Some((view, address, place));
                }
            }
        }
        Ok(found)
    }

    /// The address in a view of an address of the leader.
    fn address_in(&self, view: usize, address: u64) -> Option<u64> {
        self.views[view].address_of(self.views[0].offset_of(address)?)
    }

    /// Moves the entries of a batch that a view has. Returns how the call ended.
    fn move_through(
        &self,
        view: usize,
        batch: &MovePagesCall,
        found: &[Found],
        status: &mut [EntryStatus],
    ) -> Result<CallEnd> {
        let mut part = MovePagesCall::new(batch.move_shared);
        let mut entries = Vec::new();
        for (entry, at) in found.iter().enumerate() {
            let to = batch.nodes()[entry];
            match *at {
                Some((of, address, _)) if of == view => part.push(address, to),
                None if batch.addresses()[entry] == SEPARATOR && !part.is_empty() => {
                    part.end_run();
                }
                _ => continue,
            }
            entries.push(entry);
        }
        let outcome = self.views[view].process.move_pages(&part)?;
        for (entry, one) in entries.into_iter().zip(outcome.status) {
            status[entry] = one;
        }
        Ok(outcome.end)
    }
}

/// The index of the view that has a page, the page's address there, and its place.
type Found = Option<(usize, u64, PageLocation)>;

impl SegmentView {
    /// Holds a process; `None` if the process no longer maps the segment.
    fn open(machine: &dyn Machine, key: ProcessKey, segment: SegmentId) -> Result<Option<Self>> {
        let process = machine.open_process(key.0)?;
        if process.identity()?.started_ticks != key.1 {
            return Err(Error::Gone(key.0));
        }
        let mut mappings = process.mappings()?;
        mappings.retain(|mapping| mapping.segment.is_some_and(|part| part.id == segment));
        let mut end = 0;
        mappings.retain(|mapping| {
            let ascends = offset(mapping) >= end;
            if ascends {
                end = offset(mapping).saturating_add(mapping.range.bytes());
            }
            ascends
        });
        Ok((!mappings.is_empty()).then_some(Self { process, mappings }))
    }

    /// Returns the addresses of a part of the segment, which is given as offsets.
    fn addresses(&self, part: Range) -> Vec<Range> {
        let address = |mapping: &Mapping| {
            let first = offset(mapping);
            let both = Range::new(first, first + mapping.range.bytes()).intersection(part)?;
            let start = mapping.range.start + (both.start - first);
            Some(Range::new(start, start + both.bytes()))
        };
        self.mappings.iter().filter_map(address).collect()
    }

    /// Returns the parts of the segment that a range shows: for each its first address and its
    /// offsets.
    fn parts(&self, range: Range) -> Vec<(u64, Range)> {
        let part = |mapping: &Mapping| {
            let both = mapping.range.intersection(range)?;
            let first = offset(mapping) + (both.start - mapping.range.start);
            Some((both.start, Range::new(first, first + both.bytes())))
        };
        self.mappings.iter().filter_map(part).collect()
    }

    /// Returns the offset in the segment of an address, if the process maps the segment there.
    fn offset_of(&self, address: u64) -> Option<u64> {
        self.mappings.iter().find_map(|mapping| MappedPart::of(mapping).offset_of(address))
    }

    /// Returns the address of an offset in the segment, if the process maps that offset.
    fn address_of(&self, at: u64) -> Option<u64> {
        self.mappings.iter().find_map(|mapping| MappedPart::of(mapping).address_of(at))
    }

    /// The mapping that holds a range.
    fn mapping_of(&self, range: Range) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| mapping.range.intersection(range) == Some(range))
    }
}

fn offset(mapping: &Mapping) -> u64 {
    mapping.segment.map_or(0, |part| part.offset)
}

impl Process for SegmentProcess {
    fn pid(&self) -> Pid {
        self.views[0].process.pid()
    }

    fn identity(&self) -> Result<ProcessIdentity> {
        self.views[0].process.identity()
    }

    fn liveness(&self) -> Liveness {
        let lives = |view: &SegmentView| view.process.liveness() == Liveness::Running;
        match self.views.iter().any(lives) {
            true => Liveness::Running,
            false => self.views[0].process.liveness(),
        }
    }

    fn mappings(&self) -> Result<Vec<Mapping>> {
        Ok(self.views[0].mappings.clone())
    }

    fn traits(&self) -> Result<ProcessTraits> {
        self.views[0].process.traits()
    }

    fn resident_bytes(&self) -> Result<u64> {
        Ok(self.views[0].process.resident_bytes().unwrap_or(0))
    }

    fn populated(&self, range: Range) -> Result<Vec<Range>> {
        let mut all = Vec::new();
        for view in 0..self.views.len() {
            for (ours, theirs) in self.seen_by(view, range) {
                let Ok(parts) = self.views[view].process.populated(theirs) else { continue };
                let in_ours = |part: Range| {
                    let start = ours.start + (part.start - theirs.start);
                    Range::new(start, start + part.bytes())
                };
                all.extend(parts.into_iter().map(in_ours));
            }
        }
        Ok(join(all))
    }

    fn pages(&self, _mapping: &Mapping, range: Range, into: &mut Vec<Page>) -> Result<()> {
        let is_absent = |page: &Page| page.location == PageLocation::Absent;
        let look = |view: &SegmentView, range: Range, into: &mut Vec<Page>| {
            let Some(mapping) = view.mapping_of(range) else { return Ok(()) };
            view.process.pages(mapping, range, into)?;
            // The head of a folio may have been seen in another table.
            let inside = into.iter_mut().take_while(|page| page.folio_pages == 0);
            inside.for_each(|page| page.folio_pages = 1);
            Ok(())
        };
        into.extend(self.read(range, is_absent, &Page::ABSENT, look)?);
        Ok(())
    }

    fn locations(&self, range: Range, into: &mut Vec<PageLocation>) -> Result<()> {
        let is_absent = |place: &PageLocation| *place == PageLocation::Absent;
        let look = |view: &SegmentView, range: Range, into: &mut Vec<PageLocation>| {
            view.process.locations(range, into)
        };
        into.extend(self.read(range, is_absent, &PageLocation::Absent, look)?);
        Ok(())
    }

    fn frames(&self, range: Range, into: &mut Vec<Option<u64>>) -> Result<()> {
        self.views[0].process.frames(range, into)
    }

    fn locate(&self, addresses: &[u64]) -> Result<Vec<PageLocation>> {
        let place = |found: Found| found.map_or(PageLocation::Absent, |(_, _, place)| place);
        match self.liveness() {
            Liveness::Running => {
                Ok(self.find(addresses, &BTreeSet::new())?.into_iter().map(place).collect())
            }
            Liveness::Exited | Liveness::Replaced => Err(Error::Gone(self.pid())),
        }
    }

    /// A process that ends in the middle is left out, and the others are tried.
    fn move_pages(&self, batch: &MovePagesCall) -> Result<MovePagesOutcome> {
        let mut status = vec![EntryStatus::Unwritten; batch.len()];
        let mut dead = BTreeSet::new();
        while dead.len() < self.views.len() {
            let found = self.find(batch.addresses(), &dead)?;
            let nowhere = status.iter_mut().zip(&found).filter(|(_, at)| at.is_none());
            nowhere.for_each(|(one, _)| *one = EntryStatus::Refused(EntryRefusal::Absent));
            let of = |view| found.iter().flatten().any(|(of, ..)| *of == view);
            let views = (0..self.views.len()).filter(|&view| !dead.contains(&view) && of(view));
            let mut ended = None;
            for view in views {
                match self.move_through(view, batch, &found, &mut status) {
                    Ok(CallEnd::Complete) => {}
                    Ok(CallEnd::Gone) => ended = Some(view),
                    Ok(end) => return Ok(MovePagesOutcome { end, status }),
                    Err(error) if error.is_gone() => ended = Some(view),
                    Err(error) => return Err(error),
                }
            }
            match ended {
                Some(view) => _ = dead.insert(view),
                None => return Ok(MovePagesOutcome { end: CallEnd::Complete, status }),
            }
        }
        Ok(MovePagesOutcome { end: CallEnd::Gone, status })
    }

    fn memory_policies(&self) -> Result<MemoryPolicies> {
        self.views[0].process.memory_policies()
    }

    fn nudge(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        self.views[0].process.nudge(tid, cpus)
    }

    fn pin(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        self.views[0].process.pin(tid, cpus)
    }
}

/// Sorts ranges and joins those that touch or overlap.
fn join(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut joined: Vec<Range> = Vec::new();
    for range in ranges {
        match joined.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess, PAGE_BYTES};
    use nodeward_model::NodeId;

    use super::*;

    const ID: SegmentId = SegmentId { major: 0, minor: 1, inode: 7 };

    fn key(pid: u32) -> ProcessKey {
        (Pid::new(pid).unwrap(), 0)
    }

    /// Six pages of a segment: process 1 maps it at page 100 and touched the first two, process 2
    /// at page 500 and touched the middle two, process 3 maps another one.
    fn machine() -> FakeMachine {
        let machine = FakeMachine::new(true);
        for (pid, id, first, touched) in [(1, 7, 100, 0..2), (2, 7, 500, 2..4), (3, 8, 900, 0..6)] {
            let page = |page| match touched.contains(&page) {
                true => Page::on(NodeId(0)),
                false => Page::ABSENT,
            };
            let mut process = FakeProcess::default();
            let pages: Vec<Page> = (0..6).map(page).collect();
            process.map_segment(SegmentId { inode: id, ..ID }, "/dev/shm/a", first, &pages);
            machine.spawn(Pid::new(pid).unwrap(), process);
        }
        machine
    }

    fn open(machine: &FakeMachine) -> (SegmentProcess, usize) {
        let keys = [4, 3, 1, 2].map(key); // nobody has pid 4
        let (segment, errors) = SegmentProcess::open(machine, keys.into_iter(), ID);
        (segment.unwrap(), errors.len())
    }

    fn nodes(segment: &SegmentProcess) -> Vec<Option<u32>> {
        let addresses: Vec<u64> = (100..106).map(|page| page * PAGE_BYTES).collect();
        let on = |place: PageLocation| match place {
            PageLocation::On(node) => Some(node.0),
            _ => None,
        };
        segment.locate(&addresses).unwrap().into_iter().map(on).collect()
    }

    /// Goal: a page is seen through the first process that has it, by all ways of looking, at the
    /// addresses of the first process.
    #[test]
    fn all_tables_are_seen_as_one() {
        let machine = machine();
        let (segment, errors) = open(&machine);
        assert_eq!((errors, segment.views.len()), (1, 2));
        let expected = [Some(0), Some(0), Some(0), Some(0), None, None];
        assert_eq!(nodes(&segment), expected);
        let range = segment.mappings().unwrap()[0].range;
        assert_eq!(range, Range::new(100 * PAGE_BYTES, 106 * PAGE_BYTES));
        let (mut pages, mut places) = (Vec::new(), Vec::new());
        segment.pages(&segment.mappings().unwrap()[0], range, &mut pages).unwrap();
        segment.locations(range, &mut places).unwrap();
        let of_pages: Vec<_> = pages.iter().map(|page| page.node().map(|node| node.0)).collect();
        assert_eq!(of_pages, expected);
        assert_eq!(places, pages.iter().map(|page| page.location).collect::<Vec<_>>());
        assert!(pages.iter().all(|page| page.folio_pages == 1));
        assert_eq!(segment.populated(range).unwrap(), [range]);
        let parts = [Range::new(PAGE_BYTES, 2 * PAGE_BYTES), Range::new(1 << 30, u64::MAX)];
        assert_eq!(segment.ranges_at(&parts), [Range::new(101 * PAGE_BYTES, 102 * PAGE_BYTES)]);
        let address = Range::new(101 * PAGE_BYTES, 103 * PAGE_BYTES);
        assert_eq!(segment.offsets_of(&[address]), [Range::new(PAGE_BYTES, 3 * PAGE_BYTES)]);
        assert_eq!(segment.offset_of(103 * PAGE_BYTES), 3 * PAGE_BYTES);
        assert_eq!(segment.offset_of(106 * PAGE_BYTES), segment.end());
    }

    /// Goal: a batch is moved through those who have its pages; a page that nobody has is absent. A
    /// process that ends before, or in the middle, does not end the move of what others have.
    #[test]
    fn a_batch_is_moved_through_all_who_have_its_pages() {
        for ends_at_call in [None, Some(0)] {
            let machine = machine();
            let (segment, _) = open(&machine);
            let pid = Pid::new(1).unwrap();
            machine.update_process(pid, |process| {
                process.end_at_call = ends_at_call.map(|call| (call, Liveness::Exited));
            });
            let mut batch = MovePagesCall::new(true);
            batch.push(100 * PAGE_BYTES, NodeId(1));
            batch.end_run();
            batch.push(102 * PAGE_BYTES, NodeId(1));
            batch.push(105 * PAGE_BYTES, NodeId(1));
            let outcome = segment.move_pages(&batch).unwrap();
            assert_eq!(outcome.end, CallEnd::Complete);
            let absent = EntryStatus::Refused(EntryRefusal::Absent);
            let here = EntryStatus::On(NodeId(1));
            let first = if ends_at_call.is_none() { here } else { absent };
            assert_eq!([outcome.status[0], outcome.status[2]], [first, here]);
            assert_eq!(outcome.status[3], absent);
            let moved = nodes(&segment);
            let first = ends_at_call.map_or([Some(1), Some(0)], |_| [None, None]);
            assert_eq!(moved, [&first[..], &[Some(1), Some(0), None, None]].concat());
            assert_eq!(segment.liveness(), Liveness::Running);
        }
    }
}
