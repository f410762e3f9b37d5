//! Hint faults: the pages that they move, and the record of the threads that touched them.

use nodeward_model::SkipReason;

use super::placement::{HintFault, TaskNumaFaults};
use super::scan::NumaBalancing;
use crate::cpu::TaskId;
use crate::memory::{PageByte, SpaceId};
use crate::migration::{BatchFolio, Folio, MigrationContext};
use crate::world::World;

/// Number of first scans of a thread in which pages that no other thread touched move without
/// further conditions.
const FIRST_SCANS: u32 = 4;
/// A node is active if its faults times this factor exceed those of the node with most.
pub const ACTIVE_NODE_FRACTION: u64 = 3;

/// The thread that touched a page: its node and eight bits of its number, as the kernel keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastCpupid {
    node: usize,
    task_bits: u8,
}

impl LastCpupid {
    /// Packs it into 16 bits. 0 stands for none.
    fn packed(self) -> u16 {
        ((self.node as u16 + 1) << 8) | u16::from(self.task_bits)
    }

    fn unpacked(packed: u16) -> Option<Self> {
        let node = (packed >> 8).checked_sub(1)?;
        Some(Self { node: usize::from(node), task_bits: packed as u8 })
    }
}

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
        way: &MigrationContext,
        folios: Vec<Folio>,
    ) -> u64 {
        let me = LastCpupid { node: way.to, task_bits: task as u8 };
        let (mut touched, mut batch_folios) = (Vec::new(), Vec::new());
        let mut room = self.migration_headroom(way);
        for folio in folios {
            let node = self.folio_byte(way.space, &folio).node();
            let from = node.expect("a page that is lazy is somewhere");
            let last = self.exchange_last_cpupid(way.space, &folio, me);
            let wanted = from != way.to && self.should_migrate(task, way, from, last);
            if wanted && room > folio.len() {
                room -= folio.len();
                let (huge, why) = (self.is_huge_folio(way.space, &folio), SkipReason::Refused);
                let (index, flight) = (touched.len(), 0);
                let folio = folio.clone();
                batch_folios.push(BatchFolio {
                    job_index: index,
                    folio,
                    huge,
                    from,
                    unmap_number: flight,
                    skip_reason: why,
                    already_there: false,
                });
            } else {
                self.set_folio(way.space, &folio, PageByte::on(from));
            }
            touched.push(HintedFolio { folio, from, last_cpupid: last, wanted });
        }
        let ns = if batch_folios.is_empty() {
            0
        } else {
            self.migrate_synchronously(way, &mut batch_folios)
        };
        self.place_when_due(task, way);
        touched.iter().for_each(|touched| self.record_hint_fault(task, way, touched));
        ns
    }

    /// Returns the pages that a node can take before it is short of memory.
    fn migration_headroom(&self, way: &MigrationContext) -> u64 {
        let zone = &self.memory.zones[way.to];
        match zone.is_offline || !self.cpuset_allows(way.space, way.to) {
            true => 0,
            false => zone.free_pages.saturating_sub(zone.high_watermark),
        }
    }

    /// Returns whether a folio moves to the node of the thread that touches it
    /// (`should_numa_migrate_memory`).
    fn should_migrate(
        &self,
        task: TaskId,
        way: &MigrationContext,
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
            Some(last) if last.node != way.to => false,
            Some(_) if !is_mine => numa.group_favors_move(task, way, from),
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

    fn record_hint_fault(&mut self, task: TaskId, way: &MigrationContext, touched: &HintedFolio) {
        let HintedFolio { folio, from, last_cpupid: last, wanted } = touched;
        let is_private = last.is_none_or(|last| last.task_bits == task as u8);
        let there = self.folio_byte(way.space, folio).node().unwrap_or(*from);
        let nodes = self.machine.nodes.len();
        let Some(numa) = self.numa_balancing.as_mut() else { return };
        if !is_private {
            numa.join(way.space, task, nodes);
        }
        let is_active = |node| {
            let group = numa.groups.get(&way.space);
            group.is_some_and(|group| group.is_active(node))
        };
        let is_local = *from == way.to || !is_private && is_active(way.to) && is_active(there);
        let failed = *wanted && there != way.to;
        let touch =
            HintFault { memory_node: there, cpu_node: way.to, is_private, is_local, failed };
        let faults = numa.faults.entry(task).or_insert_with(|| TaskNumaFaults::new(nodes));
        faults.record(&touch, folio.len());
    }
}

impl NumaBalancing {
    /// Returns whether a page that several threads touch should move to a node, by where their
    /// faults are.
    fn group_favors_move(&self, task: TaskId, way: &MigrationContext, from: usize) -> bool {
        let member = self.faults.get(&task).filter(|faults| faults.in_group);
        let Some(group) = self.groups.get(&way.space).filter(|_| member.is_some()) else {
            return true;
        };
        let (to_cpu, from_cpu) = (group.cpu_faults(way.to), group.cpu_faults(from));
        if to_cpu > from_cpu * ACTIVE_NODE_FRACTION {
            return true;
        }
        let (to, from) = (group.memory_faults(way.to), group.memory_faults(from));
        u128::from(to_cpu) * u128::from(from) * 3 > u128::from(from_cpu) * u128::from(to) * 4
    }
}
