//! The cost of a move: the sum of its parts.

use super::*;

/// Goal: the time of a move is the sum of its parts, to the nanosecond.
#[test]
fn a_move_takes_what_its_parts_take() {
    // No CPU has translations, so there is no flush. 512 pages: 280 + 60 ns out, 512 ns copied (64
    // lines of 8 ns), 190 + 60 ns back.
    assert_eq!(time_of(2, 512, 1, &[]), 512 * (280 + 60 + 512 + 190 + 60));
    // Three batches cost no more than their pages.
    assert_eq!(time_of(2, 1100, 1, &[]), 1100 * (280 + 60 + 512 + 190 + 60));
    // A huge page: 5 us, and 512 pages of 512 ns.
    assert_eq!(time_of(2, 1024, 512, &[]), 2 * (5000 + 512 * 512));
    // A kernel that splits it: 5 us for that, and then 512 pages.
    let split = time_of(2, 512, 512, &[("huge-migration", "split")]);
    assert_eq!(split, 5000 + 512 * (280 + 60 + 512 + 190 + 60));
}

/// Goal: a folio between a base page and a huge page pays once for itself, and for each page its
/// entry and its copy. One pinned page pins the whole folio.
#[test]
fn folios_move_whole() {
    let mut world = world(machine(2, 2));
    let space = process(&mut world, 0, 528, false);
    world.spaces[space].regions[0].folio_pages = 16;
    let (moved, _) = run_move(&mut world, job(space, 512, 16));
    assert_eq!(moved.account.moved, 512);
    // 32 folios of 280 + 190 ns, 512 pages of 60 + 512 + 60 ns, and 2 us to wake up.
    let took = moved.time_ns.end - moved.time_ns.start;
    assert_eq!(took, 32 * (280 + 190) + 512 * (60 + 512 + 60) + 2000);
    world.spaces[space].regions[0].pinned.insert(520);
    let (moved, _) = run_move(&mut world, job(space, 528, 16));
    assert_eq!((moved.account.already_there, moved.account.skipped_total()), (512, 16));
    check_pages(&world);
}

/// Goal: huge pages of one batch are handed out one by one, and the mover waits once.
#[test]
fn huge_pages_share_a_batch() {
    let time = |batch| time_of(8, 2048, 512, &[("batch", batch), ("copiers", "4")]);
    // Alone, each is cut in four. Together, each of four helpers has one: 32768 lines of 8 ns.
    let waits = 4 * 1800 + 2000 + 2000 + 2000;
    assert_eq!(time("1"), 4 * (5000 + waits + 262_144 / 4));
    assert_eq!(time("2048"), 4 * 5000 + waits + 262_144);
}

/// Goal: locks and lists add their cost.
#[test]
fn allocation_and_lists_are_part_of_a_move() {
    // Each of the 512 pages takes 40 ns of the zone's lock: 9 visits of 63 take 567 pages. Each
    // page costs the list 10 ns to take and 10 to give, and its group's lock 50 ns on each side.
    // The 512 freed pages go to the list of the other node, whose length is at first 4 * 63 = 252
    // or more. The list keeps 1000, so that none goes to the zone.
    let params = [
        ("zone-hold", "40000"),
        ("list", "10000"),
        ("lru-hold", "50ns"),
        ("pcp-tuning", "fixed"),
        ("pcp-high", "1000"),
        ("pcp-high-max", "1000"),
    ];
    let plain = time_of(2, 512, 1, &[]);
    assert_eq!(time_of(2, 512, 1, &params), plain + 567 * 40 + 512 * (2 * 10 + 2 * 50));
}

/// Goal: copies of huge pages scale with memory bandwidth; those of base pages do not.
#[test]
fn copy_bound_moves_follow_the_bandwidth() {
    let huge = |rate| time_of(2, 5120, 512, &[("copy", rate)]);
    // 10 * 2 MiB: 5 us each, and 32768 lines of 8 ns; at twice the rate of 4 ns.
    assert_eq!(huge("8GB/s"), 10 * (5000 + 262_144));
    assert_eq!(huge("16GB/s"), 10 * (5000 + 131_072));
    assert_eq!(huge("4GB/s"), 10 * (5000 + 524_288));
    // A page spends 590 of 1102 ns on other things: twice the rate is 1102 / 846 = 1.3.
    assert_eq!(time_of(2, 512, 1, &[("copy", "16GB/s")]), 512 * (590 + 256));
}

/// Goal: a copy with few misses in flight is bound by their latency.
#[test]
fn latency_bounds_a_copy_with_few_misses() {
    // One CPU a node: the mover is on node 0, its copy writes to node 1 at twice the latency: 2 *
    // 90 ns for 10 lines, 18 ns a line.
    assert_eq!(time_of(1, 512, 512, &[("copy-parallel", "10000")]), 5000 + 512 * 64 * 18);
    // With half the distance factor beyond 1 (20 -> 15), the farther node decides: 13.5 ns.
    let mut machine = machine(2, 1);
    machine.distances = vec![vec![10, 15], vec![15, 10]];
    machine.params.copy_parallel_milli = 10_000;
    let mut world = world(machine);
    let space = process(&mut world, 0, 512, true);
    let (_, ns) = run_move(&mut world, job(space, 512, 512));
    assert_eq!(ns, 5000 + 512 * 64 * 27 / 2);
}
