//! A process of a simulated machine, as a mover of its memory sees it.

use std::sync::{Arc, MutexGuard};

use nodeward_machine::{
    CallEnd, EntryStatus, Error, Life, MoveBatch, MoveOutcome, Process, Result,
};
use nodeward_model::{
    Bound, Cpumask, Identity, Mapping, MappingKind, Name, Page, Pid, Place, Placed, Range,
};

use crate::call::Target;
use crate::shift::{SharedStage, Stage, Until};
use crate::space::Region;
use crate::task::CpuSet;
use crate::watching;

/// Interval of checks whether a thread has left the kernel, in virtual nanoseconds.
const KERNEL_NS: u64 = 50_000;

/// A handle on a process.
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

    /// Returns what an observer sees of a page.
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
            name: watching::name(&stage.world.spaces[self.target.space]),
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
            path: Name::default(),
        };
        Ok(stage.world.spaces[self.target.space].regions.iter().map(mapping).collect())
    }

    fn resident_bytes(&self) -> Result<u64> {
        let stage = self.running()?;
        let nodes = stage.world.machine.nodes.len();
        let counts = stage.world.spaces[self.target.space].count_all(nodes);
        Ok(counts[..nodes].iter().sum::<u64>() * self.target.page_bytes)
    }

    /// Returns the granules that have pages.
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
        let cpu = stage.own_cpu();
        let begun = stage.world.begin_call(self.target, batch, cpu);
        let mut stage = self.stage.wait(stage, Until::End(begun.task));
        stage.own_ns += stage.world.tasks[begun.task as usize].ran_ns;
        let lost = || MoveOutcome {
            end: CallEnd::Gone,
            status: vec![EntryStatus::Unwritten; batch.len()],
        };
        Ok(begun.outcome().unwrap_or_else(lost))
    }

    /// A memory policy applies to all of the process's memory.
    fn bound(&self) -> Result<Bound> {
        let stage = self.running()?;
        let regions = &stage.world.spaces[self.target.space].regions;
        let is_told = |region: &Region| region.placement.is_policy();
        Ok(Bound { whole: regions.iter().any(is_told), ranges: Vec::new() })
    }

    fn nudge(&self, tid: u32, cpus: &Cpumask) -> Result<Placed> {
        loop {
            let mut stage = self.running()?;
            let now_ns = stage.world.now_ns;
            let Some(task) = stage.world.thread(self.target.space, tid) else {
                return Ok(Placed::Gone);
            };
            let cpus = stage.world.cpu_set(cpus);
            let placed = stage.world.nudge(task, &cpus);
            if !stage.world.is_nudged(task) {
                return Ok(placed);
            }
            let stage = self.stage.wait(stage, Until::Time(now_ns + KERNEL_NS));
            if stage.world.now_ns == now_ns {
                return Ok(Placed::Done); // no caller waits any more; it completes by itself
            }
        }
    }

    fn pin(&self, tid: u32, cpus: &Cpumask) -> Result<Placed> {
        let mut stage = self.running()?;
        let (world, space) = (&mut stage.world, self.target.space);
        let Some(task) = world.thread(space, tid) else { return Ok(Placed::Gone) };
        let wanted = world.cpu_set(cpus);
        let node = |cpu: usize| world.layout.node_of(cpu);
        let may_run = |&cpu: &usize| world.is_on(cpu) && world.may_have(space, node(cpu));
        let both = CpuSet::of(wanted.iter().filter(may_run));
        if both.is_empty() {
            return Ok(Placed::NotAllowed);
        }
        world.set_allowed(task, both);
        world.confine_anew(task);
        Ok(Placed::Done)
    }
}
