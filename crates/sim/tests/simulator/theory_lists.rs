//! Page lists, message streams and builds against theory, with the arithmetic.

use crate::common::{machine, scenario, workload};
use nodeward_scenario::{AccessPattern, Params, Scenario, WorkloadKind};
use nodeward_sim::World;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
const FIXED: u64 = 0;
const DEPTH: u64 = 1;
const EVENTS: u64 = 2;

/// One node whose memory is never slowed by load. A zone's lock costs 1 us plus 20 ns per page to
/// fill a list, and 300 ns plus 30 ns per page to return pages.
fn params() -> Params {
    Params {
        bandwidth_bytes_per_s: 1 << 60,
        complex_bandwidth_bytes_per_s: 1 << 60,
        zone_visit_ns: 300,
        zone_hold_ps: 30_000,
        zone_refill_visit_ns: 1000,
        zone_refill_ps: 20_000,
        zone_handoff_ns: 0,
        lru_hold_ns: 0,
        lru_handoff_ns: 0,
        switch_ns: 0,
        wake_ns: 5000,
        // Threads stay where they are: a woken thread is not moved to balance run queues.
        balance_ns: 60_000 * MS,
        pcp_tuning: FIXED,
        pcp_high: 4 * 63,
        ..Params::default()
    }
}

fn on(cpus: u32, kind: WorkloadKind, processes: u32, mib: u64) -> Scenario {
    let mut machine = machine(1, cpus, 64);
    machine.params = params();
    scenario(machine, workload(kind, processes, mib))
}

fn run(scenario: &Scenario, ns: u64) -> World {
    let mut world = World::new(scenario, 1);
    world.run_until(ns);
    assert_eq!(world.check_pages(), Ok(()));
    world
}

/// Goal: a visit costs a fixed time plus a time per page, different in each direction.
///
/// One process, lists of two batches: a list is filled with one batch, and returns one.
#[test]
fn a_visit_is_its_own_time_and_that_of_its_pages() {
    for batch in [63, 511, 2047] {
        let mut scenario = on(1, WorkloadKind::PageFault, 1, 64);
        scenario.machine.params.pcp_batch = batch;
        scenario.machine.params.pcp_high = 2 * batch;
        let counters = run(&scenario, 300 * MS).counters;
        let (fills, fill_ns) = (counters.zone_refills, counters.zone_refill_held_ns);
        let (gives, give_ns) = (counters.zone_visits - fills, counters.zone_held_ns - fill_ns);
        assert!(fills > 10 && gives > 10);
        assert_eq!(fill_ns, fills * (1000 + 20 * batch), "filling with {batch}");
        assert_eq!(give_ns, gives * (300 + 30 * batch), "giving {batch} back");
    }
}

fn stream(window: u64) -> WorkloadKind {
    let (message_bytes, buffer_bytes) = (16 << 10, 16 << 10);
    let together = false;
    WorkloadKind::Stream {
        message_bytes,
        buffer_bytes,
        window,
        compute_ns: 20 * US,
        on_one_cpu: together,
    }
}

fn messages(scenario: &Scenario, ns: u64) -> (u64, World) {
    let world = run(scenario, ns);
    (world.counters.work_done["work"], world)
}

fn assert_within(seen: u64, expected: u64, percent: u64, what: &str) {
    println!("{what}: {seen}, expected {expected}");
    assert!(seen.abs_diff(expected) * 100 <= expected * percent, "{what}: {seen}, {expected}");
}

/// Goal: a stream is bound by latency: threads take turns, and each turn begins with a wake-up.
///
/// 8 messages of 20 us on each side and 2 * 5 us are 330 us: 24.2 messages in a millisecond. With a
/// window of one, 2 * 20 + 2 * 5 us: 20.
#[test]
fn streams_take_turns() {
    for (window, per_s) in [(8, 24_242), (1, 20_000)] {
        let mut scenario = on(4, stream(window), 1, 1);
        scenario.workloads[0].threads = 2;
        let (count, world) = messages(&scenario, 1000 * MS);
        assert_within(count, per_s, 2, &format!("{window} under way"));
        // 40 us of CPU time for each.
        assert_within(world.busy_ns() / US, count * 40, 2, "us of CPU time");
    }
}

/// Goal: a CPU that was idle for long takes longer to wake up; one that was not does not.
///
/// A thread waits for 8 messages of 20 us and a wake-up, 165 us or more. With deep idle states from
/// 100 us on each turn begins with 50 us, so 8 messages take 2 * (160 + 50) = 420 us, 19.0 in a
/// millisecond. With deep idle states from 1 ms on they are never reached, except by CPUs without
/// any task.
#[test]
fn who_slept_deeply_wakes_late() {
    for (deep_after_ns, per_s, deep) in [(100 * US, 19_048, 100), (MS, 24_242, 0)] {
        let mut scenario = on(4, stream(8), 1, 1);
        scenario.workloads[0].threads = 2;
        scenario.machine.params.wake_deep_ns = 50 * US;
        scenario.machine.params.deep_after_ns = deep_after_ns;
        let (count, world) = messages(&scenario, 1000 * MS);
        assert_within(count, per_s, 2, "messages");
        // Two wake-ups for each 8 messages; some are the first of their CPU.
        assert_within(world.counters.deep_wakes + 100, count / 4 * deep / 100 + 100, 5, "deep");
    }
}

