//! Page placement: the stage of a round that reads access counts, and begins moves of single pages
//! of spread processes to the nodes that use them.

use std::collections::BTreeMap;

use nodeward_machine::{AccessBatch, Error, Machine, Result};
use nodeward_model::Pid;
use nodeward_policy::hot::MissCosts;
use nodeward_policy::placement::{Decision, EntityId, Numbers, Plan};

use super::Balancer;
use super::cpu_budget::Activity;
use super::pending::PendingMove;
use super::range_order::{PageMove, SpreadProcess};
use super::report::Notice;
use super::round_state::RoundState;
use super::settings::AccessChoice;
use super::thread_homes::ThreadHomes;

/// Too many threads of a process are away if it is more than one in so many.
const ASTRAY_PART: u64 = 4;

impl Balancer {
    /// Enters the accesses to pages of spread processes, if the machine counts them, and begins the
    /// moves that they confirm.
    pub(super) fn place_pages(
        &mut self,
        machine: &dyn Machine,
        plan: &Plan,
        state: &mut RoundState,
    ) {
        let may_move = self.settings.rules.move_memory;
        let wanting = plan.decisions.iter().filter(|decision| decision.counts_wanted && may_move);
        let wanting: BTreeMap<EntityId, &Decision> =
            wanting.map(|decision| (decision.entity, decision)).collect();
        self.counts.keep(|entity| wanting.contains_key(&entity));
        self.processes
            .iter_mut()
            .filter(|(_, process)| !wanting.contains_key(&process.entity))
            .for_each(|(_, process)| process.thread_homes = ThreadHomes::default());
        self.observe(machine, &wanting);
        let Some(batch) = self.observer.take() else {
            self.counts.keep(|_| false);
            state.notices.extend(self.miss_source(&wanting));
            return;
        };
        self.count(&batch, &wanting);
        self.meter.lap(machine, Activity::Observing);
        for (&entity, decision) in &wanting {
            self.see_thread_homes(entity);
            let moves = self.page_moves(machine, decision, plan);
            let took_ns = self.meter.lap(machine, Activity::Looking);
            self.budget.spend(took_ns);
            match moves {
                Ok(moves) => {
                    let pending = |(order, ranges)| PendingMove::new(order, Some(ranges));
                    self.pending.extend(moves.into_iter().map(pending));
                }
                Err(error) => state.notices.extend(self.went_wrong(entity, error)),
            }
        }
    }

    /// Observes the processes whose pages are to be placed, and no others, at the rate that the
    /// shortest of their periods needs.
    fn observe(&mut self, machine: &dyn Machine, wanting: &BTreeMap<EntityId, &Decision>) {
        let pid = |entity: &EntityId| Some(self.processes.key(*entity)?.0);
        let mut pids: Vec<Pid> = wanting.keys().filter_map(pid).collect();
        pids.sort_unstable();
        let period_ns = self.counts.period_ns_min();
        self.observer.observe(machine, self.settings.access, pids, period_ns);
    }

    /// Returns the notice about processes that no source observes, of those of which it was not
    /// given before.
    fn miss_source(&mut self, wanting: &BTreeMap<EntityId, &Decision>) -> Option<Notice> {
        if self.settings.access == AccessChoice::Off {
            return None; // as the user wants it
        }
        let obstacle = self.observer.failure()?.to_owned();
        let mut pids = Vec::new();
        for ((pid, _), process) in self.processes.iter_mut() {
            if wanting.contains_key(&process.entity) && !process.told_no_source {
                process.told_no_source = true;
                pids.push(pid);
            }
        }
        (!pids.is_empty()).then_some(Notice::NoAccessSource { pids, obstacle })
    }

    /// Adds accesses to the counts of the processes that own the pages. Accesses from before the
    /// counts began are dropped, because their time is unknown.
    fn count(&mut self, batch: &AccessBatch, wanting: &BTreeMap<EntityId, &Decision>) {
        let pid = |entity: &EntityId| Some((self.processes.key(*entity)?.0, *entity));
        let entities: BTreeMap<Pid, EntityId> = wanting.keys().filter_map(pid).collect();
        self.counts.set_tick(batch.sample_ns);
        for sample in &batch.samples {
            let from = sample.access.accessor.node(|cpu| self.nodes.node_of(cpu));
            if let (Some(&entity), Some(from)) = (entities.get(&sample.pid), from) {
                self.counts.add(entity, sample.access, from);
            }
        }
    }

    /// Returns the moves of single pages of a process, by its counts.
    fn page_moves(
        &mut self,
        machine: &dyn Machine,
        decision: &Decision,
        plan: &Plan,
    ) -> Result<Vec<PageMove>> {
        let entity = decision.entity;
        let (at_ns, page_bytes) = (machine.now_ns(), machine.page_bytes());
        let (Some(key), Some(home)) = (self.processes.key(entity), plan.homes.get(&entity)) else {
            return Ok(Vec::new());
        };
        let rules = self.rules();
        let (page_ns, memory_bound_ppm) = (rules.page_ns, rules.memory_bound_ppm);
        let is_moving = self.is_moving_whole(entity, plan);
        let is_astray = self.is_astray(decision);
        let counts = self.counts.of(entity, at_ns, page_bytes);
        if is_moving || is_astray {
            counts.restart(at_ns, page_bytes);
        }
        if !counts.is_due(at_ns) {
            return Ok(Vec::new());
        }
        let process = machine.open_process(key.0)?;
        if process.identity()?.started_ticks != key.1 {
            return Err(Error::Gone(key.0));
        }
        let nodes = home.thread_nodes();
        let costs = MissCosts::typical(self.nodes.distances().cloned(), page_ns);
        let Numbers { horizon_ns, room_pages: pages_max, .. } = decision.numbers;
        let process = &*process;
        let nodes = &nodes;
        let spread = SpreadProcess {
            entity,
            process,
            nodes,
            horizon_ns,
            pages_max,
            costs,
            memory_bound_ppm,
        };
        counts.place(machine, &spread, at_ns)
    }

    /// Returns whether all misplaced memory of an entity is being moved home.
    fn is_moving_whole(&self, entity: EntityId, plan: &Plan) -> bool {
        let is_whole = |one: &PendingMove| one.entity() == entity && !one.is_of_pages();
        let is_planned = || plan.moves.iter().any(|order| order.entity == entity);
        self.pending.iter().any(is_whole) || is_planned()
    }

    /// Returns whether so many busy threads of a process are away from their nodes that present
    /// accesses say little about future ones.
    fn is_astray(&mut self, decision: &Decision) -> bool {
        let least_ppm = u64::from(self.settings.rules.nudge_ppm_min);
        let process = self.processes.by_number(decision.entity);
        let threads = process.iter().flat_map(|process| process.threads());
        let busy = threads.filter(|(_, load)| load.wanted_ppm() >= least_ppm).count();
        u64::from(decision.numbers.threads_away) * ASTRAY_PART > busy as u64
    }

    fn see_thread_homes(&mut self, entity: EntityId) {
        let Some(process) = self.processes.by_number(entity) else { return };
        let Some(seen) = &process.seen else { return };
        let nodes = &self.nodes;
        let on = seen.threads.iter().filter_map(|it| Some((it.tid, nodes.node_of(it.cpu)?)));
        process.thread_homes.see(on);
    }

    fn went_wrong(&mut self, entity: EntityId, error: Error) -> Option<Notice> {
        let key = self.processes.key(entity)?;
        self.processes.get_mut(key)?.went_wrong(key, error)
    }
}
