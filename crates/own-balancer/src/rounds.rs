//! The thread of the balancer: a round in each interval while there are groups.

use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use nodeward::GroupAgent;
use nodeward_balancer::Balancer;

use crate::agent_presence::answers;
use crate::shared::OwnShared;

/// Rounds between two questions whether an agent answers.
const ASK_EVERY_ROUNDS: u64 = 10;

/// Makes rounds until the end, which is told whatever it comes from.
pub fn run(shared: &OwnShared, mut balancer: Balancer, agent: &GroupAgent) {
    let end = RoundsEnd(shared);
    let mut left = Duration::ZERO;
    while wait(shared, left) {
        if shared.lock().status.rounds.is_multiple_of(ASK_EVERY_ROUNDS) && answers(agent) {
            return end.tell("an agent answers, which places groups, too; make the groups there");
        }
        match balancer.round(&shared.live) {
            Ok(report) => {
                left = Duration::from_nanos(report.interval_ns.saturating_sub(report.took_ns));
                shared.note(&report);
            }
            Err(error) => return end.tell(&error.to_string()),
        }
    }
    end.tell("it was dropped");
}

/// Waits for the next round: until the time has passed and there are groups. Returns `false` if
/// there is to be none.
fn wait(shared: &OwnShared, left: Duration) -> bool {
    let waited = shared.wake.wait_timeout_while(shared.lock(), left, |state| !state.is_over);
    let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
    // A call that makes a group from here on sets it again.
    state.has_groups = false;
    drop(state);
    let has_groups = shared.called.lock().iter().next().is_some();
    let mut state = shared.lock();
    state.has_groups |= has_groups;
    let idle = shared.wake.wait_while(state, |state| !state.is_over && !state.has_groups);
    !idle.unwrap_or_else(PoisonError::into_inner).is_over
}

/// Tells at its drop that there are no more rounds.
struct RoundsEnd<'a>(&'a OwnShared);

impl RoundsEnd<'_> {
    fn tell(&self, why: &str) {
        self.0.lock().status.ended.get_or_insert_with(|| why.to_owned());
    }
}

impl Drop for RoundsEnd<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.tell("its thread panicked, which is a fault of nodeward");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nodeward_balancer::{CalledGroups, SharedGroups};
    use nodeward_machine::fake::FakeMachine;
    use nodeward_model::Pid;

    use super::*;

    /// Goal: a thread that panics says so, and calls are refused from then on.
    #[test]
    fn a_panic_is_told() {
        let machine = Arc::new(FakeMachine::new(true));
        let called = Arc::new(SharedGroups::new(machine, CalledGroups::default()));
        let own = Pid::of_this_process();
        let shared = Arc::new(OwnShared::new((own, 0), 4096, called));
        assert!(shared.check().is_ok());
        let work = Arc::clone(&shared);
        let round = move || {
            let _end = RoundsEnd(&work);
            panic!("a round");
        };
        thread::spawn(round).join().unwrap_err();
        assert!(shared.check().unwrap_err().to_string().contains("panicked"));
    }
}