/// Goal: runs drain a list that returned pages and that nobody allocates from: of 252 pages on,
/// each buffer that is read is a visit, also where lists follow the depth. Since Linux 6.7 every 16
/// of them, 64 pages, are one. Without draining, batches of 189 pages, 48 buffers, are returned.
#[test]
fn runs_drain_lists_that_gave_back() {
    let cases = [(1, FIXED, 1), (1, DEPTH, 1), (1, EVENTS, 16), (0, FIXED, 48)];
    for (drain, tuning, per_visit) in cases {
        let mut scenario = on(4, stream(8), 1, 1);
        scenario.workloads[0].threads = 2;
        scenario.machine.params.pcp_drain = drain;
        scenario.machine.params.pcp_tuning = tuning;
        let (count, world) = messages(&scenario, 1000 * MS);
        let gives = world.counters.zone_visits - world.counters.zone_refills;
        assert_within(gives, count / per_visit, 5, "visits");
    }
}

/// Goal: the cost of a tracer is in the reported times of allocations and frees, and in nothing
/// else.
#[test]
fn tracers_add_to_what_they_time() {
    let [plain, traced] = [0, 500].map(|probe_ns| {
        let mut scenario = on(4, stream(8), 1, 1);
        scenario.workloads[0].threads = 2;
        scenario.machine.params.probe_ns = probe_ns;
        messages(&scenario, 100 * MS).1
    });
    assert_eq!(plain.trace_hash(), traced.trace_hash());
    let [plain, traced] = [plain, traced].map(|world| world.report().latencies);
    for (name, add_ns) in [("allocation", 500), ("freeing", 500), ("wake-up", 0)] {
        assert_eq!(traced[name].p50_ns, plain[name].p50_ns + add_ns, "{name}");
        assert_eq!(traced[name].p99_ns, plain[name].p99_ns + add_ns, "{name}");
    }
}

/// Goal: where one thread allocates and another one frees, lists do not help, as long as threads
/// stay where they are. A list gets 16 buffers of 4 pages at a time, a visit per 16 messages.
#[test]
fn one_sided_lists_visit_the_zone() {
    for tuning in [FIXED, DEPTH] {
        let mut scenario = on(4, stream(8), 1, 1);
        scenario.workloads[0].threads = 2;
        scenario.machine.params.pcp_tuning = tuning;
        let (count, world) = messages(&scenario, 3000 * MS);
        assert_within(world.counters.zone_refills, count / 16, 5, "visits");
    }
}

/// Goal: a list helps threads that share it: on one CPU one thread allocates what the other one
/// frees, and the zone is not visited any more. There is no wake-up to wait for either: 1000 / 40
/// us = 25 messages in a millisecond.
#[test]
fn threads_together_share_a_list() {
    let mut scenario = on(4, stream(8), 1, 1);
    scenario.workloads[0].threads = 2;
    if let WorkloadKind::Stream { on_one_cpu: together, .. } = &mut scenario.workloads[0].kind {
        *together = true;
    }
    let (count, world) = messages(&scenario, 1000 * MS);
    assert_within(count, 25_000, 1, "messages");
    assert!(world.counters.zone_refills <= 2, "{} visits", world.counters.zone_refills);
}

/// Goal: buffers are neither lost nor created when a stream is killed in the middle of a window.
#[test]
fn buffers_come_back() {
    let mut scenario = on(2, stream(1000), 2, 1);
    scenario.workloads[0].threads = 2;
    scenario.actions = vec![nodeward_scenario::Action {
        at_ns: 7 * MS,
        workload: "work".to_owned(),
        kind: nodeward_scenario::ActionKind::Kill,
    }];
    let world = run(&scenario, 100 * MS);
    assert!(world.all_processes_ended());
    assert_eq!(world.free_on(0), (64 << 30) / 4096);
}

/// Goal: the configured number of lives follow each other in each place, and then the run is over.
#[test]
fn lives_end() {
    let access = AccessPattern { parallel_milli: 10_000, compute_ps: 0, writes_milli: 0 };
    let kind = WorkloadKind::Compile { compute_ns: MS, access, lives: 3, varies_milli: 0 };
    let world = run(&on(4, kind, 2, 1), 1000 * MS);
    assert_eq!(world.counters.work_done["work"], 2 * 3);
    assert_eq!(world.counters.faulted_pages, 2 * 3 * 256);
    assert!(world.all_processes_ended());
}

/// Goal: lives that vary lack half of the variation on average. Of 200 lives of 256 pages that may
/// lack 1000 of 1000 parts, 50 % +- 2 * 29 % / sqrt(200) = 46 to 54 % of the pages are faulted in.
#[test]
fn lives_vary() {
    let access = AccessPattern { parallel_milli: 10_000, compute_ps: 0, writes_milli: 0 };
    let kind = WorkloadKind::Compile { compute_ns: MS, access, lives: 100, varies_milli: 1000 };
    let counters = run(&on(4, kind, 2, 1), 1000 * MS).counters;
    assert_eq!(counters.work_done["work"], 200);
    assert_within(counters.faulted_pages, 200 * 256 / 2, 9, "pages");
}
