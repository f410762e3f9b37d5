//! Pages that are marked to move to the node of the next access (migrate-on-fault).
//!
//! Their entries are cleared once, with one flush.

use std::collections::VecDeque;

use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

impl World {
    /// Starts a kernel thread that marks processes for migrate-on-fault.
    pub(crate) fn start_make_lazy(&mut self, spaces: VecDeque<SpaceId>) {
        self.start_kernel_task(None, Box::new(MakeLazy { spaces }));
    }

    /// Marks all pages of a space for migrate-on-fault. Returns the time that takes, in
    /// nanoseconds.
    pub(crate) fn make_lazy(&mut self, cpu: usize, space: SpaceId) -> u64 {
        let mut marked = 0;
        for region in &mut self.spaces[space].regions {
            let mut page = 0;
            while page < region.pages {
                let (byte, alike) = region.uniform_run(page, region.pages);
                if byte.node().is_some() && !byte.is_in_flight() {
                    marked += if region.is_huge(page) { 1 } else { alike };
                    region.set(page..page + alike, byte.lazy());
                }
                page += alike;
            }
        }
        let unmap_ns = marked.saturating_mul(self.machine.params.unmap_page_ns);
        unmap_ns.saturating_add(self.shoot_down_tlb(cpu, space, marked))
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
