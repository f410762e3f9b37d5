//! A held process of the fake machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use nodeward_model::{
    AffinityOutcome, Cpumask, Mapping, MemoryPolicies, NodeId, NumaActivity, Page, PageLocation,
    Pid, ProcessIdentity, ProcessTraits, Range,
};

use super::call::FakeMovePages;
use super::lock::lock;
use super::process::{FakeProcess, FakeProcesses, PAGE_BYTES};
use super::segments;
use super::thread::FakeThread;
use crate::{
    CallEnd, CollapseOutcome, EntryStatus, Error, Liveness, MovePagesCall, MovePagesOutcome,
    PagesByMapping, Process, Result,
};

/// A held process.
#[derive(Debug)]
pub(super) struct FakeProcessHandle {
    pub(super) pid: Pid,
    pub(super) process: Arc<Mutex<FakeProcess>>,
    /// All processes of the machine.
    pub(super) processes: Arc<FakeProcesses>,
    pub(super) clock_ns: Arc<Mutex<u64>>,
    pub(super) own_cpu_time_ns: Arc<Mutex<u64>>,
    pub(super) offline: Arc<Mutex<BTreeSet<NodeId>>>,
    /// The CPUs of the machine.
    pub(super) cpus: Cpumask,
}

impl FakeProcessHandle {
    fn read_pages(&self, range: Range) -> Result<Vec<Page>> {
        let mut process = self.running()?;
        process.page_reads += 1;
        let numbers = range.start / PAGE_BYTES..range.end / PAGE_BYTES;
        let took_ns = process.read_ns * (numbers.end - numbers.start);
        *lock(&self.clock_ns) += took_ns;
        *lock(&self.own_cpu_time_ns) += took_ns;
        Ok(numbers.map(|number| process.read_page(number)).collect())
    }

    fn running(&self) -> Result<MutexGuard<'_, FakeProcess>> {
        let process = lock(&self.process);
        if process.liveness() == Liveness::Running {
            Ok(process)
        } else {
            Err(Error::Gone(self.pid))
        }
    }
}

impl Process for FakeProcessHandle {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn identity(&self) -> Result<ProcessIdentity> {
        self.running().map(|process| ProcessIdentity {
            pid: self.pid,
            name: process.name(),
            boot_id: "paper".to_owned(),
            started_ticks: process.started_ticks,
            auxv_checksum: 0,
        })
    }

    fn liveness(&self) -> Liveness {
        lock(&self.process).liveness()
    }

    fn mappings(&self) -> Result<Vec<Mapping>> {
        Ok(self.running()?.mappings.clone())
    }

    fn traits(&self) -> Result<ProcessTraits> {
        let process = self.running()?;
        let named = |(&tid, thread): (&u32, &FakeThread)| match thread.name.is_empty() {
            true => (tid, process.name()),
            false => (tid, thread.name.clone()),
        };
        Ok(ProcessTraits {
            user: Some(process.user),
            cgroup: process.cgroup.clone(),
            executable: process.executable.clone(),
            threads: process.threads.iter().map(named).collect(),
        })
    }

    fn resident_bytes(&self) -> Result<u64> {
        Ok(self.running()?.residency().values().sum::<u64>() * PAGE_BYTES)
    }

    fn pinned_bytes(&self) -> Result<u64> {
        Ok(self.running()?.pinned_bytes)
    }

    fn populated(&self, range: Range) -> Result<Vec<Range>> {
        self.running().map(|_| vec![range])
    }

    fn pages_by_mapping(&self) -> Result<Option<PagesByMapping>> {
        let process = self.running()?;
        let of = |mapping: &Mapping| {
            let numbers = mapping.range.start / PAGE_BYTES..mapping.range.end / PAGE_BYTES;
            let mut counts = BTreeMap::new();
            for node in process.pages.range(numbers).filter_map(|(_, page)| page.node()) {
                *counts.entry(node).or_default() += 1;
            }
            (mapping.range, counts)
        };
        Ok(Some(process.mappings.iter().map(of).collect()))
    }

    fn pages(&self, _mapping: &Mapping, range: Range, into: &mut Vec<Page>) -> Result<()> {
        into.extend(self.read_pages(range)?);
        Ok(())
    }

    fn locations(&self, range: Range, into: &mut Vec<PageLocation>) -> Result<()> {
        into.extend(self.read_pages(range)?.iter().map(|page| page.location));
        Ok(())
    }

    /// On the fake machine, the frame of a page has the page's own number.
    fn frames(&self, range: Range, into: &mut Vec<Option<u64>>) -> Result<()> {
        let numbers = range.start / PAGE_BYTES..range.end / PAGE_BYTES;
        into.extend(numbers.zip(self.read_pages(range)?).map(|(n, page)| page.node().map(|_| n)));
        Ok(())
    }

    fn locate(&self, addresses: &[u64]) -> Result<Vec<PageLocation>> {
        let mut process = self.running()?;
        process.page_reads += 1;
        let took_ns = process.locate_ns * addresses.len() as u64;
        *lock(&self.clock_ns) += took_ns;
        *lock(&self.own_cpu_time_ns) += took_ns;
        Ok(addresses.iter().map(|&address| process.page(address).location).collect())
    }

    fn move_pages(&self, batch: &MovePagesCall) -> Result<MovePagesOutcome> {
        let mut process = self.running()?;
        let leaving = std::mem::take(&mut process.in_flight_on_call);
        process.in_flight.extend(leaving);
        let vanishing = std::mem::take(&mut process.unmapped_on_call);
        process.pages.retain(|number, _| !vanishing.contains(number));
        let forbidden = process.forbidden_nodes.clone();
        process.forbidden_nodes.extend(lock(&self.offline).iter());
        let (end, mut status) = FakeMovePages::execute(&mut process, batch);
        process.forbidden_nodes = forbidden;
        status.resize(batch.len(), EntryStatus::Unwritten);
        *lock(&self.clock_ns) += 1000 * batch.len() as u64;
        *lock(&self.own_cpu_time_ns) += process.move_ns * batch.len() as u64;
        process.calls += 1;
        let end = if process.liveness() == Liveness::Running { end } else { CallEnd::Gone };
        let moved = process.segment_pages(batch.addresses());
        drop(process);
        segments::follow(&self.processes, &self.process, &moved);
        Ok(MovePagesOutcome { end, status })
    }

    fn migrate_pages(&self, from: NodeId, to: NodeId) -> Result<CallEnd> {
        let mut process = self.running()?;
        process.walks += 1;
        Ok(process.move_all(from, to))
    }

    fn collapse(&self, part: Range) -> Result<CollapseOutcome> {
        Ok(self.running()?.collapse(part))
    }

    fn split_folio(&self, folio: Range) -> Result<bool> {
        Ok(self.running()?.split_folio(folio))
    }

    fn memory_policies(&self) -> Result<MemoryPolicies> {
        let mut process = self.running()?;
        process.page_reads += 1;
        Ok(process.memory_policies.clone())
    }

    fn nudge(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        Ok(self.running()?.set_affinity(tid, cpus, None))
    }

    fn pin(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        Ok(self.running()?.set_affinity(tid, cpus, Some(&self.cpus)))
    }

    fn numa_activity(&self, tid: u32) -> Result<Option<NumaActivity>> {
        let mut process = self.running()?;
        process.numa_activity_reads += 1;
        let thread = process.threads.get(&tid).ok_or(Error::Gone(self.pid))?;
        Ok(thread.numa_activity)
    }
}
