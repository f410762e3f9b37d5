//! Hint faults: the pages that they move, and the record of the threads that touched them.

use nodeward_machine::AccessSourceKind;
use nodeward_model::{Access, AccessKind, AccessSample, Accessor, SkipReason};

use crate::cpu::{HintFault, LastCpupid, TaskNumaFaults};
use crate::ids::{SpaceId, TaskId};
use crate::memory::{Folio, PageByte};
use crate::migration::{BatchFolio, MigrationContext};
use crate::world::World;

/// Number of first scans of a thread in which pages that no other thread touched move without
/// further conditions.
const FIRST_SCANS: u32 = 4;

/// Accesses that a fault stands for. How many there are it does not tell; a page that is touched
/// once in a scan is worth its move if it is used about so often.
const FAULT_COUNT: u64 = 1000;

/// A page that was touched.
struct HintedFolio {
    folio: Folio,
    from: usize,
    /// The previous toucher, if known.
    last_cpupid: Option<LastCpupid>,
    /// Whether it was to move.
    wanted: bool,
}

impl World {
    /// Handles faults on these folios by a thread, on its node. Returns the time that takes beside
    /// the faults themselves, in nanoseconds.
    pub(crate) fn handle_hint_faults(
        &mut self,
        task: TaskId,
        context: &MigrationContext,
        folios: Vec<Folio>,
    ) -> u64 {
        let me = LastCpupid { node: context.to, task_bits: task as u8 };
        let (mut touched, mut batch_folios) = (Vec::new(), Vec::new());
        let mut room = self.migration_headroom(context);
        for folio in folios {
            let node = self.spaces[context.space].folio_byte(&folio).node();
            let from = node.expect("a page that is lazy is somewhere");
            let last = self.exchange_last_cpupid(context.space, &folio, me);
            let wanted = from != context.to && self.should_migrate(task, context, from, last);
            if wanted && room > folio.len() {
                room -= folio.len();
                let huge = self.spaces[context.space].is_huge_folio(&folio);
                let (index, why) = (touched.len(), SkipReason::Refused);
                batch_folios.push(BatchFolio::new(index, folio.clone(), huge, from, why));
            } else {
                self.spaces[context.space].set_folio(&folio, PageByte::on(from));
            }
            touched.push(HintedFolio { folio, from, last_cpupid: last, wanted });
        }
        let ns = if batch_folios.is_empty() {
            0
        } else {
            self.migrate_synchronously(context, &mut batch_folios)
        };
        self.place_when_due(task, context);
        touched.iter().for_each(|touched| self.record_hint_fault(task, context, touched));
        touched.iter().for_each(|touched| self.observe_hint_fault(task, context, &touched.folio));
        ns
    }

    /// Tells sources that see hint faults of one.
    fn observe_hint_fault(&mut self, task: TaskId, context: &MigrationContext, folio: &Folio) {
        if self.access_observers.is_empty() {
            return;
        }
        let Some(process) = self.tasks[task as usize].space else { return };
        let region = (context.space, folio.region);
        let Some(address) = self.mapped_address(process, region, folio.pages.start) else {
            return;
        };
        let (pid, tid) = (self.spaces[process].pid, self.tid(task));
        let accessor = Accessor::Cpu(self.layout.cpus[context.cpu].id);
        for observer in self.access_observers.of(AccessSourceKind::Faults, pid) {
            observer.push(AccessSample {
                pid,
                tid: Some(tid),
                kind: AccessKind::Unknown,
                access: Access { address, accessor, count: FAULT_COUNT },
            });
        }
    }

    /// Returns the pages that a node can take before it is short of memory.
    fn migration_headroom(&self, context: &MigrationContext) -> u64 {
        let zone = &self.memory.zones[context.to];
        match zone.is_offline || !self.cpuset_allows(context.space, context.to) {
            true => 0,
            false => zone.free_pages.saturating_sub(zone.high_watermark),
        }
    }

    /// Returns whether a folio moves to the node of the thread that touches it
    /// (`should_numa_migrate_memory`).
    fn should_migrate(
        &self,
        task: TaskId,
        context: &MigrationContext,
        from: usize,
        last: Option<LastCpupid>,
    ) -> bool {
        let Some(numa) = self.numa_balancing.as_ref() else { return false };
        let faults = numa.faults(task);
        let is_new = faults.is_none_or(|faults| faults.is_new(FIRST_SCANS));
        let is_mine = last.is_none_or(|last| last.task_bits == task as u8);
        if is_new && is_mine {
            return true;
        }
        match last {
            Some(last) if last.node != context.to => false,
            Some(_) if !is_mine => numa.group_favors_move(task, context.space, (from, context.to)),
            _ => true,
        }
    }

    /// Records the thread that touches a folio. Returns the previous one.
    fn exchange_last_cpupid(
        &mut self,
        space: SpaceId,
        folio: &Folio,
        me: LastCpupid,
    ) -> Option<LastCpupid> {
        let pages = self.spaces[space].regions[folio.region].pages;
        let numa = self.numa_balancing.as_mut()?;
        let last = numa.last_cpupids.entry((space, folio.region)).or_default();
        last.resize(pages as usize, 0);
        let old = std::mem::replace(&mut last[folio.pages.start as usize], me.packed());
        LastCpupid::unpacked(old)
    }

    fn record_hint_fault(
        &mut self,
        task: TaskId,
        context: &MigrationContext,
        touched: &HintedFolio,
    ) {
        let HintedFolio { folio, from, last_cpupid: last, wanted } = touched;
        let is_private = last.is_none_or(|last| last.task_bits == task as u8);
        let there = self.spaces[context.space].folio_byte(folio).node().unwrap_or(*from);
        let nodes = self.machine.nodes.len();
        let Some(numa) = self.numa_balancing.as_mut() else { return };
        if !is_private {
            numa.join(context.space, task, nodes);
        }
        let is_active = |node| {
            let group = numa.groups.get(&context.space);
            group.is_some_and(|group| group.is_active(node))
        };
        let is_local =
            *from == context.to || !is_private && is_active(context.to) && is_active(there);
        let touch = HintFault {
            memory_node: there,
            cpu_node: context.to,
            is_private,
            is_local,
            moved: *wanted && there == context.to,
            failed: *wanted && there != context.to,
        };
        let faults = numa.faults.entry(task).or_insert_with(|| TaskNumaFaults::new(nodes));
        faults.record(&touch, folio.len());
    }
}
