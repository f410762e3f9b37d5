//! Memory that the agent evens out, and moves that it takes back.

use std::sync::OnceLock;

use nodeward_agent::client::{Client, ClientError};
use nodeward_agent::wire::{AddressRange, Order, WireReport, WireShare, WireSpread};
use nodeward_agent::{CallError, Journal};
use nodeward_machine::fake::FakeProcess;
use nodeward_model::{MappingKind, Name, NodeId, Page, Pid, SkipReason};
use nodeward_mover::SharedLedger;
use nodeward_mover::placement::SavedMemory;
use nodeward_records::ledger::{Header, LedgerStore, OperationId, StoreLimits};
use nodeward_records::placement::{EscapedName, PlacedProcess, SavedPlacement};
use serde_json::{Value, json};

use crate::authority::{Speaker, wait_for_moves};
use crate::stage::{OTHER, Stage, USER, is_root, order};

/// The ledger of all agents of these tests.
fn store() -> &'static LedgerStore {
    static STORE: OnceLock<(tempfile::TempDir, LedgerStore)> = OnceLock::new();
    let (_, store) = STORE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let store = LedgerStore::new(dir.path().to_owned(), StoreLimits::default());
        (dir, store)
    });
    store
}

const JOURNAL: Journal = Journal {
    begin: |request| {
        let header = Header {
            page_bytes: request.machine.page_bytes(),
            began_unix_ms: 0,
            command: request.command.iter().map(|word| Name::from(word.clone())).collect(),
            processes: request.processes,
            undoes: request.undoes,
        };
        Some(SharedLedger::new(store().begin(&header).unwrap()))
    },
    end: |ledger, report| ledger.end(report.account(), report.stopped.is_some(), 0),
    read: |id| store().read(id).ok(),
};

pub fn spread(nodes: &[(u32, u32)], block: Option<u64>) -> Order {
    let share = |&(node, weight): &(u32, u32)| WireShare { node: NodeId(node), weight };
    let spread = WireSpread { nodes: nodes.iter().map(share).collect(), block };
    Order { spread: Some(spread), ..Order::default() }
}

/// Restores memory of this process.
fn restore(placement: Value) -> Order {
    let pids = Some(vec![Pid::of_this_process()]);
    Order { pids, placement: Some(placement), ..Order::default() }
}

/// Saves this process, so many times over.
pub fn saved(client: &mut Client, times: usize) -> Value {
    let pid = Pid::of_this_process();
    let SavedMemory { mappings, segments } =
        client.saved_memory(&[pid], &MappingKind::ALL.into()).unwrap();
    let name = EscapedName::new("us");
    let us = PlacedProcess {
        pid,
        name,
        executable: None,
        threads: Vec::new(),
        mappings: mappings.into_iter().next().unwrap(),
    };
    json!(SavedPlacement::new(0, vec![us; times], segments))
}

fn undo(number: u64) -> Order {
    Order { undo: Some(number), ..Order::default() }
}

fn carry_out(client: &mut Client, order: &Order) -> WireReport {
    let number = client.start(order).unwrap();
    let mut progress = client.watch(number).unwrap();
    while progress.wait_for_next().unwrap().running {}
    client.account(number).unwrap()
}

/// Goal: memory is evened out by weights, the plan says so before, and it is taken back by its
/// number: of 4096 pages on node 0 a quarter goes to node 1, in blocks of 512, and returns.
#[test]
fn memory_is_evened_out_and_taken_back() {
    let stage = Stage::with_journal(JOURNAL);
    let us = Pid::of_this_process();
    stage.give_memory(us, 4096);
    let mut client = Client::connect(&stage.path()).unwrap();
    let order = spread(&[(0, 3), (1, 1)], None);
    assert_eq!(client.plan(&order).unwrap().processes[0].flows[0].pages, 1024);
    let report = carry_out(&mut client, &order);
    assert_eq!((report.processes[0].account.moved, stage.pages_on_one(us)), (1024, 1024));
    let number = report.ledger.unwrap();
    assert_eq!(client.plan(&undo(number)).unwrap().processes[0].flows[0].pages, 1024);
    let back = carry_out(&mut client, &undo(number));
    assert_eq!((back.processes[0].account.moved, stage.pages_on_one(us)), (1024, 0));
    assert!(!back.lacks_moves);
    let id = |number: u64| OperationId::of_number(number).unwrap();
    let of_undo = store().read(id(back.ledger.unwrap())).unwrap();
    assert_eq!(of_undo.header.undoes, Some(id(number)));
    let words: Vec<String> = of_undo.header.command.iter().map(ToString::to_string).collect();
    assert_eq!(words[3..], ["undo".to_owned(), number.to_string()]);
}

/// Goal: of memory that a device has pinned, here all 4096 pages, only the first 64 are tried if
/// that is wanted, whatever is done with it.
#[test]
fn pinned_memory_is_left_untried() {
    let stage = Stage::with_journal(JOURNAL);
    let us = Pid::of_this_process();
    let process = FakeProcess::with_pages(&vec![Page::on(NodeId(0)); 4096]);
    let first = process.mappings[0].range.start / 4096;
    let pinned = (first..first + 4096).collect();
    stage.machine.spawn(us, FakeProcess { pinned, ..process });
    let mut client = Client::connect(&stage.path()).unwrap();
    for (order, named) in [(order(&[us]), 4096), (spread(&[(0, 1), (1, 1)], None), 2048)] {
        let order = Order { skip_pinned: Some(true), ..order };
        let account = carry_out(&mut client, &order).processes[0].account.clone();
        let told = [(SkipReason::Pinned, 64), (SkipReason::PinnedUntried, named - 64)];
        assert_eq!((account.moved, account.skipped), (0, told.into()));
    }
}

