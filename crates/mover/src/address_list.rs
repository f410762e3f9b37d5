//! Lists of addresses, and the pages of a process that they name.

use nodeward_machine::{Error, Machine, Process, Result};
use nodeward_model::{FrameSet, PageSet, Range};

use crate::Selection;
use crate::survey::{SurveyMethod, SurveyScope, never, units};

/// The outcome of the entries of a list. Each is in exactly one of the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCounts {
    /// Entries that named a page for the first time.
    pub pages: u64,
    /// Entries that named a page again.
    pub duplicates: u64,
    /// Entries that name no page of the process.
    pub outside: u64,
}

impl ListCounts {
    /// Returns the number of all entries.
    pub fn entries(&self) -> u64 {
        self.pages + self.duplicates + self.outside
    }

    fn record(&mut self, is_new: Option<bool>) {
        match is_new {
            Some(true) => self.pages += 1,
            Some(false) => self.duplicates += 1,
            None => self.outside += 1,
        }
    }
}

/// A list of virtual addresses of one process. Only pages within its mappings are kept, so that the
/// memory of a list of any length is bounded by the process's number of pages.
#[derive(Debug)]
pub struct VirtualList {
    /// The mappings, ascending.
    mapped: Vec<Range>,
    set: PageSet,
    counts: ListCounts,
}

impl VirtualList {
    /// An empty list of addresses of a process.
    ///
    /// # Errors
    /// If its mappings cannot be read.
    pub fn new(machine: &dyn Machine, process: &dyn Process) -> Result<Self> {
        let mapped = process.mappings()?.iter().map(|mapping| mapping.range).collect();
        let set = PageSet::new(machine.page_bytes());
        Ok(Self { mapped, set, counts: ListCounts::default() })
    }

    /// Adds an address.
    pub fn add(&mut self, address: u64) {
        let behind = self.mapped.partition_point(|range| range.end <= address);
        let is_mapped = self.mapped.get(behind).is_some_and(|range| range.start <= address);
        let is_new = is_mapped.then(|| self.set.insert(address));
        self.counts.record(is_new);
    }

    /// Returns the pages, and the counts of the entries.
    pub fn finish(self) -> (PageSet, ListCounts) {
        (self.set, self.counts)
    }
}

/// A list of physical addresses, kept as a bit for each frame of the machine.
#[derive(Debug)]
pub struct PhysicalList {
    page_bytes: u64,
    method: SurveyMethod,
    frames: FrameSet,
    counts: ListCounts,
}

impl PhysicalList {
    /// An empty list.
    ///
    /// # Errors
    /// `Unsupported` if frame numbers are hidden from this process.
    pub fn new(machine: &dyn Machine) -> Result<Self> {
        let end = machine.frames_end().ok_or_else(|| Error::Unsupported {
            action: "finding pages by physical addresses",
            reason: "frame numbers are hidden from us; run with CAP_SYS_ADMIN".to_owned(),
        })?;
        let frames = FrameSet::new(end);
        let method = SurveyMethod::of(machine);
        let counts = ListCounts::default();
        Ok(Self { page_bytes: machine.page_bytes(), method, frames, counts })
    }

    /// Adds an address.
    pub fn add(&mut self, address: u64) {
        let is_new = self.frames.insert(address / self.page_bytes);
        self.counts.record(is_new);
    }

    /// Finds the pages in one walk of the process's page map, however long the list is. A frame
    /// that is mapped twice is found once.
    ///
    /// # Errors
    /// If the process is gone or cannot be read.
    pub fn find(mut self, process: &dyn Process) -> Result<(PageSet, ListCounts)> {
        let scope = SurveyScope {
            process,
            index: 0,
            selection: &Selection::default(),
            orders: &[crate::MoveOrder::default()].into(),
            page_bytes: self.page_bytes,
            workers: 1,
            method: self.method,
            is_over: &never,
        };
        let mut set = PageSet::new(self.page_bytes);
        let mut frames = Vec::new();
        for (_, range) in units(&scope)?.iter().flat_map(|unit| &unit.pieces) {
            frames.clear();
            process.frames(*range, &mut frames)?;
            for (address, frame) in (range.start..).step_by(self.page_bytes as usize).zip(&frames) {
                if frame.is_some_and(|frame| self.frames.remove(frame)) {
                    set.insert(address);
                }
            }
        }
        self.counts.pages -= self.frames.len();
        self.counts.outside += self.frames.len();
        Ok((set, self.counts))
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{NodeId, Page, Pid};

    use super::*;

    const PAGE: u64 = 4096;

    fn stage(pages: usize) -> (FakeMachine, std::sync::Arc<dyn Process>) {
        let machine = FakeMachine::new(false);
        let pid = Pid::new(7).unwrap();
        machine.spawn(pid, FakeProcess::with_pages(&vec![Page::on(NodeId(0)); pages]));
        let process = machine.open_process(pid).unwrap();
        (machine, process)
    }

    /// Goal: every entry is counted once; memory is used only for pages that are mapped.
    #[test]
    fn virtual_addresses_are_pages_of_mappings() {
        let (machine, process) = stage(100); // pages 16 to 115
        let mut list = VirtualList::new(&machine, &*process).unwrap();
        let addresses = [16 * PAGE, 16 * PAGE + 17, 115 * PAGE, 116 * PAGE, 15 * PAGE, 0, u64::MAX];
        addresses.into_iter().for_each(|address| list.add(address));
        let (set, counts) = list.finish();
        assert_eq!(set.iter().collect::<Vec<_>>(), [16 * PAGE, 115 * PAGE]);
        assert_eq!(counts, ListCounts { pages: 2, duplicates: 1, outside: 4 });
        assert_eq!(counts.entries(), 7);
    }

    /// Goal: frames are found where they are mapped; frames of other processes, and free ones, are
    /// counted. On the fake machine a frame has the number of its page.
    #[test]
    fn physical_addresses_are_found_by_one_walk() {
        let (machine, process) = stage(10_000);
        let mut list = PhysicalList::new(&machine).unwrap();
        let frames =
            [16, 16, 5000, 10_015, 10_016, 3, machine.frames_end().unwrap(), u64::MAX / PAGE];
        frames.into_iter().for_each(|frame| list.add(frame * PAGE + 9));
        let (set, counts) = list.find(&*process).unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [16 * PAGE, 5000 * PAGE, 10_015 * PAGE]);
        assert_eq!(counts, ListCounts { pages: 3, duplicates: 1, outside: 4 });
    }
}
