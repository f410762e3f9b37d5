//! A process of a simulated machine, as who moves its memory sees it.

use std::sync::{Arc, MutexGuard};

use nodeward_machine::{
    CallEnd, EntryStatus, Error, Life, MoveBatch, MoveOutcome, Process, Result,
};
use nodeward_model::{Identity, Mapping, MappingKind, Page, Pid, Place, Range};

use crate::call::Target;
use crate::shift::{SharedStage, Stage, Until};
use crate::space::Region;

/// A process that is held.
pub struct SimProcess {
    pub(crate) stage: Arc<SharedStage>,
    pub(crate) pid: Pid,
    pub(crate) target: Target,
}

impl SimProcess {
    fn running(&self) -> Result<MutexGuard<'_, Stage>> {
        let stage = self.stage.lock();
        match stage.world.spaces[self.target.space].ended {
            true => Err(Error::Gone(self.pid)),
            false => Ok(stage),
        }
    }

    /// What somebody sees of a page.
    fn page(&self, stage: &mut Stage, address: u64) -> Page {
        let page = self.target.page(&stage.world, address);
        stage.world.as_told(self.target.space, address, page)
    }

    fn each(&self, range: Range, mut tell: impl FnMut(Page)) -> Result<()> {
        let mut stage = self.running()?;
        let addresses = (range.start..range.end).step_by(self.target.page_bytes as usize);
        addresses.for_each(|address| tell(self.page(&mut stage, address)));
        Ok(())
    }
}

impl Process for SimProcess {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn identity(&self) -> Result<Identity> {
        let stage = self.running()?;
        Ok(Identity {
            pid: self.pid,
            name: stage.world.spaces[self.target.space].name.chars().take(15).collect(),
            boot: format!("simulated {}", stage.world.scenario().name),
            started_ticks: self.target.space as u64,
            program: 0,
        })
    }

    fn life(&self) -> Life {
        if self.running().is_ok() { Life::Running } else { Life::Exited }
    }

    fn mappings(&self) -> Result<Vec<Mapping>> {
        let stage = self.running()?;
        let mapping = |region: &Region| Mapping {
            range: Range::new(region.start, region.start + region.pages * self.target.page_bytes),
            kind: if region.shared { MappingKind::Shared } else { MappingKind::Anonymous },
            shared: region.shared,
            huge_page_bytes: None,
            path: String::new(),
        };
        Ok(stage.world.spaces[self.target.space].regions.iter().map(mapping).collect())
    }

    fn resident_bytes(&self) -> Result<u64> {
        let stage = self.running()?;
        let nodes = stage.world.machine.nodes.len();
        let counts = stage.world.spaces[self.target.space].count_all(nodes);
        Ok(counts[..nodes].iter().sum::<u64>() * self.target.page_bytes)
    }

    /// The granules that have pages.
    fn populated(&self, range: Range) -> Result<Vec<Range>> {
        let stage = self.running()?;
        let nodes = stage.world.machine.nodes.len();
        let mut found: Vec<Range> = Vec::new();
        for region in &stage.world.spaces[self.target.space].regions {
            let bytes = region.granule_pages() * self.target.page_bytes;
            for granule in 0..region.granules() {
                let mut sums = vec![0; nodes + 2];
                region.count(granule..granule + 1, &mut sums);
                let start = region.start + granule as u64 * bytes;
                let end = (start + bytes).min(region.start + region.pages * self.target.page_bytes);
                let part = Range::new(start, end).and(range);
                let Some(part) = part.filter(|_| sums.iter().any(|&sum| sum > 0)) else { continue };
                match found.last_mut().filter(|last| last.end == part.start) {
                    Some(last) => last.end = part.end,
                    None => found.push(part),
                }
            }
        }
        Ok(found)
    }

    fn pages(&self, _mapping: &Mapping, range: Range, into: &mut Vec<Page>) -> Result<()> {
        self.each(range, |page| into.push(page))
    }

    fn places(&self, range: Range, into: &mut Vec<Place>) -> Result<()> {
        self.each(range, |page| into.push(page.place))
    }

    fn frames(&self, _range: Range, _into: &mut Vec<Option<u64>>) -> Result<()> {
        Err(Error::Denied {
            what: "reading frame numbers".to_owned(),
            need: "a simulated machine has none; name pages by their virtual addresses".to_owned(),
        })
    }

    fn locate(&self, addresses: &[u64]) -> Result<Vec<Place>> {
        let mut stage = self.running()?;
        Ok(addresses.iter().map(|&address| self.page(&mut stage, address).place).collect())
    }

    fn move_pages(&self, batch: &MoveBatch) -> Result<MoveOutcome> {
        let mut stage = self.running()?;
        // A thread that may run anywhere is on an idle CPU, or on the first.
        let cpus = 0..stage.world.layout.cpus.len();
        let idle = cpus.into_iter().find(|&cpu| stage.world.cpus[cpu].running.is_none());
        let cpu = stage.cpu().or(idle).unwrap_or(0);
        let begun = stage.world.begin_call(self.target, batch, cpu);
        drop(self.stage.wait(stage, Until::End(begun.task)));
        let lost = || MoveOutcome {
            end: CallEnd::Gone,
            status: vec![EntryStatus::Unwritten; batch.len()],
        };
        Ok(begun.outcome().unwrap_or_else(lost))
    }
}
