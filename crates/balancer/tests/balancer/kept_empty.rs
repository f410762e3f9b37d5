//! Nodes that the settings keep empty.

use nodeward_balancer::BalanceSettings;
use nodeward_model::{MemoryPolicies, ProcessFilter};
use nodeward_policy::placement::Reason;

use crate::stage::*;

fn keep_empty(nodes: &str) -> BalanceSettings {
    BalanceSettings { keep_empty: nodes.parse().unwrap(), ..BalanceSettings::default() }
}

/// Goal: a process whose threads and memory are on such a node leaves it, within the budget of a
/// round; new settings let it be there again, and others send it away again.
#[test]
fn a_process_leaves() {
    let fake = with(fake_process([0, PAGES], 4, "0-7"));
    // 16 MiB at 4 MiB a second: four rounds and more.
    let slow = BalanceSettings { budget_bytes_per_s: 4 << 20, ..keep_empty("1") };
    let mut balancer = balancer(&fake, slow);
    let reports = rounds(&fake, &mut balancer, 30);
    assert_eq!((residency(&fake), runs_on(&fake)), ([PAGES, 0], 0));
    let first = reports.iter().map(|report| report.moved_pages).find(|&pages| pages > 0);
    assert!(first.is_some_and(|pages| pages < PAGES), "{first:?}");
    balancer.reload(&ProcessFilter::default(), keep_empty("0")).unwrap();
    rounds(&fake, &mut balancer, 30);
    assert_eq!((residency(&fake), runs_on(&fake)), ([0, PAGES], 1));
}

/// Goal: what is bound to such a node, by its affinity or by a policy, stays there and is told why.
#[test]
fn what_is_bound_stays() {
    let fake = with(fake_process([0, PAGES], 4, "4-7"));
    let mut bound = fake_process([0, PAGES], 4, "0-7");
    bound.memory_policies = MemoryPolicies { has_task_policy: true, ..MemoryPolicies::default() };
    fake.spawn(pid(8), bound);
    let mut balancer = balancer(&fake, keep_empty("1"));
    let reports = rounds(&fake, &mut balancer, 30);
    let last = reports.iter().rfind(|report| !report.fast).unwrap();
    assert_eq!(row(last, 7).decision.reason, Reason::KeptEmpty);
    assert_eq!(row(last, 8).decision.reason, Reason::ExplicitPolicy);
    assert_eq!(moved(&reports), 0);
    assert_eq!(fake.process(pid(7)).unwrap().affinity_calls, 0);
}
