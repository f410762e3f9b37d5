//! Requests that cannot be carried out: one clear line, and the code of their kind.

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::UNPRIVILEGED_USER;
use crate::load::LoadProcess;
use crate::nodeward::{move_load, move_load_as, nodeward};

pub const CASES: [(&str, CaseFn); 5] = [
    ("kernel_thread", kernel_thread),
    ("thread_id", thread_id),
    ("another_users_process", another_users_process),
    ("unequal_nodes", unequal_nodes),
    ("memoryless_node", memoryless_node),
];

/// Goal: a kernel thread has no memory to move.
fn kernel_thread() -> CaseOutcome {
    nodeward("move 2 0 1").assert_refused(3, &["process 2", "kernel thread"]);
    Ok(())
}

/// Goal: a thread id is not accepted as a process id; the message says what to name instead.
fn thread_id() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 1MiB");
    let tid = load.other_thread();
    nodeward(&format!("move {tid} 0 1")).assert_refused(3, &[&tid, "thread", "Tgid"]);
    load.end();
    Ok(())
}

/// Goal: moving another user's process requires a privilege, which is named.
fn another_users_process() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 1MiB --threads 0");
    let before = load.pages_by_node();
    move_load_as(UNPRIVILEGED_USER, &load, "0 1").assert_refused(4, &["CAP_SYS_PTRACE", "root"]);
    assert_eq!(load.pages_by_node(), before);
    load.end();
    Ok(())
}

/// Goal: FROM and TO of different length are paired as migrate_pages(2) does, and that is reported;
/// a request that would move nothing is refused, and nothing moves.
fn unequal_nodes() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 2MiB --threads 0");
    let before = load.pages_by_node();
    let finished = move_load(&load, "0,1 1");
    finished.report_after_exit(0);
    assert!(finished.stderr.contains("0 to 1"), "{finished:?}");
    let there = load.pages_by_node();
    assert_eq!(there, [(1, before.values().sum())].into());
    move_load(&load, "1 0,1").assert_refused(2, &["moves nothing", "'1 0'"]);
    assert_eq!(load.pages_by_node(), there);
    load.end();
    Ok(())
}

/// Goal: a node without memory is refused as a destination. (Node 1 has none there, and there is no
/// node 5.)
fn memoryless_node() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 2MiB --threads 0");
    let before = load.pages_by_node();
    move_load(&load, "0 1").assert_refused(2, &["TO", "no memory", "0,2"]);
    move_load(&load, "0 5").assert_refused(2, &["TO", "5"]);
    move_load(&load, "5 0").assert_refused(2, &["FROM", "5"]);
    assert_eq!(load.pages_by_node(), before);
    move_load(&load, "0 2").report_after_exit(0);
    load.end();
    Ok(())
}
