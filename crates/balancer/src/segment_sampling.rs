//! Looks at segments: who maps them, and where their memory is. A segment is sampled as one,
//! however many processes map it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_machine::{Error, Machine, Result};
use nodeward_model::{NodeId, SegmentId};
use nodeward_mover::MoveControl;
use nodeward_mover::residency::{self, Options};

use super::Balancer;
use super::cpu_budget::Activity;
use super::mapped_segments::{MappedSegment, mapped_segments};
use super::process_key::ProcessKey;
use super::process_table::ProcessState;
use super::residency_sample::is_same;
use super::round_state::RoundState;
use super::sampling::{RETRY_NS, SampleTime};
use super::segment_process::SegmentProcess;

/// Processes whose mappings are read in a round to find out who maps a segment, at most.
const SURVEYED_MAX: usize = 32;
/// Segments sampled in a round, at most.
const SAMPLES_MAX: usize = 16;

impl Balancer {
    /// Takes in who maps which segments, and samples some.
    pub(super) fn look_at_segments(
        &mut self,
        machine: &dyn Machine,
        live: &MoveControl,
        elapsed_ns: u64,
        state: &mut RoundState,
    ) {
        self.see_segments(elapsed_ns);
        if self.segments.is_any_known() {
            self.survey_mappers(machine);
            self.see_segments(0);
        }
        let mut is_owed = std::mem::take(&mut self.segments.is_sample_owed);
        for id in self.segments_due(machine.now_ns()) {
            if std::mem::take(&mut is_owed) || self.budget.is_left() {
                self.sample_segment(machine, live, id, state);
            } else {
                self.segments.is_sample_owed = true;
                state.sample_later += 1;
            }
        }
    }

    /// Samples segments again whose memory was moved.
    pub(super) fn verify_segments(
        &mut self,
        machine: &dyn Machine,
        live: &MoveControl,
        state: &mut RoundState,
    ) {
        let moving: Vec<_> = self.segment_moves.iter().map(|one| one.order.segment).collect();
        for (id, segment) in self.segments.iter_mut() {
            segment.is_moving = moving.contains(&id);
            segment.sampling.is_due |= state.segments_ended.contains(&id);
        }
        for id in state.segments_ended.clone() {
            self.sample_segment(machine, live, id, state);
        }
    }

    /// Of a new segment those who map it had all that they touched of it as their own.
    fn see_segments(&mut self, elapsed_ns: u64) {
        for id in self.segments.see(&self.processes, elapsed_ns) {
            for (_, process) in self.processes.iter_mut() {
                process.sample.iter_mut().for_each(|sample| sample.leave_out(id));
            }
        }
    }

    /// Reads what busy processes map that were not sampled yet, or are left out: one of them may
    /// map a segment that seems to be of others alone.
    fn survey_mappers(&mut self, machine: &dyn Machine) {
        let least = u64::from(self.settings.rules.nudge_ppm_min);
        let is_unread = |process: &ProcessState| process.mapped.is_none();
        let unread = self.processes.iter().filter(|(_, process)| is_unread(process));
        let unread = unread.map(|(key, process)| (process.wanted_ppm(), key));
        let mut busy: Vec<_> = unread.filter(|&(wanted, _)| wanted >= least).collect();
        busy.sort_by_key(|&(wanted, key)| (Reverse(wanted), key));
        for (_, key) in busy.into_iter().take(SURVEYED_MAX) {
            let mapped = mappings(machine, key).unwrap_or_default();
            if let Some(process) = self.processes.get_mut(key) {
                process.mapped = Some(mapped);
            }
        }
        let took_ns = self.meter.lap(machine, Activity::Looking);
        self.budget.spend(took_ns);
    }

    /// The segments that are to be sampled now, first those that were moved, then those that are
    /// used most. Nothing shows that others moved or filled one, so each is sampled again and
    /// again, ever more rarely while that brings nothing new.
    fn segments_due(&self, now_ns: u64) -> Vec<SegmentId> {
        let least = u64::from(self.settings.rules.nudge_ppm_min);
        let mut due: Vec<_> = self
            .segments
            .iter()
            .filter(|(_, state)| !state.is_moving && state.sampling.retry.is_over(now_ns))
            .map(|(id, state)| (!state.sampling.is_due, Reverse(state.wanted_ppm()), id))
            .filter(|&(_, Reverse(wanted), _)| wanted >= least)
            .collect();
        due.sort_unstable();
        due.into_iter().take(SAMPLES_MAX).map(|(.., id)| id).collect()
    }

    fn sample_segment(
        &mut self,
        machine: &dyn Machine,
        live: &MoveControl,
        id: SegmentId,
        state: &mut RoundState,
    ) {
        let now_ns = machine.now_ns();
        let pages = self.segment_pages(machine, live, id, state);
        state.sampled += 1;
        let took_ns = self.meter.lap(machine, Activity::Looking);
        self.budget.spend(took_ns);
        let Some(segment) = self.segments.get_mut(id) else { return };
        let Some(pages) = pages else {
            return segment.sampling.retry.start(now_ns, true, RETRY_NS);
        };
        let before = segment.sample.take();
        let in_vain = before.as_ref().is_some_and(|(_, before)| is_same(before, &pages));
        (segment.sampling.is_due, segment.sampling.time_ns) = (false, 0);
        segment.sampling.retry.start(now_ns, in_vain, RETRY_NS);
        // A sample is told from the one before by its time.
        let at_ns = now_ns.max(before.map_or(1, |(at_ns, _)| at_ns + 1));
        segment.sample = Some((at_ns, pages));
    }

    /// Samples the pages of a segment by node; `None` if there was too little time, or if nobody
    /// maps the segment any more.
    fn segment_pages(
        &mut self,
        machine: &dyn Machine,
        live: &MoveControl,
        id: SegmentId,
        state: &mut RoundState,
    ) -> Option<BTreeMap<NodeId, u64>> {
        let segment = self.segments.get_mut(id)?;
        let time = SampleTime::of(&segment.sampling, &self.settings);
        let mappers = segment.mappers.iter().map(|mapper| mapper.key);
        let (held, errors) = SegmentProcess::open(machine, mappers, id);
        for (key, error) in errors {
            let process = self.processes.get_mut(key);
            state.notices.extend(process.and_then(|process| process.went_wrong(key, error)));
        }
        let options = Options { seed: id.inode, ..time.options(&self.settings, live) };
        let seen = measure(machine, &held?, &options).ok()?;
        let segment = self.segments.get_mut(id)?;
        match seen {
            (pages, was_cut) if !was_cut || time.is_enough(&options) => Some(pages),
            _ => {
                segment.sampling.time_ns = time.ns * 2;
                None
            }
        }
    }
}

/// Measures the pages of a segment by node. Returns also whether time ran out before all was seen.
fn measure(
    machine: &dyn Machine,
    segment: &SegmentProcess,
    options: &Options<'_>,
) -> Result<(BTreeMap<NodeId, u64>, bool)> {
    let mappings = segment.held_mappings().to_vec();
    let seen = residency::measure_mappings(machine, segment, mappings, options)?;
    let pages = seen.total().nodes.into_iter().map(|(node, share)| (node, share.pages));
    Ok((pages.collect(), seen.capped))
}

/// The segments that a process maps. Policies are not read: that takes much longer.
fn mappings(machine: &dyn Machine, key: ProcessKey) -> Result<Vec<MappedSegment>> {
    let process = machine.open_process(key.0)?;
    match process.identity()?.started_ticks == key.1 {
        true => Ok(mapped_segments(&process.mappings()?, &[])),
        false => Err(Error::Gone(key.0)),
    }
}
