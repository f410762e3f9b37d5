//! Whether the CPUs had anything to run: while they have next to nothing, a round would find what
//! the last one found. No process has load, and none needs a home.

use nodeward_machine::Machine;

/// CPU time of all programs together, in millionths of a CPU, below which the machine counts as
/// idle. Services that wake up now and then need some, but nobody gains by a move of their memory.
const BUSY_PPM_MAX: u64 = 50_000;

/// The idle time of all CPUs at the last question.
#[derive(Default)]
pub struct IdleMachine {
    last: Option<IdleTime>,
}

#[derive(Clone, Copy)]
struct IdleTime {
    at_ns: u64,
    idle_ns: u64,
}

impl IdleMachine {
    /// Returns whether the CPUs, so many of them, ran next to nothing since the last question;
    /// false if that is not known.
    pub fn was_idle(&mut self, machine: &dyn Machine, cpus: usize) -> bool {
        let now = machine.idle_ns().map(|idle_ns| IdleTime { at_ns: machine.now_ns(), idle_ns });
        let before = std::mem::replace(&mut self.last, now);
        now.zip(before).is_some_and(|(now, before)| {
            let elapsed_ns = now.at_ns.saturating_sub(before.at_ns);
            let idle_ns = now.idle_ns.saturating_sub(before.idle_ns);
            let busy_ns = elapsed_ns.saturating_mul(cpus as u64).saturating_sub(idle_ns);
            busy_ns < elapsed_ns / 1_000_000 * BUSY_PPM_MAX
        })
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::FakeMachine;

    use super::*;

    /// Goal: two CPUs that are idle for 97.5 % of the time run a twentieth of a CPU together, which
    /// is too much; at 97.55 % it is less. What a machine does not tell is no idleness.
    #[test]
    fn next_to_nothing_is_less_than_a_twentieth_of_a_cpu() {
        let fake = FakeMachine::new(true);
        let mut idle = IdleMachine::default();
        let mut was_idle = |permille: Option<u64>| {
            fake.update_counters(|counters| {
                counters.idle_ns = permille.map(|_| counters.idle_ns.unwrap_or(0));
                counters.idle_permille = permille.unwrap_or(0);
            });
            fake.sleep_ns(1_000_000_000);
            idle.was_idle(&fake, 2)
        };
        assert!(!was_idle(Some(2000)), "the first question has none before it");
        let idle = [1950, 1951, 2000, 0].map(|permille| was_idle(Some(permille)));
        assert_eq!(idle, [false, true, true, false]);
        assert_eq!([None, Some(2000), Some(2000)].map(was_idle), [false, false, true]);
    }
}
