//! Memory of this process that no region has: it is moved and looked at by the kernel, or by the
//! agent where the kernel forbids it, as in many containers.

use nodeward_call::{ConnectionError, ServiceConnection};
use nodeward_model::{Account, KindResidency, MappingKind, NodeId, Nodemask, Range, Residency};
use nodeward_pager::{Cancel, Error, Migration, MigrationReport, OwnMemory, Progress, Selection};
use serde_json::{Value, json};

use crate::GroupFailure;
use crate::agent_socket::{AgentSocket, TIMEOUT};

/// Who moved pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// The kernel, on behalf of this process.
    Kernel,
    /// The agent.
    Agent,
}

/// Why nothing was moved, or seen.
#[derive(Debug, thiserror::Error)]
pub enum OwnMoveFailure {
    /// The kernel forbids it and no agent answers, or what was asked makes no sense.
    #[error(transparent)]
    Own(#[from] Error),
    /// The kernel forbids it, and the agent did not do it.
    #[error(transparent)]
    Agent(#[from] GroupFailure),
}

/// Moves selected memory of this process to a node. Where the kernel forbids it to this process,
/// the agent is asked, at the socket of [`GroupAgent::default`](crate::GroupAgent::default).
///
/// # Errors
/// For an invalid node or option, in a child of fork(2), and if neither of them can move pages.
pub fn migrate_own(
    own: &OwnMemory,
    selection: &Selection,
    to: NodeId,
    how: &Migration<'_>,
) -> Result<(MigrationReport, Mover), OwnMoveFailure> {
    let moved = own.migrate(selection, to, how);
    or_by_agent(
        moved,
        || may_ask(own, selection, to),
        |agent| agent.move_own(&own.sources_to(to), selection, to, how),
    )
}

/// Finds the pages of a range of this process by node, as [`OwnMemory::residency`] does. Where the
/// kernel forbids that to this process, the agent is asked. It looks for five seconds at most: if
/// they do not suffice, what is not seen is missing, and nothing is exact. Of hugetlb it tells
/// whole huge pages.
///
/// # Errors
/// In a child of fork(2), and if neither of them can tell.
pub fn residency_own(
    own: &OwnMemory,
    range: Range,
    exact: bool,
) -> Result<KindResidency, OwnMoveFailure> {
    let found = own.residency(range, exact);
    Ok(or_by_agent(found, || true, |agent| agent.residency_own(range, exact))?.0)
}

/// Returns what was done, or what the agent does where the kernel forbade it and it may be asked.
/// If no agent answers, the kernel's word stands.
fn or_by_agent<T>(
    done: Result<T, Error>,
    may_ask: impl FnOnce() -> bool,
    ask: impl FnOnce(AgentSocket) -> Result<T, GroupFailure>,
) -> Result<(T, Mover), OwnMoveFailure> {
    match done {
        Err(Error::Machine(denied)) if denied.is_permission() && may_ask() => {
            match ask(AgentSocket::default()) {
                Err(GroupFailure::NoAgent { .. }) => Err(Error::Machine(denied).into()),
                done => Ok((done?, Mover::Agent)),
            }
        }
        done => Ok((done?, Mover::Kernel)),
    }
}

/// Returns whether the agent could do it. It does not leave out what is pinned, and on a machine
/// of one node it has nowhere to move from.
fn may_ask(own: &OwnMemory, selection: &Selection, to: NodeId) -> bool {
    !selection.skip_pinned && !own.sources_to(to).is_empty()
}

impl AgentSocket {
    fn residency_own(&self, range: Range, exact: bool) -> Result<KindResidency, GroupFailure> {
        let ranges = [json!({ "start": range.start, "end": range.end })];
        let asked = json!({ "exact": exact, "ranges": ranges });
        let reply = self.request("io.nodeward.Residency.Show", &asked)?;
        let strange = || GroupFailure::Strange(reply.to_string());
        let found: Residency = serde_json::from_value(reply.clone()).map_err(|_| strange())?;
        let total = found.total();
        Ok(KindResidency { exact: total.exact && !found.capped, ..total })
    }

    fn move_own(
        &self,
        sources: &Nodemask,
        selection: &Selection,
        to: NodeId,
        how: &Migration<'_>,
    ) -> Result<MigrationReport, GroupFailure> {
        let order = order(sources, selection, to, how);
        let reply = self.request("io.nodeward.Moves.Start", &json!({ "order": order }))?;
        let number = reply["move"].as_u64();
        let number = number.ok_or_else(|| GroupFailure::Strange(reply.to_string()))?;
        self.follow(number, how)?;
        let reply = self.request("io.nodeward.Moves.Account", &json!({ "move": number }))?;
        report(&reply["report"]).ok_or_else(|| GroupFailure::Strange(reply.to_string()))
    }

    /// Waits until a move has ended, which the agent tells ten times a second, and cancels it if it
    /// is to end.
    fn follow(&self, number: u64, how: &Migration<'_>) -> Result<(), GroupFailure> {
        let asked = json!({ "move": number });
        let told = |error: ConnectionError| self.told(error);
        let mut watch = ServiceConnection::open(&self.0, TIMEOUT).map_err(told)?;
        watch.send("io.nodeward.Moves.Progress", asked.clone(), true).map_err(told)?;
        let mut is_cancelled = false;
        loop {
            let (reply, _) = watch.receive().map_err(told)?;
            let progress = &reply["progress"];
            if let Some(tell) = how.progress {
                let bytes = |name: &str| progress[name].as_u64().unwrap_or(0);
                let (examined_bytes, total_bytes) = (bytes("examined_bytes"), bytes("total_bytes"));
                tell(Progress { examined_bytes, total_bytes });
            }
            if progress["running"] != true {
                return Ok(());
            }
            if how.cancel.is_some_and(Cancel::is_cancelled) && !is_cancelled {
                self.request("io.nodeward.Moves.Cancel", &asked)?;
                is_cancelled = true;
            }
        }
    }
}

/// The order in the words of the interface: the caller's memory, from all other nodes.
fn order(sources: &Nodemask, selection: &Selection, to: NodeId, how: &Migration<'_>) -> Value {
    let pairs = sources.iter().map(|from| json!({ "from": from, "to": to }));
    let pairs: Vec<Value> = pairs.collect();
    let mut order = json!({ "pairs": pairs });
    if !selection.ranges.is_empty() {
        let range = |it: &Range| json!({ "start": it.start, "end": it.end });
        order["ranges"] = selection.ranges.iter().map(range).collect();
    }
    if selection.kinds.len() < MappingKind::ALL.len() {
        order["kinds"] = selection.kinds.iter().map(|kind| kind.name()).collect();
    }
    if let Some(rate) = how.budget.bytes_per_s {
        order["rate"] = json!(rate);
    }
    if let Some(stall) = how.budget.stall {
        order["stall"] = json!(u64::try_from(stall.as_nanos()).unwrap_or(u64::MAX));
    }
    order
}

/// Reads the report of the interface.
fn report(told: &Value) -> Option<MigrationReport> {
    let of_process = told["processes"].as_array()?.first()?;
    let account: Account = serde_json::from_value(of_process["account"].clone()).ok()?;
    let number = |name: &str| told[name].as_u64().unwrap_or(0);
    Some(MigrationReport {
        one_way_pages: account.moved,
        by_kernel_pages: account.moved,
        account,
        lanes: u32::try_from(number("workers")).unwrap_or(u32::MAX),
        took_ns: number("moving_ns") + number("verifying_ns"),
        longest_hold_ns: number("longest_hold_ns"),
        cancelled: told["interrupted"] == true,
        ..MigrationReport::default()
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::thread::JoinHandle;
    use std::time::Duration;

    use nodeward_model::SkipReason;
    use nodeward_pager::Budget;
    use tempfile::TempDir;

    use super::*;
    use crate::test_agent;

    fn agent(replies: Vec<String>) -> (TempDir, AgentSocket, JoinHandle<Vec<Value>>) {
        let (folder, socket, server) = test_agent::start(replies);
        (folder, AgentSocket(socket), server)
    }

    fn told(reply: &Value) -> String {
        json!({ "parameters": reply }).to_string() + "\0"
    }

    fn progress(running: bool, examined_bytes: u64) -> String {
        let progress = json!({
            "running": running, "examined_bytes": examined_bytes, "total_bytes": 8192,
            "moved_bytes": 0, "workers": 1
        });
        json!({ "parameters": { "progress": progress }, "continues": running }).to_string() + "\0"
    }

    /// Goal: the agent is asked for what the kernel was asked for, in the words of its interface;
    /// progress is passed on, a cancel too, and the account is that of the agent.
    #[test]
    fn the_agent_does_it_in_our_place() {
        let account =
            json!({ "moved": 1, "already_there": 2, "skipped": { "pinned": 3, "shared": 4 } });
        let report = json!({ "report": {
            "processes": [{ "account": account }], "moving_ns": 70, "verifying_ns": 7,
            "workers": 2, "longest_hold_ns": 9, "interrupted": true
        } });
        let followed = progress(true, 0) + &progress(true, 4096) + &progress(false, 8192);
        let replies = vec![told(&json!({ "move": 5 })), followed, told(&json!({})), told(&report)];
        let (_folder, agent, server) = agent(replies);
        let selection = Selection {
            ranges: vec![Range::new(4096, 12288)],
            kinds: [MappingKind::Heap].into(),
            ..Selection::default()
        };
        let (seen, cancel) = (RefCell::new(Vec::new()), Cancel::new());
        let look = |done: Progress| {
            seen.borrow_mut().push(done.examined_bytes);
            cancel.cancel();
        };
        let budget = Budget { bytes_per_s: Some(1000), stall: Some(Duration::from_millis(1)) };
        let how = Migration {
            budget,
            progress: Some(&look),
            cancel: Some(&cancel),
            ..Migration::default()
        };
        let sources = Nodemask::from_iter([NodeId(0), NodeId(2)]);
        let moved = agent.move_own(&sources, &selection, NodeId(1), &how).unwrap();
        assert_eq!((moved.account.moved, moved.account.already_there), (1, 2));
        let skipped = [(SkipReason::Pinned, 3), (SkipReason::Shared, 4)];
        assert_eq!(moved.account.skipped, skipped.into());
        assert_eq!((moved.took_ns, moved.lanes, moved.longest_hold_ns), (77, 2, 9));
        assert!(moved.cancelled);
        assert_eq!(*seen.borrow(), [0, 4096, 8192]);
        let heard = server.join().unwrap();
        let order = json!({
            "pairs": [{ "from": 0, "to": 1 }, { "from": 2, "to": 1 }],
            "ranges": [{ "start": 4096, "end": 12288 }],
            "kinds": ["heap"], "rate": 1000, "stall": 1_000_000
        });
        assert_eq!(heard[0]["parameters"]["order"], order);
        let methods: Vec<_> = heard.iter().map(|call| call["method"].as_str().unwrap()).collect();
        let expected = ["Start", "Progress", "Cancel", "Account"]
            .map(|method| format!("io.nodeward.Moves.{method}"));
        assert_eq!(methods, expected);
    }

    /// Goal: the agent is asked for the range, and its kinds are told together: 3 of 4 pages are on
    /// node 1. What is no residency is an error.
    #[test]
    fn the_agent_looks_in_our_place() {
        let share = |pages: u64, ppm: u64| {
            json!({
                "pages": pages, "share_ppm": ppm, "share_ppm_low": ppm, "share_ppm_high": ppm
            })
        };
        let kind = |nodes: Value, pages: u64| {
            json!({
                "nodes": nodes, "pages": pages, "swapped": 0, "fixed": 0, "exact": true,
                "probes": pages
            })
        };
        let kinds = json!({
            "heap": kind(json!({ "0": share(1, 500_000), "1": share(1, 500_000) }), 2),
            "anonymous": kind(json!({ "1": share(2, 1_000_000) }), 2),
        });
        let reply = json!({
            "pid": 7, "page_bytes": 4096, "kinds": kinds, "capped": false, "segments": []
        });
        let (_folder, at, server) = agent(vec![told(&reply)]);
        let found = at.residency_own(Range::new(4096, 20480), true).unwrap();
        assert_eq!((found.pages_on(NodeId(0)), found.pages_on(NodeId(1))), (1, 3));
        assert!(found.exact);
        let heard = server.join().unwrap();
        let ranges = json!([{ "start": 4096, "end": 20480 }]);
        assert_eq!(heard[0]["parameters"], json!({ "exact": true, "ranges": ranges }));
        let capped = json!({ "pid": 7, "page_bytes": 4096, "kinds": {}, "capped": true });
        let (_folder, at, server) = agent(vec![told(&capped)]);
        assert!(!at.residency_own(Range::new(4096, 20480), true).unwrap().exact);
        server.join().unwrap();
        let (_folder, at, server) = agent(vec![told(&json!({ "kinds": 5 }))]);
        let failure = at.residency_own(Range::new(0, 1), false).unwrap_err();
        assert!(matches!(failure, GroupFailure::Strange(_)), "{failure}");
        server.join().unwrap();
    }

    /// Goal: a refusal of the agent, and what is no account, are errors in its words.
    #[test]
    fn refusals_of_the_agent_are_told() {
        let refusal = json!({
            "error": "io.nodeward.Moves.NothingMoved",
            "parameters": { "kind": "denied", "message": "not here" }
        });
        let everything = Selection::default();
        let sources = Nodemask::from_iter([NodeId(0)]);
        let ask = |replies: Vec<String>| {
            let (_folder, agent, server) = agent(replies);
            let failure = agent.move_own(&sources, &everything, NodeId(1), &Migration::default());
            server.join().unwrap();
            failure.unwrap_err()
        };
        let failure = ask(vec![refusal.to_string() + "\0"]);
        assert!(matches!(failure, GroupFailure::Failed(words) if words == "not here"));
        let odd = told(&json!({ "report": { "processes": [] } }));
        let failure = ask(vec![told(&json!({ "move": 1 })), progress(false, 0), odd]);
        assert!(matches!(failure, GroupFailure::Strange(_)), "{failure}");
    }
}
