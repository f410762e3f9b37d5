//! io.nodeward.Placement: decisions of the balancer's last round, as they were published.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodeward_balancer::{ProcessRow, RoundReport, Undecided};
use nodeward_model::Pid;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::errors::CallError;
use crate::gate;
use crate::homes::home_pages;
use crate::hooks::Explainer;

/// Rounds that a balancer needs before it can decide.
const ROUNDS_TO_DECIDE: u64 = 2;

/// The last rounds, which requests read and the balancer replaces. Neither waits for the other: the
/// lock is held for the copy of a pointer.
#[derive(Default)]
pub struct Published(Mutex<LastRounds>);

#[derive(Clone, Default)]
struct LastRounds {
    /// The last full round.
    last: Arc<RoundReport>,
    /// The last one that decided: a round without rows, as one that only stands back, leaves what
    /// was decided before.
    decided: Arc<RoundReport>,
}

impl Published {
    /// Replaces them, unless the round was a fast one.
    pub fn replace(&self, report: &RoundReport) {
        if report.fast {
            return;
        }
        let last = Arc::new(report.clone());
        let mut rounds = self.lock();
        if !report.processes.is_empty() || rounds.decided.processes.is_empty() {
            rounds.decided = Arc::clone(&last);
        }
        rounds.last = last;
    }

    /// Returns the last round that decided.
    pub fn get(&self) -> Arc<RoundReport> {
        Arc::clone(&self.lock().decided)
    }

    /// Returns the last full round.
    pub fn last(&self) -> Arc<RoundReport> {
        Arc::clone(&self.lock().last)
    }

    fn lock(&self) -> MutexGuard<'_, LastRounds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the decisions about all processes of a caller, at a time of the machine's clock.
    /// Cost: some 30 us a process.
    pub fn homes(&self, caller: &Caller, now_ns: u64) -> Value {
        let report = self.get();
        let one = |row: &ProcessRow| {
            let shown = gate::shown_to(caller, row.pid)?;
            Some(decision(row, shown, report.acted, now_ns))
        };
        json!({
            "round": report.round,
            "stands_back": report.stands_back,
            "decisions": report.processes.iter().filter_map(one).collect::<Vec<_>>(),
        })
    }

    /// Appends the decision about a process, with all its numbers, as JSON.
    ///
    /// # Errors
    /// If the caller may not touch it.
    pub fn explain(
        &self,
        caller: &Caller,
        pid: Option<Pid>,
        explainer: Explainer,
        json: &mut Vec<u8>,
    ) -> Result<(), CallError> {
        let held = gate::check(caller, pid)?;
        let shown = pid.unwrap_or_else(|| caller.own_pid());
        let report = self.get();
        let row = report.processes.iter().find(|row| row.pid == held.pid());
        let row = row.map(|row| ProcessRow { pid: shown, ..row.clone() });
        let row = row.ok_or(match report.round {
            0..ROUNDS_TO_DECIDE => Undecided::NoLoad,
            _ => Undecided::NotLookedInto,
        });
        explainer(shown, report, row, json);
        Ok(())
    }
}

fn decision(row: &ProcessRow, shown: Pid, acted: bool, now_ns: u64) -> Value {
    let (threads_brought, pages_brought) = row.done.brought(&row.decision, acted);
    let mut value = json!({
        "pid": shown,
        "name": String::from_utf8_lossy(row.name.as_bytes()),
        "verdict": row.decision.verdict,
        "reason": row.decision.reason,
        "threads_brought": threads_brought,
        "pages_brought": pages_brought,
        "threads": row.threads,
        "pages": row.pages,
    });
    let home = row.home.as_ref();
    let optional = [
        ("threads_reason", json!(row.decision.threads)),
        ("memory_reason", json!(row.decision.memory)),
        ("home", json!(home.map(|home| home.thread_nodes().iter().collect::<Vec<_>>()))),
        ("pages_age_ns", json!(row.pages_at_ns.map(|at_ns| now_ns.saturating_sub(at_ns)))),
        ("home_pages", json!(home.map(|home| home_pages(home, &row.pages)))),
    ];
    for (name, field) in optional.into_iter().filter(|(_, field)| !field.is_null()) {
        value[name] = field;
    }
    value
}
