//! Executes the scenario's actions on workloads while they run.

use std::collections::VecDeque;

use nodeward_model::Account;
use nodeward_scenario::{Action, ActionKind};

use crate::cpu::{CpuTimeKind, Op, TaskId};
use crate::events::SimEvent;
use crate::memory::SpaceId;
use crate::migration::{ATTEMPTS, BatchMigration, Folio, MigrationResult};
use crate::world::{TaskProgram, World};

/// Maximum number of folios that a call looks up before it moves them. It bounds the memory used
/// for the lookup, not the number of folios moved.
const COLLECT_FOLIOS: usize = 4096;

/// Result of a scenario action that moves pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveRecord {
    /// Index of the action in the scenario.
    pub action: usize,
    /// Index of the source node.
    pub from: usize,
    /// Index of the destination node.
    pub to: usize,
    /// Start time, in virtual nanoseconds.
    pub began_ns: u64,
    /// End time, in virtual nanoseconds. `None` while the action is still running.
    pub ended_ns: Option<u64>,
    /// Pages moved and skipped so far.
    pub account: Account,
    /// Time spent in each step so far, in the order of
    /// [`CpuTimeKind::ALL`](crate::task::CpuTimeKind::ALL).
    pub step_ns: [u64; CpuTimeKind::ALL.len()],
}

impl MoveRecord {
    /// Returns the base pages moved per second, so far or, after the end, in total.
    pub fn pages_per_s(&self, now_ns: u64) -> u64 {
        let ns = self.ended_ns.unwrap_or(now_ns).saturating_sub(self.began_ns).max(1);
        let pages = u128::from(self.account.moved) * 1_000_000_000 / u128::from(ns);
        u64::try_from(pages).unwrap_or(u64::MAX)
    }
}

impl World {
    /// Schedules the actions of the scenario as events.
    pub(crate) fn plan_actions(&mut self) {
        let times: Vec<_> = self.scenario().actions.iter().map(|action| action.at_ns).collect();
        for (at, index) in times.into_iter().zip(0..) {
            self.events.plan(at, SimEvent::Action(index));
        }
    }

    /// Executes one action of the scenario.
    pub(crate) fn perform_action(&mut self, index: usize) {
        let Action { workload, kind, .. } = self.scenario().actions[index].clone();
        let is_meant = |&space: &SpaceId| {
            let entry = &self.spaces[space];
            entry.name == workload && !entry.ended && !self.is_child(space)
        };
        let spaces: VecDeque<_> = (0..self.spaces.len()).filter(is_meant).collect();
        match kind {
            ActionKind::Migrate { from, to, times } => {
                let nodes = [from, to].map(|node| self.machine.index_of(node));
                if let [Some(from), Some(to)] = nodes {
                    self.start_migratepages(index, &spaces, (from, to), times);
                }
            }
            ActionKind::MigrateOnFault => {
                self.start_make_lazy(spaces);
            }
            ActionKind::Home { to } => {
                let home = self.machine.index_of(to);
                let tasks = spaces.iter().flat_map(|&space| self.spaces[space].tasks.clone());
                for task in tasks.collect::<Vec<_>>() {
                    self.set_home(task, home);
                }
            }
            ActionKind::Kill => spaces.into_iter().for_each(|space| self.kill_process(space)),
            ActionKind::Fork { for_ns } => self.fork_all(spaces, for_ns),
            ActionKind::Freeze { for_ns } => self.freeze_all(&spaces, for_ns),
            _ => self.perform_hotplug(index, &kind),
        }
    }

    /// Starts a kernel thread that marks processes for migrate-on-fault.
    pub(crate) fn start_make_lazy(&mut self, spaces: VecDeque<SpaceId>) {
        self.start_kernel_task(None, Box::new(MakeLazy { spaces }));
    }

