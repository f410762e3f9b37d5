//! Samples of what threads do, by time: a timer interrupts each CPU, and the registers of the
//! interrupted thread tell the address of the access that it waits for.
//!
//! A slow access is interrupted more often than a fast one. So remote memory is seen more often
//! than it is used, as on real machines.

use nodeward_machine::AccessSourceKind;
use nodeward_model::{Access, AccessKind, AccessSample, Accessor, Pid};
use nodeward_policy::sampling::SplitMix64;

use super::line_time::HitRates;
use crate::cpu::{LineAccess, Op, TurnWork};
use crate::ids::SpaceId;
use crate::statistics::{CpuTimeKind, OpenAccessSource};
use crate::world::World;

/// What a sample costs the thread that is interrupted: 1000 a second took 3 % in a virtual machine.
const INTERRUPT_NS: u64 = 30_000;
/// Pages that are drawn until one is taken; if none is, it is the last one.
const DRAWS_MAX: u32 = 32;

/// A turn of a thread through memory.
struct SampledTurn {
    cpu: usize,
    process: SpaceId,
    pid: Pid,
    tid: u32,
    lines: LineAccess,
    rates: HitRates,
}

impl World {
    /// Lets sources that sample by time see the turn of a CPU that ends now. They see no kernel.
    pub(crate) fn sample_turn(&mut self, cpu: usize) {
        if self.access_observers.is_empty() {
            return;
        }
        let entry = &self.cpus[cpu];
        let (Some(work), Some(task)) = (entry.turn_work, entry.running) else { return };
        let began_ns = entry.turn_began_ns;
        let entry = &self.tasks[task as usize];
        let (Some(process), op) = (entry.space, entry.op) else { return };
        let (pid, tid) = (self.spaces[process].pid, self.tid(task));
        let mut observers = std::mem::take(&mut self.access_observers);
        for observer in observers.of(AccessSourceKind::Registers, pid) {
            let ticks = observer.ticks((cpu, self.cpus.len()), began_ns, self.now_ns);
            match (work, op) {
                (TurnWork::Busy(CpuTimeKind::User, _), _) => observer.push_without_address(ticks),
                (TurnWork::Access { hit_milli, walk_milli, .. }, Some(Op::Access(lines))) => {
                    let rates = HitRates { hit_milli, walk_milli };
                    let turn = SampledTurn { cpu, process, pid, tid, lines, rates };
                    (0..ticks).for_each(|_| self.sample_access(observer, &turn));
                }
                _ => continue,
            }
            self.charge_interrupt(cpu, ticks * INTERRUPT_NS);
        }
        self.access_observers = observers;
    }

    fn sample_access(&mut self, observer: &mut OpenAccessSource, turn: &SampledTurn) {
        if self.fault_model.sample_is_lost(self.now_ns, &mut self.counters) {
            return observer.push_lost();
        }
        let Some(address) = self.draw_address(&mut observer.rng, turn) else {
            return observer.push_without_address(1);
        };
        let writes = observer.rng.next_u64() % 1000 < u64::from(turn.lines.pattern.writes_milli);
        let accessor = Accessor::Cpu(self.layout.cpus[turn.cpu].id);
        observer.push(AccessSample {
            pid: turn.pid,
            tid: Some(turn.tid),
            kind: if writes { AccessKind::Write } else { AccessKind::Read },
            access: Access { address, accessor, count: 1 },
        });
    }

    /// Draws the address of the access that a moment of a turn meets. How likely a page is depends
    /// on how long an access to it takes.
    fn draw_address(&self, rng: &mut SplitMix64, turn: &SampledTurn) -> Option<u64> {
        let (part, params) = (turn.lines.range, &self.machine.params);
        let region = &self.spaces[part.space].regions[part.region];
        let pages = region.pages_of_granules(part.first..part.first + part.granules);
        let count = pages.end.checked_sub(pages.start).filter(|&count| count > 0)?;
        let times = self.line_times(turn);
        let slowest = times.iter().copied().max()?;
        let mut drawn = None;
        for _ in 0..DRAWS_MAX {
            let page = pages.start + rng.next_u64() % count;
            let Some(node) = region.page(page).node() else { continue };
            drawn = Some(page);
            if rng.next_u64() % slowest < times[node] {
                break;
            }
        }
        let line = rng.next_u64() % (params.page_bytes / params.line_bytes).max(1);
        let address = self.mapped_address(turn.process, (part.space, part.region), drawn?)?;
        Some(address + line * params.line_bytes)
    }

    /// Returns the time of a line on each node's memory, in picoseconds.
    fn line_times(&self, turn: &SampledTurn) -> Vec<u64> {
        let place = &self.layout.cpus[turn.cpu];
        let miss_ps = |to| u128::from(self.traffic.latency_ps(place.complex, place.node, to));
        let line_ps = |to| self.line_ps(turn.cpu, &turn.lines.pattern, miss_ps(to), turn.rates);
        (0..self.machine.nodes.len()).map(line_ps).collect()
    }
}
