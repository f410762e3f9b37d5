//! Assigns threads and memory to groups: the stage of a round after the snapshot.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_machine::{Error, Machine};
use nodeward_model::ProcessSnapshot;

use super::Balancer;
use super::called_groups::CalledGroups;
use super::cpu_budget::Activity;
use super::group_part::KnownTraits;
use super::journals::Subject;
use super::process_key::ProcessKey;
use super::process_table::ProcessState;
use super::round_state::RoundState;

impl Balancer {
    /// Takes in the groups of settings and calls, and finds their members among the processes of
    /// the snapshot.
    pub(super) fn see_groups(&mut self, machine: &dyn Machine, state: &mut RoundState) {
        let called = self.keep_called(state);
        let (groups, processes) = (&mut self.groups, &mut self.processes);
        groups.see(called, &self.settings.groups, || processes.new_number());
        if self.groups.has_rules() {
            self.ask_for_traits(machine);
        }
        let is_new = |process: &ProcessState| !self.groups.is_empty() || !process.parts.is_empty();
        let changed = self.processes.iter().filter(|(_, process)| is_new(process));
        let parts =
            |(key, process): (ProcessKey, &ProcessState)| (key, self.groups.parts_of(key, process));
        let parts: Vec<_> = changed.map(parts).collect();
        let gone = self.processes.set_parts(parts);
        gone.into_iter().for_each(|part| self.journals.end(Subject::Process(part), false));
        self.meter.lap(machine, Activity::Looking);
    }

    /// Returns the groups that calls made, without those members that are gone.
    fn keep_called(&self, state: &mut RoundState) -> CalledGroups {
        let doubtful = self.doubtful(&self.called.lock());
        // Nobody else waits for the groups while members are looked for.
        let gone = self.gone(doubtful);
        let mut called = self.called.lock();
        called
            .groups_mut()
            .keep(|key| !gone.contains(&(key, None)), |key, tid| !gone.contains(&(key, Some(tid))));
        state.notices.extend(called.notices());
        CalledGroups::clone(&called)
    }

    /// The members that the snapshot does not have: processes, and threads of those that it has.
    fn doubtful(&self, called: &CalledGroups) -> BTreeMap<ProcessKey, BTreeSet<u32>> {
        let parts = called.iter().flat_map(|(_, group)| &group.parts);
        let mut doubtful = BTreeMap::<_, BTreeSet<u32>>::new();
        for (&key, part) in parts {
            let known = self.processes.get(key);
            let seen = known.and_then(|process| process.seen.as_ref());
            let is_unseen = |&tid: &u32| seen.is_some_and(|seen| !has_thread(seen, tid));
            let unseen: Vec<u32> = part.threads.named().filter(is_unseen).collect();
            if known.is_none() || !unseen.is_empty() {
                doubtful.entry(key).or_default().extend(unseen);
            }
        }
        doubtful
    }

    /// Returns those of them that are gone indeed, processes without a thread. A snapshot lacks
    /// processes that are not wanted, what has just started, and new threads of processes that
    /// hardly run.
    fn gone(
        &self,
        doubtful: BTreeMap<ProcessKey, BTreeSet<u32>>,
    ) -> BTreeSet<(ProcessKey, Option<u32>)> {
        let mut gone = BTreeSet::new();
        for (key, tids) in doubtful {
            match self.live_threads(key, !tids.is_empty()) {
                Err(Error::Gone(_)) => _ = gone.insert((key, None)),
                // What may not be looked at is there.
                Err(_) => {}
                Ok(live) => {
                    let ended = tids.into_iter().filter(|tid| !live.contains(tid));
                    gone.extend(ended.map(|tid| (key, Some(tid))));
                }
            }
        }
        gone
    }

    /// Returns the threads that a process has now, if that is asked.
    fn live_threads(
        &self,
        (pid, started_ticks): ProcessKey,
        is_asked: bool,
    ) -> nodeward_machine::Result<BTreeSet<u32>> {
        let process = self.machine.open_process(pid)?;
        if process.identity()?.started_ticks != started_ticks {
            return Err(Error::Gone(pid));
        }
        let traits = is_asked.then(|| process.traits()).transpose()?;
        Ok(traits.into_iter().flat_map(|traits| traits.threads).map(|(tid, _)| tid).collect())
    }

    /// Asks processes what patterns want to know, those that ran for long enough to get a home, as
    /// many as the budget allows.
    fn ask_for_traits(&mut self, machine: &dyn Machine) {
        let now_ns = machine.now_ns();
        let least_ns = self.settings.rules.run_ns_min;
        for (key, process) in self.processes.iter_mut() {
            let Some(seen) = &process.seen else { continue };
            let is_known = process.traits.as_ref().is_some_and(|it| it.is_current(seen, now_ns));
            if is_known || seen.cpu_time_ns < least_ns || self.excluded.contains(key.0) {
                continue;
            }
            let opened = machine.open_process(key.0).and_then(|process| {
                let is_it = process.identity()?.started_ticks == key.1;
                if is_it { process.traits() } else { Err(Error::Gone(key.0)) }
            });
            // Who is gone is so in the next snapshot, and who may not be read is told of there.
            if let Ok(traits) = opened {
                process.traits = Some(KnownTraits { traits, at_ns: now_ns });
            }
            let took_ns = self.meter.lap(machine, Activity::Looking);
            self.budget.spend(took_ns);
            if !self.budget.is_left() {
                break;
            }
        }
    }
}

fn has_thread(seen: &ProcessSnapshot, tid: u32) -> bool {
    seen.threads.binary_search_by_key(&tid, |thread| thread.tid).is_ok()
}
