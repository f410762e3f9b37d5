//! Exchanges of two nodes.

use nodeward_model::SkipReason;

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{huge_pages, kib, write};
use crate::load::LoadProcess;
use crate::nodeward::{CommandOutput, nodeward, skip_counts};

pub const CASES: [(&str, CaseFn); 2] =
    [("exchange_full_nodes", full_nodes), ("exchange_of_unequals", unequals)];

const HUGE_PAGE_KIB: u64 = 2048;

/// Goal: the memory of two processes changes places though a node has room for a fraction of it.
fn full_nodes() -> CaseOutcome {
    let loads =
        [0, 1].map(|node| LoadProcess::start(&format!("--node {node} --size 64MiB --pause 1ms")));
    leave_free(32 << 10);
    let report = exchange(&loads).report_after_exit(0);
    assert_eq!(report.account.skipped, skip_counts([]), "{report:?}");
    let nodes = loads.each_ref().map(LoadProcess::memory_by_node);
    assert!(!nodes[0].contains_key(&0) && !nodes[1].contains_key(&1), "{nodes:?}");
    loads.into_iter().for_each(|load| _ = load.end());
    give_back();
    Ok(())
}

/// Goal: where one process has more memory than the other's node can take, what fits moves, the
/// rest is reported, and no process is killed for lack of memory.
fn unequals() -> CaseOutcome {
    let loads = [(0, 128), (1, 32)].map(|(node, mib)| {
        LoadProcess::start(&format!("--node {node} --size {mib}MiB --pause 1ms"))
    });
    let total = |load: &LoadProcess| load.memory_by_node().values().sum::<u64>();
    let before = loads.each_ref().map(total);
    leave_free(32 << 10);
    let report = exchange(&loads).report_after_exit(1);
    let left = report.account.skipped_for(SkipReason::NoMemory);
    assert_eq!(report.account.skipped, skip_counts([(SkipReason::NoMemory, left)]), "{report:?}");
    // At least the 32 MiB that were made free are used. Further room besides the 32 MiB that show
    // as free depends on the lists of CPUs.
    assert!(0 < left && left <= (128 - 32) << 8, "{report:?}");
    assert_eq!(loads.each_ref().map(total), before);
    loads.into_iter().for_each(|load| _ = load.end());
    give_back();
    Ok(())
}

const RESERVE: &str = "/proc/sys/vm/min_free_kbytes";

/// Lets pools of huge pages take all free memory but `kib_free` kB on each node.
pub(super) fn leave_free(kib_free: u64) {
    // By default the kernel reserves 66 MiB in a guest with transparent huge pages.
    write(RESERVE, "8192");
    write("/proc/sys/vm/drop_caches", "3");
    for node in [0, 1] {
        let path = format!("/sys/devices/system/node/node{node}/meminfo");
        let free = kib(&path, &format!("Node {node} MemFree"));
        huge_pages(node, free.saturating_sub(kib_free) / HUGE_PAGE_KIB);
    }
}

pub(super) fn give_back() {
    [0, 1].into_iter().for_each(|node| _ = huge_pages(node, 0));
}

fn exchange(loads: &[LoadProcess; 2]) -> CommandOutput {
    let [first, second] = loads.each_ref().map(LoadProcess::pid);
    nodeward(&format!("move --json --quiet --only anonymous {first} {second} 0,1 1,0"))
}
