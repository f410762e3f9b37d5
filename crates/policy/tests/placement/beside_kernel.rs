//! Decisions while the kernel's NUMA balancing is at work, too: what it decided stands.

use nodeward_model::NodeId;
use nodeward_policy::placement::*;

use crate::world::*;

/// A thread on each of two nodes, and memory on both: more at home on node 1, where 0.3 * 0.25 *
/// 0.6 = 4.5 % of two threads is far more than 10,000 pages cost in 10 s.
fn world() -> (World, EntityId) {
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
    let id = world.start(CPU, &[0, 1], &[10_000, 30_000]);
    (world, id)
}

/// The first decision about a process whose two threads the kernel wants there.
fn decide(prefers: [KernelPreference; 2]) -> (Plan, EntityId) {
    let (world, id) = world();
    let mut snapshot = Snapshot { kernel_balances: true, ..world.snapshot() };
    for (thread, prefers) in snapshot.entities[0].threads.iter_mut().zip(prefers) {
        thread.kernel_prefers = prefers;
    }
    let plan = Homes::default().decide(&snapshot, &Rules::default());
    check(&snapshot, &plan);
    assert_eq!(plan.homes[&id], on(1));
    (plan, id)
}

/// Goal: a thread that the kernel does not place, or wants at home, too, is brought home, and
/// memory with it; one that it wants elsewhere stays, and memory waits. Where the kernel may still
/// decide, the thread comes home, and memory waits.
#[test]
fn what_the_kernel_prefers_stands() {
    let on = |node| KernelPreference::Node(NodeId(node));
    let (free, open) = (KernelPreference::Anywhere, KernelPreference::Undecided);
    let prefers_other = Some(Reason::KernelPrefers);
    let cases = [
        ([free, free], 1, None, Reason::Pays),
        ([on(1), on(1)], 1, None, Reason::Pays),
        // With a thread on each node, memory is as near on the one as on the other.
        ([on(0), free], 0, prefers_other, Reason::DoesNotPay),
        ([open, free], 1, None, Reason::KernelPrefers),
        // The second is at home, but the kernel takes it and its pages away, or may do so.
        ([free, on(0)], 1, None, Reason::KernelPrefers),
        ([free, open], 1, None, Reason::KernelPrefers),
        // Nobody knows such a node.
        ([on(7), free], 1, None, Reason::Pays),
    ];
    for (prefers, nudges, threads, memory) in cases {
        let (plan, _) = decide(prefers);
        let told = &plan.decisions[0];
        assert_eq!((told.threads, told.memory), (threads, Some(memory)), "{prefers:?}");
        assert_eq!(plan.nudges.len(), nudges, "{prefers:?}");
        assert_eq!(plan.moves.is_empty(), memory != Reason::Pays, "{prefers:?}");
        assert_eq!(told.numbers.threads_away, 1, "{prefers:?}");
    }
}

/// Goal: a thread that does next to nothing has no say about memory.
#[test]
fn idle_threads_hold_no_memory_back() {
    let (mut world, id) = world();
    world.processes[0].tasks[0].wants = 9_999; // below 1 % of a CPU
    let mut snapshot = Snapshot { kernel_balances: true, ..world.snapshot() };
    snapshot.entities[0].threads[0].kernel_prefers = KernelPreference::Node(NodeId(0));
    let plan = Homes::default().decide(&snapshot, &Rules::default());
    assert_eq!((plan.homes[&id].clone(), plan.decisions[0].memory), (on(1), Some(Reason::Pays)));
}

/// Goal: the pages of what is wider than a node are the kernel's: neither is what lies elsewhere
/// gathered, nor are counts wanted; without the kernel both are.
#[test]
fn pages_of_wide_programs_are_the_kernels() {
    let mut world = World::new(&[(4, 100_000), (4, 100_000), (4, 100_000)]);
    let id = world.start(CPU, &[0, 2], &[70_000, 20_000, 40_000]);
    for (kernel_balances, memory, moves) in [(true, Reason::ByKernel, 0), (false, Reason::Pays, 1)]
    {
        let snapshot = Snapshot { kernel_balances, ..world.snapshot() };
        let plan = Homes::default().decide(&snapshot, &Rules::default());
        assert_eq!(plan.homes[&id], Home::Spread(mask("0,2")), "130,000 pages, 96,000 a node");
        let told = &plan.decisions[0];
        assert_eq!((told.memory, plan.moves.len()), (Some(memory), moves));
        assert_eq!(told.counts_wanted, !kernel_balances);
    }
}

/// Goal: what the kernel moves is left alone with all that it has, and its home is forgotten: when
/// the kernel is done, it is at home where its memory is then, and nothing is brought back.
#[test]
fn a_home_that_the_kernel_left_is_forgotten() {
    let (mut world, id) = world();
    assert_eq!(world.round(&Rules::default()).homes[&id], on(1));
    world.processes[0].exclusion = Some(Exclusion::KernelMoves);
    for _ in 0..3 {
        let plan = world.round(&Rules::default());
        let told = &plan.decisions[0];
        assert_eq!((told.verdict, told.reason), (Verdict::Left, Reason::KernelMoves));
        assert!(plan.homes.is_empty() && plan.nudges.is_empty() && plan.moves.is_empty());
    }
    let process = &mut world.processes[0];
    (process.pages, process.exclusion) = (vec![40_000, 0], None);
    process.tasks.iter_mut().for_each(|task| task.node = 0);
    let plan = world.round(&Rules::default());
    assert_eq!((plan.homes[&id].clone(), plan.decisions[0].verdict), (on(0), Verdict::Settles));
    assert!(plan.nudges.is_empty() && plan.moves.is_empty());
}

/// Goal: a process that was frozen in between, on the contrary, has its home again.
#[test]
fn other_exclusions_keep_the_home() {
    let (mut world, id) = world();
    world.round(&Rules::default());
    world.processes[0].exclusion = Some(Exclusion::Frozen);
    world.round(&Rules::default());
    world.processes[0].exclusion = None;
    let plan = world.round(&Rules::default());
    assert_eq!((plan.homes[&id].clone(), plan.decisions[0].verdict), (on(1), Verdict::Stays));
}
