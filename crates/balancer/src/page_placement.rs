//! Page placement: the part of a round that reads the access counts of the machine, and puts pages
//! of spread processes on their way to the nodes that use them.

use std::collections::BTreeMap;

use nodeward_machine::{AccessBatch, Error, Machine, Result};
use nodeward_model::Pid;
use nodeward_policy::hot::MissCosts;
use nodeward_policy::placement::{Decision, EntityId, Numbers, Plan};

use super::Balancer;
use super::access_counts::{PageMove, SpreadProcess};
use super::cpu_budget::Activity;
use super::pending::PendingMove;
use super::report::Notice;
use super::round_state::RoundState;
use super::thread_homes::ThreadHomes;

/// Threads are astray if more than one in so many is away: a quarter.
const ASTRAY_PART: u64 = 4;

impl Balancer {
    /// Takes in which node used which page of spread processes, if the machine counts that, and
    /// puts on its way what belongs elsewhere.
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
        let Some(batch) = self.observer.take() else { return };
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

    /// Observes the processes whose pages are wanted at their places, and no others: as hard as the
    /// shortest of their periods needs.
    fn observe(&mut self, machine: &dyn Machine, wanting: &BTreeMap<EntityId, &Decision>) {
        let pid = |entity: &EntityId| Some(self.processes.key(*entity)?.0);
        let mut pids: Vec<Pid> = wanting.keys().filter_map(pid).collect();
        pids.sort_unstable();
        let period_ns = self.counts.period_ns_min();
        self.observer.observe(machine, self.settings.access, pids, period_ns);
    }

    /// Adds accesses to the counts of the processes whose pages they are. What was counted before
    /// those begin is of a time that nobody knows.
    fn count(&mut self, batch: &AccessBatch, wanting: &BTreeMap<EntityId, &Decision>) {
        let pid = |entity: &EntityId| Some((self.processes.key(*entity)?.0, *entity));
        let entities: BTreeMap<Pid, EntityId> = wanting.keys().filter_map(pid).collect();
        for sample in &batch.samples {
            let from = sample.access.accessor.node(|cpu| self.nodes.node_of(cpu));
            if let (Some(&entity), Some(from)) = (entities.get(&sample.pid), from) {
                self.counts.add(entity, batch.weighed(sample.access), from);
            }
        }
    }

    /// Which pages of a process are to go where, by the counts.
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
        let page_ns = self.rules().page_ns;
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
        let spread = SpreadProcess { entity, process, nodes: &nodes, horizon_ns, pages_max, costs };
        counts.place(machine, &spread, at_ns)
    }

    /// Whether all memory of an entity that is away is on its way home.
    fn is_moving_whole(&self, entity: EntityId, plan: &Plan) -> bool {
        let is_whole = |one: &PendingMove| one.entity() == entity && !one.is_of_pages();
        let is_planned = || plan.moves.iter().any(|order| order.entity == entity);
        self.pending.iter().any(is_whole) || is_planned()
    }

    /// Whether so many of the threads of a process that do anything are away from where they belong
    /// that who uses a page now says little about who will.
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
