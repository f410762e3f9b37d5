//! A move of all pages of a process that are on one node.

use super::batch_migration::BatchMigration;
use super::outcome::{ATTEMPTS, MigrationResult};
use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::memory::Folio;
use crate::statistics::CpuTimeKind;
use crate::world::World;

/// Maximum number of folios that a call looks up before it moves them. It bounds the memory used
/// for the lookup, not the number of folios moved.
const COLLECT_FOLIOS: usize = 4096;

/// Progress of moving one process.
pub struct ProcessMigration {
    space: SpaceId,
    region: usize,
    page: u64,
    migration: BatchMigration,
    /// Time of the last lookup of folios, in virtual nanoseconds.
    collected_at_ns: Option<u64>,
    /// Result of the folios that were looked up before.
    pub result: Option<MigrationResult>,
}

impl ProcessMigration {
    /// Creates a walk over all pages of a process, to a destination node.
    pub fn new(space: SpaceId, to: usize) -> Self {
        let migration = BatchMigration::new(space, to, ATTEMPTS);
        Self { space, region: 0, page: 0, migration, collected_at_ns: None, result: None }
    }

    /// Returns the next step for the pages that are on node `from`. `None` at the end of the
    /// process.
    pub fn next(&mut self, world: &mut World, task: TaskId, from: usize) -> Option<Op> {
        loop {
            if let Some(op) = self.migration.next(world, task) {
                return Some(op);
            }
            if self.collected_at_ns.replace(world.now_ns) == Some(world.now_ns) {
                // All stayed, which costs nothing here.
                return Some(Op::Busy(CpuTimeKind::Kernel, 1));
            }
            let folios = self.collect_folios(world, from);
            self.result.get_or_insert_default().add(&self.migration.take_result());
            if folios.is_empty() {
                return None;
            }
            self.migration.add(folios);
        }
    }

    /// Returns the next folios that are on node `from`.
    fn collect_folios(&mut self, world: &World, from: usize) -> Vec<Folio> {
        let mut folios = Vec::new();
        while let Some(region) = world.spaces[self.space].regions.get(self.region) {
            while self.page < region.pages {
                if folios.len() == COLLECT_FOLIOS {
                    return folios;
                }
                let page = self.page;
                if region.page(page).node() != Some(from) {
                    self.page = page + region.uniform_run(page, region.pages).1;
                    continue;
                }
                let pages = region.folio(page);
                self.page = pages.end;
                folios.push(Folio { region: self.region, pages });
            }
            (self.region, self.page) = (self.region + 1, 0);
        }
        folios
    }
}
