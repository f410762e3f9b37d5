//! Requests that cannot be carried out: one clear line, and the code of their kind.

use crate::guest::SOMEBODY;
use crate::load::Load;
use crate::nodeward::{move_load, move_load_as, nodeward};
use crate::{Body, Ran};

pub const CASES: [(&str, Body); 5] = [
    ("kernel_thread", kernel_thread),
    ("thread_id", thread_id),
    ("another_users_process", another_users_process),
    ("unequal_nodes", unequal_nodes),
    ("memoryless_node", memoryless_node),
];

/// Goal: a kernel thread has no memory to move.
fn kernel_thread() -> Ran {
    nodeward("move 2 0 1").refused(3, &["process 2", "kernel thread"]);
    Ok(())
}

/// Goal: a thread id is not accepted as a process id; the message says what to name instead.
fn thread_id() -> Ran {
    let load = Load::start("--node 0 --size 1MiB");
    let tid = load.other_thread();
    nodeward(&format!("move {tid} 0 1")).refused(3, &[&tid, "thread", "Tgid"]);
    load.done();
    Ok(())
}

/// Goal: moving another user's process requires a privilege, which is named.
fn another_users_process() -> Ran {
    let load = Load::start("--node 0 --size 1MiB --threads 0");
    let before = load.nodes();
    move_load_as(SOMEBODY, &load, "0 1").refused(4, &["CAP_SYS_PTRACE", "root"]);
    assert_eq!(load.nodes(), before);
    load.done();
    Ok(())
}

/// Goal: FROM and TO of different length are paired as migrate_pages(2) does, and that is reported;
/// a request that would move nothing is refused, and nothing moves.
fn unequal_nodes() -> Ran {
    let load = Load::start("--node 0 --size 2MiB --threads 0");
    let before = load.nodes();
    let finished = move_load(&load, "0,1 1");
    finished.report(0);
    assert!(finished.stderr.contains("0 to 1"), "{finished:?}");
    let there = load.nodes();
    assert_eq!(there, [(1, before.values().sum())].into());
    move_load(&load, "1 0,1").refused(2, &["moves nothing", "'1 0'"]);
    assert_eq!(load.nodes(), there);
    load.done();
    Ok(())
}

/// Goal: a node without memory is refused as a destination. (Node 1 has none there, and there is no
/// node 5.)
fn memoryless_node() -> Ran {
    let load = Load::start("--node 0 --size 2MiB --threads 0");
    let before = load.nodes();
    move_load(&load, "0 1").refused(2, &["TO", "no memory", "0,2"]);
    move_load(&load, "0 5").refused(2, &["TO", "5"]);
    move_load(&load, "5 0").refused(2, &["FROM", "5"]);
    assert_eq!(load.nodes(), before);
    move_load(&load, "0 2").report(0);
    load.done();
    Ok(())
}
