//! The part of a round that places pages one by one: reads the counters of the machine, and puts on
//! the way what the census says.

use std::collections::BTreeMap;

use nodeward_machine::{Error, Machine, Result};
use nodeward_model::{Access, Pid};
use nodeward_policy::hot::Costs;
use nodeward_policy::placement::{Decision, EntityId, Numbers, Plan, wanted_ppm};

use super::Balancer;
use super::act::Pending;
use super::census::{Placing, Wide};
use super::meter::For;
use super::report::News;
use super::roster::Load;
use super::round::Coming;
use super::seats::Seats;

/// Threads are astray if more than one in so many is away.
const ASTRAY_PART: u64 = 4;

impl Balancer {
    /// Takes in who used which page of the processes that are wider than a node, if the machine
    /// counts that, and puts on its way what belongs elsewhere.
    pub(super) fn count(&mut self, machine: &dyn Machine, plan: &Plan, coming: &mut Coming) {
        let may_move = self.settings.rules.move_memory;
        let wanting = plan.decisions.iter().filter(|decision| decision.counts_wanted && may_move);
        let wanting: BTreeMap<EntityId, &Decision> =
            wanting.map(|decision| (decision.entity, decision)).collect();
        self.census.keep(|entity| wanting.contains_key(&entity));
        self.roster
            .members_mut()
            .filter(|(_, member)| !wanting.contains_key(&member.entity))
            .for_each(|(_, member)| member.seats = Seats::default());
        if wanting.is_empty() {
            return;
        }
        let Some(accesses) = machine.take_accesses() else { return };
        self.enter(&accesses, &wanting);
        for (&entity, decision) in &wanting {
            self.seat_threads(entity);
            let placings = self.placings(machine, decision, plan);
            let took_ns = self.meter.lap(machine, For::Looking);
            self.allowance.spend(took_ns);
            match placings {
                Ok(placings) => {
                    let pending = |(order, ranges)| Pending::new(order, Some(ranges));
                    self.pending.extend(placings.into_iter().map(pending));
                }
                Err(error) => coming.news.extend(self.went_wrong(entity, error)),
            }
        }
    }

    /// Adds accesses to the counts of those whose pages they are. What was counted before those
    /// begin is of a time that nobody knows.
    fn enter(&mut self, accesses: &[(Pid, Access)], wanting: &BTreeMap<EntityId, &Decision>) {
        let pid = |entity: &EntityId| Some((self.roster.key(*entity)?.0, *entity));
        let entities: BTreeMap<Pid, EntityId> = wanting.keys().filter_map(pid).collect();
        for &(pid, access) in accesses {
            let from = access.by.node(|cpu| self.ground.node_of(cpu));
            if let (Some(&entity), Some(from)) = (entities.get(&pid), from) {
                self.census.add(entity, access, from);
            }
        }
    }

    /// What of a process is to go where, by the counts.
    fn placings(
        &mut self,
        machine: &dyn Machine,
        decision: &Decision,
        plan: &Plan,
    ) -> Result<Vec<Placing>> {
        let entity = decision.entity;
        let (at_ns, page_bytes) = (machine.now_ns(), machine.page_bytes());
        let (Some(key), Some(home)) = (self.roster.key(entity), plan.homes.get(&entity)) else {
            return Ok(Vec::new());
        };
        let page_ns = self.rules().page_ns;
        let moves_whole = |one: &Pending| one.entity() == entity && !one.is_of_pages();
        let is_moving = self.pending.iter().any(moves_whole)
            || plan.moves.iter().any(|order| order.entity == entity);
        let is_astray = self.is_astray(decision);
        let count = self.census.of(entity, at_ns, page_bytes);
        if is_moving || is_astray {
            count.restart(at_ns, page_bytes);
        }
        if !count.is_due(at_ns) {
            return Ok(Vec::new());
        }
        let process = machine.hold(key.0)?;
        if process.identity()?.started_ticks != key.1 {
            return Err(Error::Gone(key.0));
        }
        let nodes = home.thread_nodes();
        let costs = Costs::typical(self.ground.distances().cloned(), page_ns);
        let Numbers { horizon_ns, room_pages: pages_max, .. } = decision.numbers;
        let process = &*process;
        let wide = Wide { entity, process, nodes: &nodes, horizon_ns, pages_max, costs };
        count.place(machine, &wide, at_ns)
    }

    /// Whether so many of the threads of a process that do anything are away from where they belong
    /// that who uses a page now says little about who will.
    fn is_astray(&mut self, decision: &Decision) -> bool {
        let least_ppm = u64::from(self.settings.rules.nudge_ppm_min);
        let is_busy = |it: &&Load| wanted_ppm(it.load_ppm, it.wait_ppm) >= least_ppm;
        let member = self.roster.by_number(decision.entity);
        let busy = member.map_or(0, |it| it.loads.iter().filter(is_busy).count());
        u64::from(decision.numbers.threads_away) * ASTRAY_PART > busy as u64
    }

    fn seat_threads(&mut self, entity: EntityId) {
        let Some(member) = self.roster.by_number(entity) else { return };
        let Some(now) = &member.now else { return };
        let threads = now.threads.iter();
        let ground = &self.ground;
        member.seats.see(threads.filter_map(|it| Some((it.tid, ground.node_of(it.cpu)?))));
    }

    fn went_wrong(&mut self, entity: EntityId, error: Error) -> Option<News> {
        let key = self.roster.key(entity)?;
        self.roster.get_mut(key)?.went_wrong(key, error)
    }
}
