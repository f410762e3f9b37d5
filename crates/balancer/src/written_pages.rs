//! Written pages: the stage of a round that asks who writes the pages of a spread process, where
//! samples tell that its threads wait for remote memory, but not of which ranges.

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Result};
use nodeward_model::{AccessSample, NodeId};
use nodeward_policy::hot::{WrittenPages, plan_written_pages, remote_time};
use nodeward_policy::placement::{Decision, EntityId, Plan};

use super::Balancer;
use super::access_counts::Counted;
use super::cpu_budget::Activity;
use super::range_order::{ChosenMemory, PageMove, SpreadMemory, page_moves};
use super::round_state::RoundState;
use super::settings::AccessChoice;

impl Balancer {
    /// Begins rounds of write faults of a process if that may pay. They cost the process time, so a
    /// balancer that does not act asks nobody.
    pub(super) fn ask_for_writers(
        &mut self,
        machine: &dyn Machine,
        spread: &SpreadMemory,
        decision: &Decision,
    ) {
        let entity = decision.entity;
        let may_begin = self.settings.access == AccessChoice::Auto
            && self.acts()
            && self.write_rounds.may_begin(entity, machine.now_ns());
        let history =
            self.counts.get_mut(Counted::Process(entity)).and_then(|counts| counts.mixed_history());
        let (true, Some(history)) = (may_begin, history) else { return };
        let remote = remote_time(history, &spread.time_rules());
        tracing::debug!(?remote, pages = decision.numbers.pages, "several nodes use most memory");
        if remote.is_worth_faults(decision.numbers.pages) {
            self.write_rounds.begin(machine, entity, spread.process.pid());
        }
    }

    /// Enters the write faults of the process that is asked, and begins the moves that its samples
    /// confirm.
    pub(super) fn place_written_pages(
        &mut self,
        machine: &dyn Machine,
        plan: &Plan,
        wanting: &BTreeMap<EntityId, &Decision>,
        state: &mut RoundState,
    ) {
        let Some(entity) = self.enter_write_faults() else { return };
        self.meter.lap(machine, Activity::Observing);
        let is_over = self.write_rounds.present().is_some_and(|it| it.ends_round(machine.now_ns()));
        let (true, Some(decision)) = (is_over, wanting.get(&entity)) else { return };
        let moves = self.written_moves(machine, decision, plan);
        let took_ns = self.meter.lap(machine, Activity::Looking);
        self.budget.spend(took_ns);
        match moves {
            Ok(moves) => self.begin_page_moves(entity, moves),
            Err(error) => {
                self.write_rounds.end(machine.now_ns());
                state.notices.extend(self.went_wrong(entity, error));
            }
        }
    }

    /// Enters the write faults; returns the process that is asked.
    fn enter_write_faults(&mut self) -> Option<EntityId> {
        let (entity, batch) = self.write_rounds.take()?;
        let mut nodes: BTreeMap<Option<u32>, Option<NodeId>> = BTreeMap::new();
        let fault = |sample: &AccessSample| {
            let home = || self.home_of_thread(entity, sample);
            let home = *nodes.entry(sample.tid).or_insert_with(home);
            Some((sample.access.address, home.or_else(|| self.node_of_cpu(sample))?))
        };
        let faults: Vec<(u64, NodeId)> = batch.samples.iter().filter_map(fault).collect();
        self.write_rounds.present()?.writers.add(faults.into_iter());
        Some(entity)
    }

    /// Returns the moves that write faults choose and samples confirm. Ends the rounds unless
    /// another one may tell more.
    fn written_moves(
        &mut self,
        machine: &dyn Machine,
        decision: &Decision,
        plan: &Plan,
    ) -> Result<Vec<PageMove>> {
        let (entity, at_ns) = (decision.entity, machine.now_ns());
        let process = self.processes.by_number(entity);
        let are_astray = process.is_none_or(|it| it.thread_homes.are_astray());
        let spread = self.spread_process(machine, decision, plan)?;
        let counts = self.counts.get_mut(Counted::Process(entity));
        let (Some(spread), Some(counts), Some(rounds), false) =
            (spread, counts, self.write_rounds.present(), are_astray)
        else {
            self.write_rounds.end(at_ns);
            return Ok(Vec::new());
        };
        let places = spread.places(machine, rounds.writers.addresses())?;
        let place_of = |address| places.folio_at(address);
        let planned = counts.history().map_or(WrittenPages::Stay, |history| {
            plan_written_pages(history, &rounds.writers, place_of, &spread.time_rules())
        });
        let faults = rounds.writers.addresses().count() as u64;
        let is_enough = match &planned {
            WrittenPages::Unclear => false,
            WrittenPages::Stay => true,
            // A round may be too short for all pages to be written.
            WrittenPages::Move(_) => faults >= decision.numbers.pages / 4 * 3,
        };
        let page_bytes = machine.page_bytes();
        let folios = planned.into_folios();
        tracing::debug!(faults, folios = folios.len(), "a round of write faults");
        let chosen = ChosenMemory { folios, ..ChosenMemory::default() };
        let orders = counts.accept(chosen, at_ns, page_bytes);
        rounds.note(!orders.is_empty());
        if is_enough || rounds.are_all() {
            counts.begin_period(at_ns, page_bytes);
            self.write_rounds.end(at_ns);
        }
        Ok(page_moves(&orders))
    }
}
