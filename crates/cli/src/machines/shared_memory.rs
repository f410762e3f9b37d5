//! Memory that the processes of a move share: segments of shared memory, which are moved whole,
//! including pages that no process maps; and the total of all memory, with each page counted once.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_linux::file_cache::{MappedBatches, check_kernel};
use nodeward_linux::segments::SharedSegments;
use nodeward_machine::Process;
use nodeward_model::units::format_bytes;
use nodeward_model::{MappingKind, NodePairs, Topology};
use nodeward_mover::{DistinctPages, MoveControl, Selection};

use super::page_cache_move::{PageCacheMove, this_process};
use crate::results::NodePageCounts;
use crate::settings::MoveSettings;

/// Memory that processes of this machine share.
pub struct SharedMemory {
    /// The process that maps the segments to move them.
    this_process: Arc<dyn Process>,
    topology: Topology,
    pairs: NodePairs,
    paths: Vec<PathBuf>,
    /// Keeps the segments open.
    _segments: SharedSegments,
}

impl SharedMemory {
    /// Finds it. `None` if a single process shares nothing, or if only a part of the mapped memory
    /// is selected.
    pub fn find(
        processes: &[Arc<dyn Process>],
        selection: &Selection,
        (topology, pairs): (&Topology, &NodePairs),
        live: &MoveControl,
    ) -> Result<Option<Self>> {
        let whole = selection.ranges.is_empty() && selection.kinds.contains(&MappingKind::Shared);
        let mut segments = match whole && check_kernel().is_ok() {
            true => {
                let processes = processes.iter().take_while(|_| !live.is_stopped());
                SharedSegments::mapped_by(processes.map(|process| &**process))
            }
            false => SharedSegments::default(),
        };
        if segments.denied > 0 {
            say!(
                "nodeward: of shared segments only what these processes map is moved; to move them \
                 whole needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE"
            );
        }
        leave_out_large(&mut segments, selection.shared_bytes_max);
        let paths = segments.paths();
        if processes.len() < 2 && paths.is_empty() {
            return Ok(None);
        }
        let us = this_process(&Linux::open())?;
        let (topology, pairs) = (topology.clone(), pairs.clone());
        Ok(Some(Self { this_process: us, topology, pairs, paths, _segments: segments }))
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> usize {
        self.paths.len()
    }

    /// Counts the memory of processes and all of the segments. `None` without the privilege to see
    /// frames, if stopped early, or if some pages are in addresses without end.
    pub fn count(
        &self,
        processes: &[Arc<dyn Process>],
        selection: &Selection,
        live: &MoveControl,
    ) -> Option<NodePageCounts> {
        let mut distinct = DistinctPages::new(&Linux::open());
        let mut add = |process: &dyn Process, selection: &Selection| {
            distinct.add(process, selection, live).is_ok_and(|is_whole| is_whole).then_some(())
        };
        for process in processes {
            add(&**process, selection)?;
        }
        let mut batches = MappedBatches::new(self.paths.clone());
        while let Some(batch) = batches.next_batch(|| live.is_stopped()) {
            let mapped = Selection { ranges: batch.ranges(), ..Selection::default() };
            add(&*self.this_process, &mapped)?;
        }
        (!live.is_stopped()).then(|| distinct.into_nodes())
    }

    /// Returns a job for the segments, to move or to plan.
    pub fn segments_move<'a>(&'a self, settings: &'a MoveSettings) -> PageCacheMove<'a> {
        let (topology, pairs) = (self.topology.clone(), self.pairs.clone());
        PageCacheMove::new(Arc::clone(&self.this_process), topology, pairs, settings, &self.paths)
    }
}

fn leave_out_large(segments: &mut SharedSegments, bytes_max: Option<u64>) {
    let Some(bytes_max) = bytes_max else { return };
    let left = segments.leave_out_above(bytes_max);
    if left > 0 {
        let limit = format_bytes(bytes_max);
        say!("nodeward: {left} shared segments are larger than {limit} and not moved whole");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use nodeward_linux::own_process::{AreaBacking, MappedArea, fork_idle};
    use nodeward_machine::Machine;
    use nodeward_model::{Pid, Range};

    use super::*;

    /// Goal: pages that a parent and its child share count once: 8 MiB are 2048 pages of 4 KiB,
    /// however many processes map them.
    #[test]
    fn what_two_processes_share_counts_once() {
        let machine = Linux::open();
        if !machine.capabilities().frame_numbers {
            println!("skipped: this user does not see frame numbers");
            return;
        }
        let area = MappedArea::map(8 << 20, AreaBacking::Anonymous).unwrap();
        area.words().iter().step_by(512).for_each(|word| word.store(7, Relaxed));
        let child = fork_idle(60).unwrap();
        let range = Range::new(area.address(), area.address() + area.bytes() as u64);
        let selection = Selection { ranges: vec![range], ..Selection::default() };
        let mut distinct = DistinctPages::new(&machine);
        let live = MoveControl::default();
        for pid in [Pid::new(std::process::id()).unwrap(), child] {
            let process = machine.open_process(pid).unwrap();
            assert!(distinct.add(&*process, &selection, &live).unwrap());
        }
        let pages: u64 = distinct.into_nodes().values().sum();
        assert_eq!(pages, (8 << 20) / machine.page_bytes());
        let child = rustix::process::Pid::from_raw(child.number().cast_signed()).unwrap();
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
    }
}