    fn start_migratepages(
        &mut self,
        action: usize,
        spaces: &VecDeque<SpaceId>,
        (from, to): (usize, usize),
        times: u32,
    ) {
        let program = Migratepages {
            action,
            spaces: spaces.clone(),
            direction: (from, to),
            trips_left: times,
            move_record: None,
            walk: None,
            processes_left: VecDeque::new(),
        };
        self.start_kernel_task(None, Box::new(program));
    }
}

/// Program that moves processes one after the other, as `migratepages` does.
struct Migratepages {
    action: usize,
    spaces: VecDeque<SpaceId>,
    /// Source and destination node of the present way, by index.
    direction: (usize, usize),
    /// Remaining ways there or back, including the present one.
    trips_left: u32,
    /// Index of the record in [`World::migration_pages`].
    move_record: Option<usize>,
    walk: Option<ProcessMigration>,
    /// Processes that still have to move on this way.
    processes_left: VecDeque<SpaceId>,
}

/// Progress of moving one process.
pub struct ProcessMigration {
    space: SpaceId,
    region: usize,
    page: u64,
    migration: BatchMigration,
    /// Time of the last lookup of folios, in virtual nanoseconds.
    collected_at_ns: Option<u64>,
    /// Result of the folios that were looked up before.
    result: Option<MigrationResult>,
}

impl ProcessMigration {
    /// Creates a walk over all pages of a process, to a destination node.
    pub fn new(space: SpaceId, to: usize) -> Self {
        let drive = BatchMigration::new(space, to, ATTEMPTS);
        Self { space, region: 0, page: 0, migration: drive, collected_at_ns: None, result: None }
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

impl Migratepages {
    /// Adds the result since the last call to the record.
    fn record_progress(&mut self, world: &mut World) {
        let (Some(walk), Some(record)) = (&mut self.walk, self.move_record) else { return };
        let Some(moved) = walk.result.take() else { return };
        let record = &mut world.moves[record];
        record.account.add(&moved.account);
        let sums = record.step_ns.iter_mut().zip(moved.step_ns);
        sums.for_each(|(sum, ns)| *sum += ns);
    }

    /// Begins the next process or the way back. Returns `false` at the end.
    fn advance(&mut self, world: &mut World) -> bool {
        self.walk = None;
        loop {
            if self.trips_left == 0 {
                return false;
            }
            let (from, to) = self.direction;
            if self.move_record.is_none() {
                self.processes_left = self.spaces.clone();
                self.move_record = Some(world.moves.len());
                world.moves.push(MoveRecord {
                    action: self.action,
                    from,
                    to,
                    began_ns: world.now_ns,
                    ended_ns: None,
                    account: Account::default(),
                    step_ns: [0; CpuTimeKind::ALL.len()],
                });
            }
            if let Some(space) = self.processes_left.pop_front() {
                self.walk = Some(ProcessMigration::new(space, to));
                return true;
            }
            if let Some(record) = self.move_record.take() {
                world.moves[record].ended_ns = Some(world.now_ns);
            }
            self.direction = (to, from);
            self.trips_left -= 1;
        }
    }
}

impl TaskProgram for Migratepages {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        loop {
            if let Some(walk) = &mut self.walk {
                let op = walk.next(world, task, self.direction.0);
                self.record_progress(world);
                if let Some(op) = op {
                    return op;
                }
            }
            if !self.advance(world) {
                return Op::Exit;
            }
            let call_ns = world.machine.params.move_call_ns;
            if call_ns > 0 {
                if let Some(record) = self.move_record {
                    world.moves[record].step_ns[CpuTimeKind::Kernel as usize] += call_ns;
                }
                return Op::Busy(CpuTimeKind::Kernel, call_ns);
            }
        }
    }
}

/// Program that marks processes for migrate-on-fault, one after the other.
struct MakeLazy {
    spaces: VecDeque<SpaceId>,
}

impl TaskProgram for MakeLazy {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let Some(space) = self.spaces.pop_front() else { return Op::Exit };
        let cpu = world.tasks[task as usize].cpu;
        let ns = world.make_lazy(cpu, space);
        Op::Busy(CpuTimeKind::Unmap, ns)
    }
}