/// Goal: memory comes back to where it was when its placement was saved: of 4096 pages on node 0
/// all go to node 1 and come back. Plan and account tell what of the placement is here, and the
/// ledger what was done.
#[test]
fn a_placement_is_restored() {
    let stage = Stage::with_journal(JOURNAL);
    let us = Pid::of_this_process();
    stage.give_memory(us, 4096);
    let mut client = Client::connect(&stage.path()).unwrap();
    let order_back = restore(saved(&mut client, 1));
    assert_eq!(carry_out(&mut client, &order(&[us])).processes[0].account.moved, 4096);
    let planned = client.plan(&order_back).unwrap();
    assert_eq!(planned.processes[0].flows[0].pages, 4096);
    let report = carry_out(&mut client, &order_back);
    assert_eq!((report.processes[0].account.moved, stage.pages_on_one(us)), (4096, 0));
    let found = report.found.unwrap();
    assert_eq!((&found.arriving, &found.unmatched), (&[(NodeId(0), 4096)].into(), &vec![]));
    assert_eq!(planned.found, Some(found));
    let id = OperationId::of_number(report.ledger.unwrap()).unwrap();
    let command = store().read(id).unwrap().header.command;
    let words: Vec<String> = command.iter().map(ToString::to_string).collect();
    assert_eq!(words[3..], ["placement", "restore", &us.to_string()].map(str::to_owned));
}

/// Goal: an order is one thing that can be done; nothing is done otherwise.
#[test]
fn orders_that_cannot_be() {
    let stage = Stage::with_journal(JOURNAL);
    stage.give_memory(Pid::of_this_process(), 10);
    let mut client = Client::connect(&stage.path()).unwrap();
    let both = Order { pairs: order(&[]).pairs, ..spread(&[(0, 1), (1, 1)], None) };
    let named = Order { pids: Some(vec![Pid::of_this_process()]), ..undo(1) };
    let hole = AddressRange { start: 1 << 40, end: 2 << 40 };
    let nothing = Order { ranges: Some(vec![hole]), ..order(&[]) };
    for (order, told) in [
        (nothing, "ranges: no memory that is selected is in them"),
        (Order::default(), "pairs, spread, placement, undo: one of them is wanted"),
        (both, "pairs, spread, placement, undo: one of them is wanted"),
        (restore(json!({})), "placement is no placement"),
        (restore(saved(&mut client, 2)), "it is of 2 processes, and pids has 1"),
        (named, "undo: pids, kinds and ranges are those of the operation"),
        (spread(&[(0, 1)], None), "spread: two nodes at least"),
        (spread(&[(0, 1), (7, 1)], None), "node 7 does not exist, or has no memory; 0-1 have"),
        (spread(&[(0, 1), (1, 0)], None), "spread: "),
        (spread(&[(0, 1), (1, 1)], Some(0)), "block is a multiple of 4096"),
        (spread(&[(0, 1), (1, 1)], Some(5000)), "block is a multiple of 4096"),
        (spread(&[(0, 1), (1, 1)], Some(1 << 40)), "block is a multiple of 4096"),
    ] {
        let refused = client.start(&order).unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    }
    for number in [0, u64::MAX, 1 << 40] {
        let refused = client.plan(&undo(number)).unwrap_err();
        let is_told = |undo| undo == number;
        assert!(
            matches!(refused, ClientError::Refused(CallError::NoSuchOperation { undo })
                if is_told(undo)),
            "{refused}"
        );
    }
    assert_eq!(stage.pages_on_one(Pid::of_this_process()), 0);
}

/// Goal: nobody takes back what is not his, nor learns whether there is such a move; whose memory
/// it is may.
#[test]
fn whose_memory_it_is_takes_it_back() {
    if !is_root() {
        return;
    }
    let stage = Stage::with_journal(JOURNAL);
    let Some(mut owner) = Speaker::of(&stage, USER, USER) else { return };
    let mut other = Speaker::of(&stage, OTHER, OTHER).unwrap();
    let pid = owner.0.pid();
    stage.give_memory(pid, 10);
    let start = |speaker: &mut Speaker, order: &Order| {
        let reply = speaker.call("io.nodeward.Moves.Start", &json!({ "order": order }));
        wait_for_moves(speaker);
        reply
    };
    let reply = start(&mut owner, &order(&[]));
    let account = json!({ "move": reply["parameters"]["move"] });
    let account = owner.call("io.nodeward.Moves.Account", &account);
    let number = account["parameters"]["report"]["ledger"].as_u64().unwrap();
    let refused = start(&mut other, &undo(number));
    let unknown = start(&mut other, &undo(1 << 40));
    assert_eq!(refused["error"], "io.nodeward.Moves.NoSuchOperation");
    assert_eq!((&refused["error"], stage.pages_on_one(pid)), (&unknown["error"], 10));
    start(&mut owner, &undo(number));
    assert_eq!(stage.pages_on_one(pid), 0);
}
