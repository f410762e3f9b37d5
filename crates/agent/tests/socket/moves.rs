//! Moves by the agent.

use nodeward_agent::CallError;
use nodeward_agent::client::{Client, ClientError};
use nodeward_agent::limits::MoveLimits;
use nodeward_model::{NodeId, Pid};
use serde_json::json;

use crate::stage::{Stage, order};

/// Goal: a plan tells of all 500 pages and moves none; a move moves them, tells its progress until
/// it has ended, and accounts for each page.
#[test]
fn a_process_moves_itself() {
    let stage = Stage::new();
    let us = Pid::of_this_process();
    stage.give_memory(us, 500);
    let mut client = Client::connect(&stage.path()).unwrap();
    let plan = client.plan(&order(&[])).unwrap();
    assert_eq!(plan.processes[0].flows[0].pages, 500);
    assert_eq!(stage.pages_on_one(us), 0);

    let number = client.start(&order(&[us])).unwrap();
    let mut progress = client.watch(number).unwrap();
    let last = loop {
        let now = progress.wait_for_next().unwrap();
        if !now.running {
            break now;
        }
    };
    assert_eq!(last.moved_bytes, 500 * 4096);
    let report = client.account(number).unwrap();
    let process = &report.processes[0];
    assert_eq!((process.pid, process.account.moved), (us, 500));
    assert_eq!(process.after, [(NodeId(1), 500)].into());
    assert_eq!((stage.pages_on_one(us), report.ledger), (500, None));
}

/// Goal: numbers of moves that are none are refused, and so are nodes that are none.
#[test]
fn what_is_not_there_is_refused() {
    let stage = Stage::new();
    stage.give_memory(Pid::of_this_process(), 1);
    let mut client = Client::connect(&stage.path()).unwrap();
    let refused = client.account(1).unwrap_err();
    assert!(
        matches!(refused, ClientError::Refused(CallError::NoSuchMove { move_id: 1 })),
        "{refused}"
    );
    let mut away = order(&[]);
    away.pairs[0].to = NodeId(7);
    let refused = client.start(&away).unwrap_err().to_string();
    assert!(refused.contains("does not exist"), "{refused}");
}

/// Goal: a move that is cancelled ends between two batches, and accounts for what it did. Its rate
/// is so low that it cannot end by itself before: 4 bytes a second for 2000 pages.
#[test]
fn a_move_can_be_cancelled() {
    let stage =
        Stage::with(MoveLimits { moves_of_user: 1, rate_of_user: None, ..MoveLimits::default() });
    let us = Pid::of_this_process();
    stage.give_memory(us, 2000);
    let mut client = Client::connect(&stage.path()).unwrap();
    let mut slow = order(&[us]);
    slow.rate = Some(4);
    let number = client.start(&slow).unwrap();
    client.cancel(number).unwrap();
    let mut progress = client.watch(number).unwrap();
    while progress.wait_for_next().unwrap().running {}
    let report = client.account(number).unwrap();
    let process = &report.processes[0];
    let moved = stage.pages_on_one(us);
    assert_eq!(process.account.moved, moved, "{report:?}");
    assert!(moved < 2000 || !report.interrupted, "{report:?}");
}

/// Goal: a plan whose look takes longer than it may is refused, with what to do, and moves nothing;
/// the same order can be carried out.
#[test]
fn a_plan_ends_in_time() {
    let stage = Stage::with(MoveLimits { look_ns: 0, ..MoveLimits::default() });
    let us = Pid::of_this_process();
    stage.give_memory(us, 500);
    let mut client = Client::connect(&stage.path()).unwrap();
    let refused = client.plan(&order(&[us])).unwrap_err().to_string();
    assert!(refused.contains("start the move without a plan"), "{refused}");
    assert_eq!(stage.pages_on_one(us), 0);
    let number = client.start(&order(&[us])).unwrap();
    let mut progress = client.watch(number).unwrap();
    while progress.wait_for_next().unwrap().running {}
    assert_eq!(client.account(number).unwrap().processes[0].account.moved, 500);
}

/// Goal: when the agent ends, its socket is closed, and who waits is told.
#[test]
fn the_agent_ends() {
    let stage = Stage::new();
    let mut client = Client::connect(&stage.path()).unwrap();
    client.call("io.nodeward.Agent.Describe", json!({})).unwrap();
    let Stage { agent, .. } = stage;
    drop(agent);
    let lost = client.call("io.nodeward.Agent.Describe", json!({})).unwrap_err();
    assert!(matches!(lost, ClientError::Lost(_)), "{lost}");
}
