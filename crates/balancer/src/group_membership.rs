//! Which threads and which memory belong to which group: the stage of a round after the snapshot.

use std::sync::PoisonError;

use nodeward_machine::{Error, Machine};

use super::Balancer;
use super::cpu_budget::Activity;
use super::group_part::KnownTraits;
use super::journals::Subject;
use super::process_key::ProcessKey;
use super::process_table::ProcessState;

impl Balancer {
    /// Takes in the groups of settings and calls, and finds their members among the processes of
    /// the snapshot.
    pub(super) fn see_groups(&mut self, machine: &dyn Machine) {
        let called = self.keep_called();
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
    fn keep_called(&self) -> super::CalledGroups {
        let mut called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        let has_thread = |key: ProcessKey, tid: u32| {
            let seen = self.processes.get(key).and_then(|process| process.seen.as_ref());
            seen.is_none_or(|seen| seen.threads.binary_search_by_key(&tid, |it| it.tid).is_ok())
        };
        called.keep(|key| self.is_there(key), has_thread);
        called.clone()
    }

    /// Whether a process still exists. One that the watch does not show may be new, or not wanted.
    fn is_there(&self, (pid, started_ticks): ProcessKey) -> bool {
        if self.processes.get((pid, started_ticks)).is_some() {
            return true;
        }
        let identity = self.machine.open_process(pid).and_then(|process| process.identity());
        match identity {
            Ok(identity) => identity.started_ticks == started_ticks,
            Err(Error::Gone(_)) => false,
            Err(_) => true,
        }
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
