//! What a balancer that runs here decides meanwhile, asked of its agent.
//!
//! A thread of its own asks, so that an agent that does not answer holds nothing up.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nodeward_agent::client::Client;
use nodeward_agent::wire::WireHomes;
use nodeward_model::Pid;

use crate::results::observation::{AgentDecision, DecisionChange, SeenDecisions};

/// Time between two questions, at least. A balancer makes a round in a second at most.
const PAUSE: Duration = Duration::from_secs(2);
/// The pause after an answer, as a multiple of the time that it took: 2 % of the agent's time,
/// unless that is longer than the longest pause.
const PAUSE_FACTOR: u32 = 50;
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Maximum time between two questions whether to end.
const NAP: Duration = Duration::from_millis(100);
/// Changes that are kept.
const CHANGES_MAX: usize = 1000;

/// A thread that asks an agent, until this is dropped.
pub struct AgentWatch {
    seen: Arc<Mutex<SeenDecisions>>,
    ended: Arc<AtomicBool>,
}

impl AgentWatch {
    /// Begins to ask the agent at a socket about one process, or about all.
    ///
    /// # Errors
    /// If there is no room for another thread.
    pub fn start(socket: &Path, subject: Option<Pid>) -> io::Result<Self> {
        let unanswered = "the agent has not answered yet; the watch was too short, or it is stuck";
        let seen =
            SeenDecisions { obstacle: Some(unanswered.to_owned()), ..SeenDecisions::default() };
        let watch = Self { seen: Arc::new(Mutex::new(seen)), ended: Arc::default() };
        let (seen, ended) = (Arc::clone(&watch.seen), Arc::clone(&watch.ended));
        let socket = socket.to_owned();
        let work = move || ask(&socket, subject, &seen, &ended);
        thread::Builder::new().name("nodeward-asks".to_owned()).spawn(work)?;
        Ok(watch)
    }

    /// Returns what was heard so far.
    pub fn seen(&self) -> SeenDecisions {
        locked(&self.seen).clone()
    }
}

impl Drop for AgentWatch {
    /// The thread may wait for an answer; it ends with the program.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn locked(seen: &Mutex<SeenDecisions>) -> MutexGuard<'_, SeenDecisions> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ask(socket: &Path, subject: Option<Pid>, seen: &Mutex<SeenDecisions>, ended: &AtomicBool) {
    let began = Instant::now();
    let mut known: Option<BTreeMap<Pid, AgentDecision>> = None;
    while !ended.load(Ordering::Relaxed) {
        let asked = Instant::now();
        match Client::connect(socket).and_then(|mut client| client.homes()) {
            Ok(mut reply) => {
                reply.decisions.retain(|decision| subject.is_none_or(|pid| decision.pid == pid));
                let at_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                known = Some(take_in(&mut locked(seen), at_ns, known.as_ref(), reply));
            }
            Err(error) => locked(seen).obstacle = Some(error.to_string()),
        }
        pause((asked.elapsed() * PAUSE_FACTOR).clamp(PAUSE, PAUSE_MAX), ended);
    }
}

fn pause(time: Duration, ended: &AtomicBool) {
    let until = Instant::now() + time;
    while !ended.load(Ordering::Relaxed) && Instant::now() < until {
        thread::sleep(NAP);
    }
}

/// Takes in an answer; returns the decisions to compare the next one with. What was decided before
/// the watch is no change.
fn take_in(
    seen: &mut SeenDecisions,
    at_ns: u64,
    known: Option<&BTreeMap<Pid, AgentDecision>>,
    reply: WireHomes,
) -> BTreeMap<Pid, AgentDecision> {
    (seen.obstacle, seen.stands_back) = (None, reply.stands_back);
    let now: BTreeMap<Pid, AgentDecision> =
        reply.decisions.into_iter().map(|decision| (decision.pid, decision.into())).collect();
    for (pid, decision) in &now {
        let Some(known) = known else { break };
        let before = known.get(pid);
        let has_home = |decision: &AgentDecision| decision.home.is_some();
        let is_of_interest = has_home(decision) || before.is_some_and(has_home);
        match before == Some(decision) || !is_of_interest {
            true => {}
            false if seen.changes.len() < CHANGES_MAX => {
                seen.changes.push(DecisionChange { at_ns, decision: decision.clone() });
            }
            false => seen.left_out += 1,
        }
    }
    let homes = now.iter().filter(|(_, decision)| decision.home.is_some());
    seen.last = homes.map(|(&pid, decision)| (pid, decision.clone())).collect();
    now
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use nodeward_agent::wire::WireDecision;
    use nodeward_linux::test_wait::wait_until;
    use nodeward_model::NodeId;

    use super::*;

    fn decision(pid: u32, home: Option<u32>, reason: &str) -> WireDecision {
        WireDecision {
            pages_age_ns: None,
            pid: Pid::new(pid).unwrap(),
            name: "db".to_owned(),
            verdict: "stays".to_owned(),
            reason: reason.to_owned(),
            threads_reason: None,
            memory_reason: None,
            home: home.map(|node| vec![NodeId(node)]),
            home_pages: None,
            threads_brought: None,
            pages_brought: None,
            threads: BTreeMap::new(),
            pages: BTreeMap::new(),
        }
    }

    /// Goal: of answers only changes of processes with homes are kept; what was decided before is
    /// none, and what is beyond the limit is counted.
    #[test]
    fn changes_are_kept() {
        let reply = |decisions| WireHomes { round: 2, stands_back: false, decisions };
        let mut seen = SeenDecisions::default();
        let first =
            reply(vec![decision(7, Some(0), "memory-there"), decision(8, None, "launcher")]);
        let known = take_in(&mut seen, 0, None, first);
        assert_eq!((seen.changes.len(), seen.last.len()), (0, 1));
        let second = [decision(7, Some(1), "busiest"), decision(8, None, "too-young")];
        let known = take_in(&mut seen, 5, Some(&known), reply(second.to_vec()));
        assert_eq!(seen.changes, [DecisionChange { at_ns: 5, decision: second[0].clone().into() }]);
        take_in(&mut seen, 6, Some(&known), reply(second.to_vec()));
        assert_eq!(seen.changes.len(), 1, "nothing changed");
        let many = (1..=2000).map(|pid| decision(pid, Some(0), "runs-there")).collect();
        take_in(&mut seen, 7, Some(&BTreeMap::new()), reply(many));
        assert_eq!((seen.changes.len(), seen.left_out), (CHANGES_MAX, 1001));
    }

    /// Goal: an agent that accepts and says nothing holds nothing up, and where nobody listens the
    /// obstacle says so.
    #[test]
    fn nobody_answers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let watch = AgentWatch::start(&path, None).unwrap();
        let _connection = listener.accept().unwrap();
        assert!(watch.seen().obstacle.is_some_and(|why| why.contains("has not answered")));
        let watch = AgentWatch::start(&folder.path().join("nowhere"), None).unwrap();
        wait_until("it tells", || {
            watch.seen().obstacle.is_some_and(|why| why.contains("no agent answers at"))
        });
    }
}
