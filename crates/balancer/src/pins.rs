//! Pinned threads: threads that the balancer keeps at home by their affinity, and their affinity
//! before.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_model::{Cpumask, ThreadSnapshot};
use serde::{Deserialize, Serialize};

/// A thread that the balancer pinned, with its affinity before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The thread id of the kernel.
    pub tid: u32,
    /// The affinity before the pin.
    pub before: Cpumask,
    /// The affinity now, as the machine reports it; until the next look, the one that was set.
    pub now: Cpumask,
}

/// The pinned threads of a process.
#[derive(Clone, Debug, Default)]
pub struct Pins(BTreeMap<u32, (Arc<Cpumask>, Cpumask)>);

impl Pins {
    /// Restores the pins of an earlier run.
    pub fn recall(pins: &[Pin]) -> Self {
        let entry = |pin: &Pin| (pin.tid, (Arc::new(pin.before.clone()), pin.now.clone()));
        Self(pins.iter().map(entry).collect())
    }

    /// Returns the pins to save.
    pub fn saved(&self) -> Vec<Pin> {
        let pin = |(&tid, (before, now)): (&u32, &(Arc<Cpumask>, Cpumask))| Pin {
            tid,
            before: Cpumask::clone(before),
            now: now.clone(),
        };
        self.0.iter().map(pin).collect()
    }

    /// Enters that a thread is pinned to CPUs now.
    pub fn enter(&mut self, thread: &ThreadSnapshot, cpus: &Cpumask) {
        let before = self.cpus_of(thread);
        let now = cpus.and(&before);
        self.0.insert(thread.tid, (before, now));
    }

    /// Returns the affinity that a thread would have without its pin.
    pub fn cpus_of(&self, thread: &ThreadSnapshot) -> Arc<Cpumask> {
        match self.0.get(&thread.tid) {
            Some((before, now)) if *thread.cpus == *now => Arc::clone(before),
            _ => Arc::clone(&thread.cpus),
        }
    }

    /// Forgets threads that ended, and threads whose affinity another program changed.
    pub fn keep(&mut self, threads: &[ThreadSnapshot]) {
        let at = |tid: u32| threads.binary_search_by_key(&tid, |thread| thread.tid).ok();
        self.0.retain(|&tid, (_, now)| at(tid).is_some_and(|i| *threads[i].cpus == *now));
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::CpuId;

    use super::*;

    fn mask(text: &str) -> Cpumask {
        text.parse().unwrap()
    }

    fn thread(cpus: &str) -> ThreadSnapshot {
        ThreadSnapshot {
            tid: 5,
            cpu: CpuId(0),
            cpu_time_ns: 0,
            waited_ns: 0,
            cpus: Arc::new(mask(cpus)),
        }
    }

    /// Goal: a thread that is pinned to 0-1 would run on 0-7 without the pin; when another program
    /// then sets its affinity to 2-3, that stays, and the pin is forgotten.
    #[test]
    fn our_own_pins_are_not_taken_for_wishes() {
        let mut pins = Pins::default();
        pins.enter(&thread("0-7"), &mask("0-1,8"));
        assert_eq!(*pins.cpus_of(&thread("0-1")), mask("0-7"));
        let mut pins = Pins::recall(&pins.saved());
        pins.enter(&thread("0-1"), &mask("4-5"));
        assert_eq!(*pins.cpus_of(&thread("4-5")), mask("0-7"), "pinned elsewhere");
        assert_eq!(*pins.cpus_of(&thread("2-3")), mask("2-3"));
        pins.keep(&[thread("2-3")]);
        assert!(pins.saved().is_empty());
    }
}
