//! Pages of programs that are wider than a node, placed by what the kernel's clock interrupts.

use nodeward_model::{NodeId, PageLocation as On};

use crate::balancer::{StateDir, disable_numa_balancing, pid_options};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{set_thread_affinity, threads};
use crate::load::LoadProcess;

pub const CASES: [(&str, CaseFn); 1] = [("balance_parts", parts)];

/// Rounds in which nothing may move any more.
const QUIET: usize = 4;

/// Goal: of a process whose two threads are bound to CPUs of different nodes, and whose memory all
/// lies on node 0, the half that the second thread uses moves to node 1, by registers alone: at
/// least 97 % of it. At most a twentieth more than that half moves; then nothing moves any more,
/// and no word is lost.
fn parts() -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new("parts");
    let load = LoadProcess::start("--node 0 --unbind --size 64MiB --threads 2");
    let mut tids = threads(load.pid());
    tids.sort_unstable();
    let [_, first, second] = tids[..] else { panic!("a main thread and two writers: {tids:?}") };
    set_thread_affinity(first, &[0]);
    set_thread_affinity(second, &[1]);
    let options = format!("{} --access registers", pid_options(&[&load]));
    let mut balance = place.start(&options);
    let half = load.page_locations().len() / 2;
    let on_node_1 = |places: &[On]| places.iter().filter(|at| **at == On::On(NodeId(1))).count();
    let is_placed = || on_node_1(&load.page_locations()[half..]) * 100 >= half * 97;
    balance.wait_for_round("the second half is on node 1", |_| is_placed());
    for _ in 0..QUIET {
        balance.reload_and_next_round();
    }
    let places = load.page_locations();
    let (wrong, moved) = (on_node_1(&places[..half]), balance.moved_pages);
    println!("{half} pages a half: {} at home, {wrong} wrong", on_node_1(&places[half..]));
    assert!(wrong * 100 <= half * 3, "{wrong} of {half} pages of the first thread moved");
    assert!(moved * 20 <= half as u64 * 21, "{moved} pages moved for {half}");
    balance.stop().assert_success();
    load.end();
    Ok(())
}
