//! The benchmark of scale at a small size.

#[path = "../../benches/scale.rs"]
mod benchmark;

use benchmark::{MachineSize, cost, tables};

/// Goal: the benchmark works.
#[test]
fn the_benchmark_runs_at_a_small_size() {
    tables(true);
}

const BASE: MachineSize =
    MachineSize { nodes: 1, cpus: 64, spread: false, tasks: 128, mib: 16, ms: 50 };

/// Goal: events are no more than linear in CPUs and tasks, and do not depend on pages.
#[test]
fn events_are_linear() {
    let events = |size: MachineSize| cost(size).events;
    let one = events(BASE);
    // Twice of everything is twice the events, and some for tasks that are pulled.
    assert!(events(MachineSize { nodes: 2, tasks: 256, ..BASE }) < one * 9 / 4);
    // Waiting tasks cost nothing; pages cost nothing.
    assert!(events(MachineSize { tasks: 512, ..BASE }) < one * 5 / 4);
    assert!(events(MachineSize { mib: 256, ..BASE }) < one * 5 / 4);
}

/// Goal: an event visits no more items on a larger machine. Together with the events, costs are
/// linear.
#[test]
fn events_look_at_no_more_on_larger_machines() {
    let steps = |size: MachineSize| cost(size).steps_milli;
    let (one, two) = (steps(BASE), steps(MachineSize { nodes: 2, tasks: 256, ..BASE }));
    let eight = steps(MachineSize { nodes: 8, tasks: 1024, ..BASE });
    assert!(eight < two * 5 / 4, "{one}, {two}, {eight}");
    assert!(two < one * 3 / 2, "{one}, {two}, {eight}");
    // Longer run queues take longer to search, but not all queues in each event.
    let long = steps(MachineSize { tasks: 512, ..BASE });
    assert!(long < one * 5 / 4, "{one}, {long}");
}
