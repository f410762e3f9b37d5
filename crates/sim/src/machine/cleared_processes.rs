//! The processes whose soft-dirty bits a source clears, each in rounds.

use std::collections::BTreeMap;
use std::time::Duration;

use nodeward_machine::{CLEAR_STALL_NS_MAX, ClearSchedule, Error, Result};
use nodeward_model::Pid;

use crate::ids::SpaceId;
use crate::world::World;

/// The wanted processes, and those that were.
#[derive(Default)]
pub struct ClearedProcesses {
    wanted: Vec<Pid>,
    schedules: BTreeMap<Pid, ClearSchedule>,
}

impl ClearedProcesses {
    /// Clears the bits of these processes from now on, and of no others. Returns the CPU time that
    /// it took, in nanoseconds.
    ///
    /// # Errors
    /// `Unsupported` if each of them would stand still for too long.
    pub fn observe(&mut self, world: &mut World, pids: &[Pid]) -> Result<u64> {
        let running = |&pid: &Pid| Some((pid, running_space(world, pid)?));
        let running: Vec<(Pid, SpaceId)> = pids.iter().filter_map(running).collect();
        let fits = |space| world.clear_soft_dirty_ns(space) <= CLEAR_STALL_NS_MAX;
        let fitting = running.iter().filter(|(_, space)| fits(*space));
        self.wanted = fitting.map(|(pid, _)| *pid).collect();
        if self.wanted.is_empty() && !running.is_empty() {
            return Err(Error::Unsupported {
                action: "observing writes",
                reason: "the process has so many pages that it would stand still for over 20 ms"
                    .to_owned(),
            });
        }
        Ok(self.clear(world))
    }

    /// Begins the rounds that are due. Returns the CPU time that it took, in nanoseconds.
    pub fn clear(&mut self, world: &mut World) -> u64 {
        let now = Duration::from_nanos(world.now_ns());
        let mut took_ns = 0;
        for &pid in &self.wanted {
            let schedule = self.schedules.entry(pid).or_insert_with(|| ClearSchedule::new(now));
            let Some(space) = running_space(world, pid) else { continue };
            if schedule.begins_round(now) {
                took_ns += world.clear_soft_dirty_ns(space);
                world.clear_soft_dirty(space);
            }
        }
        took_ns
    }
}

fn running_space(world: &World, pid: Pid) -> Option<SpaceId> {
    world.space_of(pid).filter(|&space| !world.spaces[space].ended)
}
