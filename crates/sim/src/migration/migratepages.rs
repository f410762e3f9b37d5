//! Moves of processes between two nodes, one process after the other, as `migratepages` does.

use std::collections::VecDeque;

use nodeward_model::Account;

use super::process_migration::ProcessMigration;
use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::statistics::{CpuTimeKind, MoveRecord};
use crate::world::{TaskProgram, World};

impl World {
    pub(crate) fn start_migratepages(
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
    /// Index of the record in [`World::moves`].
    move_record: Option<usize>,
    walk: Option<ProcessMigration>,
    /// Processes that still have to move on this way.
    processes_left: VecDeque<SpaceId>,
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
