//! Moves of programs that may move nothing themselves, by the agent of a balancer.

use nodeward_linux::test_wait::wait_until;
use nodeward_model::{NodeId, PageLocation};
use rustix::process::Signal;

use super::ledger::id;
use crate::balancer::{StateDir, disable_numa_balancing, start_load_away};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::confined::in_container;
use crate::guest::UNPRIVILEGED_USER;
use crate::load::LoadProcess;
use crate::nodeward::{RunningMove, move_load, move_load_as, nodeward_as, run_command};

pub const CASES: [(&str, CaseFn); 2] =
    [("agent_moves_for_a_container", for_a_container), ("agent_interrupted", interrupted)];

/// Returns the pages of a load's memory on a node.
fn pages_on(load: &LoadProcess, node: u32) -> u64 {
    let is_there = |place: &PageLocation| *place == PageLocation::On(NodeId(node));
    load.page_locations().iter().filter(|place| is_there(place)).count() as u64
}

/// Goal: a process of a user without capabilities, behind the default list of Docker, moves its own
/// memory by the socket, each page of 8 MiB, with the output and the code of any move; it sees
/// where its memory is, takes the move back, has it evened out (8 MiB in blocks of 2), and, after
/// another move, brings each page to where a placement says that it was;
/// processes of others it can neither move nor see; its move is in the ledger of the agent, with
/// the user.
fn for_a_container() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("agent");
    let socket = format!("--agent={}", place.path().join("agent.sock").display());
    let own = LoadProcess::start_as(UNPRIVILEGED_USER, "--node 0 --unbind --size 8MiB");
    let others = start_load_away("--size 8MiB");
    let path = place.path().join("agent.sock");
    let mut balance = place.start(&format!("--name nobody --socket {}", path.display()));
    balance.next_round();
    let range = format!("--range {}", own.ready.range);
    let as_user = |load: &LoadProcess, words: &str| {
        in_container(|| move_load_as(UNPRIVILEGED_USER, load, words))
    };

    let direct = as_user(&own, &format!("0 1 {range}"));
    assert_eq!(direct.code, 4, "without the agent it may not: {direct:?}");
    let planned = as_user(&own, &format!("0 1 {range} {socket} --dry-run"));
    assert_eq!(planned.code, 0, "{planned:?}");
    assert_eq!(pages_on(&own, 0), own.ready.pages);

    let moved = as_user(&own, &format!("0 1 {range} {socket}"));
    let report = moved.report_after_exit(0);
    assert_eq!(report.account.moved, own.ready.pages, "{moved:?}");
    assert_eq!(report.processes[0].after(), &[(1, own.ready.pages)].into());
    assert_eq!(pages_on(&own, 1), own.ready.pages);

    let nodeward =
        |words: &str| in_container(|| nodeward_as(UNPRIVILEGED_USER, &format!("{words} {socket}")));
    let number = id(&moved);
    assert_eq!(nodeward(&format!("undo {number} --dry-run")).code, 0);
    let undone = nodeward(&format!("undo {number} --json --quiet"));
    assert_eq!(undone.report_after_exit(0).account.moved, own.ready.pages, "{undone:?}");
    assert_eq!(pages_on(&own, 0), own.ready.pages);
    nodeward("undo 999").assert_refused(5, &["no operation 999 that you can take back"]);
    let spread = nodeward(&format!("spread {} 0,1 --json --quiet", own.pid()));
    assert!(spread.code == 0, "{spread:?}");
    let [here, there] = [0, 1].map(|node| pages_on(&own, node));
    assert!(here + there == own.ready.pages && here.abs_diff(there) <= 512, "{here} {there}");
    let before = own.page_locations();
    let placed = format!("{} /tmp/agent.placement", own.pid());
    assert_eq!(nodeward(&format!("placement save {placed}")).code, 0);
    assert_eq!(as_user(&own, &format!("1 0 {range} {socket}")).code, 0);
    let restored = nodeward(&format!("placement restore {placed} --json --quiet"));
    assert_eq!(restored.report_after_exit(0).account.moved, there, "{restored:?}");
    assert_eq!(own.page_locations(), before);
    nodeward("move --name nodeward-load 0 1").assert_refused(4, &["not yours", "another user"]);

    let foreign = as_user(&others, &format!("0 1 {socket}"));
    foreign.assert_refused(4, &["not yours", "another user"]);
    let show = |load: &LoadProcess| {
        let words = format!("show {} --exact {socket}", load.pid());
        in_container(|| nodeward_as(UNPRIVILEGED_USER, &words))
    };
    let shown = show(&own);
    assert!(shown.code == 0 && shown.stdout.contains("node 1"), "{shown:?}");
    show(&others).assert_refused(4, &["not yours"]);
    assert_eq!(pages_on(&others, 0), others.ready.pages);

    let ledger = run_command(&mut place.command("ledger"));
    let command = format!("agent --user {UNPRIVILEGED_USER} move {} 0 1", own.pid());
    assert!(ledger.stdout.contains(&command), "{ledger:?}");
    balance.stop().assert_success();
    assert!(!path.exists(), "an agent that ends removes its socket");
    own.end();
    others.end();
    Ok(())
}

/// Goal: Ctrl-C and the deadline of the client end the move at the agent, and the account tells
/// what was done until then; a killed agent ends the client with a code of its own, and leaves its
/// move in the ledger. At 16 MiB a second 64 MiB take 4 s, of which a deadline of 2 s uses one.
fn interrupted() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("agent-killed");
    let path = place.path().join("agent.sock");
    let load = LoadProcess::start("--node 0 --unbind --size 64MiB");
    let balance = place.start(&format!("--name nobody --socket {}", path.display()));
    wait_until("the agent listens", || path.exists());
    let words =
        format!("0 1 --range {} --rate 16MiB/s --agent={}", load.ready.range, path.display());

    let running = RunningMove::start(&load, &words);
    load.wait_for_arrivals();
    running.signal(Signal::INT);
    let report = running.finish().report_after_exit(130);
    assert!(report.interrupted && report.account.moved > 0, "{report:?}");
    let moved = pages_on(&load, 1);
    assert_eq!(report.account.moved, moved, "{report:?}");

    let report = move_load(&load, &format!("{words} --deadline 2s")).report_after_exit(1);
    assert!(report.deadline_over && report.account.moved > 0, "{report:?}");
    let moved = moved + report.account.moved;
    assert_eq!(moved, pages_on(&load, 1), "{report:?}");

    let running = RunningMove::start(&load, &words);
    wait_until("more pages arrive", || pages_on(&load, 1) > moved);
    balance.kill();
    let lost = running.finish();
    assert_eq!(lost.code, 6, "{lost:?}");
    assert!(lost.stderr.contains("the agent ended meanwhile"), "{lost:?}");
    let ledger = run_command(&mut place.command("ledger"));
    assert!(ledger.stdout.contains("interrupted"), "{ledger:?}");
    load.end();
    Ok(())
}
