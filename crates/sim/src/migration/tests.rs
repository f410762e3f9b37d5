//! Moves on machines of a few CPUs: their cost, and that no page is lost.

use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex};

use nodeward_model::{CpuId, NodeId, SkipReason};
use nodeward_policy::sampling::SplitMix64;
use nodeward_scenario::{AccessPattern, MachineSpec, NodeSpec, Params, Scenario, SchedulerKind};

use super::batch_migration::BatchMigration;
use super::outcome::{ATTEMPTS, FolioOutcome, MigrationResult};
use crate::cpu::{LineAccess, Op, Task, TaskState};
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};
use crate::memory::{AddressSpace, Folio, GranuleRange, MemoryRegion, PageByte};
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// Creates a machine of two or more nodes with `cpus` CPUs without SMT and 1 GiB each.
fn machine(nodes: u32, cpus: u32) -> MachineSpec {
    let node = |id: u32| NodeSpec {
        id: NodeId(id),
        cpus: (id * cpus..(id + 1) * cpus).map(CpuId).collect(),
        threads_per_core: 1,
        memory_bytes: 1 << 30,
        latency_ns: None,
        bandwidth_bytes_per_s: None,
    };
    let distance = |from, to| if from == to { 10 } else { 20 };
    let row = |from| (0..nodes).map(|to| distance(from, to)).collect();
    MachineSpec {
        nodes: (0..nodes).map(node).collect(),
        distances: (0..nodes).map(row).collect(),
        links: Vec::new(),
        params: plain(),
    }
}

/// Parameters without costs of locks and lists. Copies are bounded by `copy` alone: 64 bytes take 8
/// ns, so a base page of 64 lines takes 512 ns.
fn plain() -> Params {
    Params {
        switch_ns: 0,
        zone_hold_ps: 0,
        zone_handoff_ns: 0,
        lru_hold_ns: 0,
        list_ps: 0,
        copy_bytes_per_s: 8_000_000_000,
        copy_parallel_milli: 1_000_000,
        ..Params::default()
    }
}

fn world(machine: MachineSpec) -> World {
    let scenario = Scenario {
        name: "test".to_owned(),
        about: String::new(),
        machine,
        workloads: Vec::new(),
        scheduler: SchedulerKind::NumaUnaware,
        numa_balancing: false,
        actions: Vec::new(),
        faults: None,
        time_ns: 1_000_000_000,
        sample_ns: 1_000_000,
        report: Vec::new(),
    };
    World::new(&scenario, 1)
}

/// Creates a process with a number of pages on a node.
fn process(world: &mut World, node: usize, pages: u64, huge: bool) -> SpaceId {
    let nodes = world.machine.nodes.len();
    let mut region = MemoryRegion::new(1 << 30, pages, 4096, nodes, 64);
    match huge {
        true => (0..pages).step_by(512).for_each(|page| region.set_huge(page, PageByte::on(node))),
        false => region.set(0..pages, PageByte::on(node)),
    }
    world.memory.zones[node].free_pages -= pages;
    let space = world.spaces.len();
    world.add_space("process".to_owned(), vec![region], space)
}

fn folios(pages: u64, size: u64) -> Vec<Folio> {
    let folio = |page| Folio { region: 0, pages: page..page + size };
    (0..pages).step_by(size as usize).map(folio).collect()
}

fn job(space: SpaceId, pages: u64, size: u64) -> MoveJob {
    let folios = folios(pages, size);
    MoveJob { space, folios, to: 1 }
}

/// A job: folios of one space, to one node.
struct MoveJob {
    space: SpaceId,
    folios: Vec<Folio>,
    to: usize,
}

/// The result of a job, and its start and end.
#[derive(Clone, Debug)]
struct FinishedMove {
    result: MigrationResult,
    time_ns: Range<u64>,
}

impl Deref for FinishedMove {
    type Target = MigrationResult;

    fn deref(&self) -> &MigrationResult {
        &self.result
    }
}

/// Receives the result of a job.
type FinishedMoveCell = Arc<Mutex<Option<FinishedMove>>>;

/// Program that carries out a job and ends.
struct TestMover {
    migration: BatchMigration,
    began_ns: u64,
    finished: FinishedMoveCell,
}

impl TaskProgram for TestMover {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        if let Some(op) = self.migration.next(world, task) {
            return op;
        }
        let ended = FinishedMove {
            result: self.migration.take_result(),
            time_ns: self.began_ns..world.now_ns,
        };
        *self.finished.lock().unwrap() = Some(ended);
        Op::Exit
    }
}

fn start_move(world: &mut World, job: MoveJob) -> (TaskId, FinishedMoveCell) {
    let mut drive = BatchMigration::new(job.space, job.to, ATTEMPTS);
    drive.add(job.folios);
    let end = FinishedMoveCell::default();
    let mover = TestMover { migration: drive, began_ns: world.now_ns, finished: Arc::clone(&end) };
    (world.start_kernel_task(None, Box::new(mover)), end)
}

/// Carries out a job to its end. Returns its time from the first instruction on.
fn run_move(world: &mut World, job: MoveJob) -> (FinishedMove, u64) {
    let selected: u64 = job.folios.iter().map(Folio::len).sum();
    let (mover, end) = start_move(world, job);
    for _ in 0..100_000 {
        world.run_until(world.now_ns() + 100_000);
        if world.tasks[mover as usize].state == TaskState::Ended {
            break;
        }
    }
    let moved = end.lock().unwrap().clone().expect("it has ended");
    assert_eq!(moved.account.selected(), selected);
    let ns = moved.time_ns.end - moved.time_ns.start - world.machine.params.wake_ns;
    (moved, ns)
}

/// Checks that each page of each node is in one place.
fn check_pages(world: &World) {
    world.check_pages().unwrap();
}

/// A thread of a process that computes without end on one CPU.
struct Spin;

impl TaskProgram for Spin {
    fn next(&mut self, _world: &mut World, _task: TaskId) -> Op {
        Op::Busy(CpuTimeKind::User, 1_000_000)
    }
}

fn spin(world: &mut World, space: SpaceId, cpu: usize) -> TaskId {
    let mut task = Task::new(CpuIndexSet::of([cpu]));
    task.space = Some(space);
    world.start_task(task, Box::new(Spin))
}

/// Moves pages on a machine of 2 x `cpus` CPUs with these parameters, of which the process uses the
/// first `busy`. Returns the result and the number of interrupts.
fn timed_move(
    cpus: u32,
    busy: usize,
    pages: u64,
    size: u64,
    params: &[(&str, &str)],
) -> (FinishedMove, u64) {
    let mut machine = machine(2, cpus);
    params.iter().for_each(|(name, value)| machine.params.set(name, value, None).unwrap());
    let mut world = world(machine);
    let space = process(&mut world, 0, pages, size > 1);
    (0..busy).for_each(|cpu| {
        spin(&mut world, space, cpu);
    });
    world.run_until(100_000);
    let (moved, _) = run_move(&mut world, job(space, pages, size));
    check_pages(&world);
    (moved, world.counters.flush_ipis)
}

fn time_of(cpus: u32, pages: u64, size: u64, params: &[(&str, &str)]) -> u64 {
    let (moved, _) = timed_move(cpus, 0, pages, size, params);
    assert_eq!(moved.account.moved, pages);
    moved.time_ns.end - moved.time_ns.start - 2000 // from the first instruction on
}

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

/// Goal: on one CPU no CPU is interrupted; on more, every CPU that runs the process is.
#[test]
fn interrupts_go_to_those_who_run_the_process() {
    let mut one = machine(1, 1);
    one.nodes.push(NodeSpec { id: NodeId(1), cpus: Default::default(), ..one.nodes[0].clone() });
    one.distances = vec![vec![10, 20], vec![20, 10]];
    let mut world = world(one);
    let space = process(&mut world, 0, 512, false);
    spin(&mut world, space, 0);
    world.run_until(100_000);
    let (moved, _) = run_move(&mut world, job(space, 512, 1));
    assert_eq!((moved.account.moved, world.counters.flush_ipis), (512, 0));
    assert!(world.counters.flushes > 0, "its own translations go, too");
    // 3 of 8 CPUs run it; 512 pages are one batch.
    let (_, ipis) = timed_move(4, 3, 512, 1, &[]);
    assert_eq!(ipis, 3);
}

/// Goal: a batch of c pages takes 1/c of the interrupts.
#[test]
fn interrupts_are_divided_by_the_batch() {
    let ipis = |batch| timed_move(4, 2, 2048, 1, &[("batch", batch)]).1;
    assert_eq!(ipis("1"), 2048 * 2);
    assert_eq!(ipis("64"), 2048 / 64 * 2);
    assert_eq!(ipis("512"), 2048 / 512 * 2); // 1/512
}

/// Goal: a flush costs its sender, its targets and its distance.
#[test]
fn a_flush_takes_what_its_targets_take() {
    // CPUs 0-3 run the process, the mover is on CPU 4, of the other node: it sends (1000 ns) to 4
    // (40 ns each) on one other node (2000 ns), once a page.
    let (moved, ipis) = timed_move(4, 4, 10, 1, &[("batch", "1")]);
    assert_eq!(ipis, 40);
    assert_eq!(moved.step_ns[CpuTimeKind::Flush as usize], 10 * (1000 + 4 * 40 + 2000));
    // With CPU 0-2 only, it is on CPU 3, beside them.
    let (moved, _) = timed_move(4, 3, 10, 1, &[("batch", "1")]);
    assert_eq!(moved.step_ns[CpuTimeKind::Flush as usize], 10 * (1000 + 3 * 40));
}

/// Goal: an interrupted task loses the time of the interrupts.
#[test]
fn victims_lose_time() {
    let mut world = world(machine(2, 2));
    world.machine.params.batch_pages = 1;
    let space = process(&mut world, 0, 1000, false);
    let task = spin(&mut world, space, 0);
    world.run_until(100_000);
    let ran = world.tasks[task as usize].cpu_time_ns;
    run_move(&mut world, job(space, 1000, 1));
    world.run_until(20_000_000);
    // 1000 interrupts of 700 ns; turns of a millisecond end within one of the end.
    let lost = 20_000_000 - 100_000 - (world.tasks[task as usize].cpu_time_ns - ran);
    assert!((700_000..700_000 + 1_000_000).contains(&lost), "{lost}");
}

/// Goal: a broadcast costs the same whichever CPUs run the process.
#[test]
fn a_broadcast_does_not_know_cpus() {
    let flush = |cpus, busy| {
        let params = [("shootdown", "broadcast")];
        let (moved, ipis) = timed_move(cpus, busy, 1024, 1, &params);
        assert_eq!(ipis, 0);
        moved.step_ns[CpuTimeKind::Flush as usize]
    };
    // 300 ns a page, and 1890 ns for each of two batches.
    assert_eq!(flush(1, 0), 1024 * 300 + 2 * 1890);
    assert_eq!(flush(8, 7), 1024 * 300 + 2 * 1890);
}

/// Goal: the drain of a barrier is paid for once per batch.
#[test]
fn copies_behind_a_barrier_begin_anew() {
    let copy_ns = |batch| {
        let params = [("shootdown", "broadcast"), ("broadcast-drain", "1us"), ("batch", batch)];
        timed_move(2, 0, 1024, 1, &params).0.result.step_ns[CpuTimeKind::Copy as usize]
    };
    // 512 ns a page.
    assert_eq!(copy_ns("1"), 1024 * (512 + 1000));
    assert_eq!(copy_ns("512"), 1024 * 512 + 2 * 1000);
}

/// Goal: a helper starts later on a busy CPU, by the cost of the interrupt that preempts it.
#[test]
fn who_has_a_cpu_is_interrupted_first() {
    let move_ns = |preempt_ns| {
        let mut machine = machine(2, 2);
        machine.params.copiers = 2;
        machine.params.preempt_ns = preempt_ns;
        let mut world = world(machine);
        let [space, other] = [0, 1].map(|node| process(&mut world, node, 512, node == 0));
        for cpu in [2, 3] {
            spin(&mut world, other, cpu);
        }
        world.run_until(100_000);
        run_move(&mut world, job(space, 512, 512)).1
    };
    assert_eq!(move_ns(3000), move_ns(0) + 3000);
}

/// Goal: k copiers on idle cores take a k-th of the copy, and what it costs to start them.
#[test]
fn copiers_share_a_copy() {
    let huge = |copiers| time_of(8, 512, 512, &[("copiers", copiers)]);
    // 2 MiB: 32768 lines of 8 ns. With k of them: k times 1800 ns to hand over, then the last one
    // wakes up (2000 ns), copies its part, and the mover wakes up (2000 ns) and goes on (2000 ns).
    let expected = |k: u64| 5000 + k * 1800 + 2000 + 262_144 / k + 2000 + 2000;
    assert_eq!(huge("1"), 5000 + 262_144);
    assert_eq!(huge("2"), expected(2));
    assert_eq!(huge("4"), expected(4));
    assert_eq!(huge("8"), expected(8));
}

/// Goal: handing out a copy that is smaller than the cost of handing it out does not pay.
#[test]
fn base_pages_one_by_one_are_slower_with_copiers() {
    let base = |copiers| time_of(8, 64, 1, &[("batch", "1"), ("copiers", copiers)]);
    // 512 ns to copy, or an eighth of that behind 8 hand-overs and 3 waits: as in 2017.
    assert_eq!(base("1"), 64 * (590 + 512));
    assert_eq!(base("8"), 64 * (590 + 8 * 1800 + 2000 + 64 + 2000 + 2000));
}

/// Goal: busy CPUs on the destination make copiers slower, because one late helper delays all; and
/// programs there lose time.
#[test]
fn busy_destinations_delay_copiers() {
    let move_ns = |busy: bool| {
        let mut machine = machine(2, 4);
        machine.params.copiers = 4;
        machine.params.copy_bytes_per_s = 100_000_000_000;
        let mut world = world(machine);
        let space = process(&mut world, 0, 51_200, true);
        let other = process(&mut world, 1, 512, false);
        let faults = |cpu| {
            let mut task = Task::new(CpuIndexSet::of([cpu]));
            task.space = Some(other);
            task
        };
        (4..8).filter(|_| busy).for_each(|cpu| {
            world.start_task(faults(cpu), Box::new(LongKernelTurns));
        });
        world.run_until(100_000);
        run_move(&mut world, job(space, 51_200, 512)).1
    };
    /// Long stretches in the kernel that cannot be interrupted.
    struct LongKernelTurns;
    impl TaskProgram for LongKernelTurns {
        fn next(&mut self, _world: &mut World, _task: TaskId) -> Op {
            Op::Busy(CpuTimeKind::Fault, 50_000)
        }
    }
    let (idle, busy) = (move_ns(false), move_ns(true));
    // The last of 4 stretches of 50 us to end: 40 us on average; 100 huge pages.
    println!("idle {idle} ns, busy {busy} ns");
    assert!(busy > idle + 100 * 20_000 && busy < idle + 100 * 60_000);
}

/// Goal: n channels copy n times as fast, and no CPU is needed.
#[test]
fn channels_of_an_engine_add_up() {
    let engine = |channels| time_of(2, 512, 512, &[("dma-channels", channels), ("dma", "4GB/s")]);
    // 2 us to set up, 2 MiB at 4 GB/s are 524288 ns, and the mover wakes up in 2 us.
    assert_eq!(engine("1"), 5000 + 2000 + 524_288 + 2000);
    assert_eq!(engine("4"), 5000 + 2000 + 524_288 / 4 + 2000);
    assert_eq!(engine("16"), 5000 + 2000 + 524_288 / 16 + 2000);
}

/// Goal: pinned pages stay after ten attempts, and the account says so.
#[test]
fn pinned_pages_stay() {
    let mut world = world(machine(2, 2));
    let space = process(&mut world, 0, 600, false);
    world.spaces[space].regions[0].pinned.extend([3, 511, 599]);
    let (moved, ns) = run_move(&mut world, job(space, 600, 1));
    assert_eq!(moved.account.moved, 597);
    assert_eq!(moved.account.skipped_for(SkipReason::Pinned), 3);
    assert_eq!(moved.outcomes[3], FolioOutcome::Skipped(SkipReason::Pinned));
    // 597 pages as ever; each of the three is tried ten times, for 280 ns.
    assert_eq!(ns, 597 * 1102 + 3 * 10 * 280);
    check_pages(&world);
}

/// Goal: a full node takes what fits, and the account shows the rest.
#[test]
fn full_nodes_take_what_fits() {
    let mut world = world(machine(2, 2));
    let hog = world.memory.zones[1].free_pages - 100;
    process(&mut world, 1, hog, false);
    let space = process(&mut world, 0, 1000, false);
    let (moved, _) = run_move(&mut world, job(space, 1000, 1));
    assert_eq!(moved.account.moved, 100);
    assert_eq!(moved.account.skipped_for(SkipReason::NoMemory), 900);
    check_pages(&world);
}

/// Goal: pages that are on the destination, and pages that are absent, are accounted for apart.
#[test]
fn holes_and_pages_that_are_there_are_accounted_for() {
    let mut world = world(machine(2, 2));
    let space = process(&mut world, 0, 100, false);
    let region = &mut world.spaces[space].regions[0];
    region.set(0..10, PageByte::on(1));
    region.set(20..25, PageByte::ABSENT);
    world.memory.zones[1].free_pages -= 10;
    world.memory.zones[0].free_pages += 15;
    let (moved, _) = run_move(&mut world, job(space, 100, 1));
    let there = (moved.account.already_there, moved.account.moved);
    assert_eq!(there, (10, 85));
    assert_eq!(moved.account.skipped_for(SkipReason::NotPresent), 5);
    check_pages(&world);
}

/// Goal: marked pages move once, to the node of the thread that touches them, and only those that
/// are touched.
#[test]
fn lazy_pages_move_to_who_touches_them() {
    let mut world = world(machine(2, 2));
    let space = process(&mut world, 0, 64 * 512, false);
    let ns = world.make_lazy(0, space);
    assert_eq!(ns, 64 * 512 * 60); // no CPU has translations
    /// Goes through the first half.
    struct FirstHalfStream(SpaceId);
    impl TaskProgram for FirstHalfStream {
        fn next(&mut self, _world: &mut World, _task: TaskId) -> Op {
            let access = AccessPattern { parallel_milli: 10_000, compute_ps: 0, writes_milli: 0 };
            let part = GranuleRange { space: self.0, region: 0, first: 0, granules: 32 };
            Op::Access(LineAccess {
                range: part,
                lines: 32 * 512 * 64,
                pattern: access,
                reused: false,
            })
        }
    }
    let mut task = Task::new(CpuIndexSet::of([2, 3]));
    task.space = Some(space);
    world.start_task(task, Box::new(FirstHalfStream(space)));
    world.run_until(500_000_000);
    assert_eq!(world.spaces[space].count_all(2), [32 * 512, 32 * 512, 32 * 512, 0]);
    assert_eq!(world.counters.lazy_faults, 32 * 512);
    assert_eq!(world.counters.lazy_pages, 32 * 512);
    assert!(world.lazy_faults_due.len() <= 1);
    check_pages(&world);
}

/// Goal: a page that is freed in the middle of a move is lost to it, though its process maps new
/// pages there that another mover takes out of sight: those belong to the other mover.
#[test]
fn pages_that_were_freed_meanwhile_are_not_landed() {
    let mut world = world(machine(3, 2));
    let space = process(&mut world, 0, 64, false);
    let (_, first) = start_move(&mut world, job(space, 64, 1));
    while world.spaces[space].count_all(3)[4] < 64 {
        world.run_until(world.now_ns() + 1_000);
    }
    let is_there = |world: &World| world.spaces[space].regions[0].page(63).node().is_some();
    while is_there(&world) {
        world.mm().free_pages(5, space, 0, 0..64);
    }
    world.spaces[space].regions[0].set(0..64, PageByte::on(2));
    world.memory.zones[2].free_pages -= 64;
    let (_, second) = start_move(&mut world, MoveJob { to: 0, ..job(space, 64, 1) });
    while first.lock().unwrap().is_none() || second.lock().unwrap().is_none() {
        check_pages(&world);
        world.run_until(world.now_ns() + 1_000);
    }
    let moved = |end: &FinishedMoveCell| end.lock().unwrap().clone().unwrap().account.clone();
    assert_eq!(moved(&first).skipped_for(SkipReason::NotPresent), 64);
    assert_eq!(moved(&second).moved, 64);
    assert_eq!(world.spaces[space].count_all(3)[..3], [64, 0, 0]);
}

/// Goal: whatever happens in the middle, no page is lost or in two places, and each selected page
/// is in the account once. Random faults; the seed is in the message.
#[test]
fn no_page_is_lost() {
    for seed in 0..60 {
        println!("seed {seed}");
        random_move(seed);
    }
}

fn random_move(seed: u64) {
    let mut chance = SplitMix64::new(seed);
    let mut draw = move |below: u64| chance.next_u64() % below;
    let mut machine = machine(3, 2);
    machine.params.zone_hold_ps = 40_000;
    machine.params.batch_pages = [1, 7, 64, 512][draw(4) as usize];
    machine.params.copiers = 1 + draw(3);
    machine.params.dma_channels = draw(2) * draw(3);
    machine.params.huge_migration = draw(2);
    let mut world = world(machine);
    let hog = world.memory.zones[1].free_pages - draw(8000);
    process(&mut world, 1, hog, false);
    let mut movers = Vec::new();
    let mut spaces = Vec::new();
    for _ in 0..2 {
        let huge = draw(2) == 1;
        let pages = 512 * (1 + draw(6));
        let space = process(&mut world, 0, pages, huge);
        let pinned: Vec<_> = (0..draw(20)).map(|_| draw(pages)).collect();
        world.spaces[space].regions[0].pinned.extend(pinned);
        spin(&mut world, space, draw(6) as usize);
        // Two movers compete for the same pages.
        for to in [1, 2] {
            let job = MoveJob { to, ..job(space, pages, if huge { 512 } else { 1 }) };
            let selected: u64 = job.folios.iter().map(Folio::len).sum();
            movers.push((start_move(&mut world, job).1, selected));
        }
        spaces.push(space);
    }
    for _ in 0..40 {
        let until = world.now_ns() + draw(400_000);
        world.run_until(until);
        check_pages(&world);
        let space = spaces[draw(2) as usize];
        let pages = world.spaces[space].regions[0].pages; // none after the end of the process
        let first = draw(pages.max(1));
        match draw(12) {
            0 => drop(world.mm().free_pages(0, space, 0, first..(first + draw(600)).min(pages))),
            1 => drop(world.make_lazy(0, space)),
            2 => world.kill_process(space),
            _ => {}
        }
        check_pages(&world);
    }
    world.run_until(world.now_ns() + 2_000_000_000);
    check_pages(&world);
    for (end, selected) in movers {
        let moved = end.lock().unwrap().clone().expect("it has ended");
        assert_eq!(moved.account.selected(), selected, "{moved:?}");
    }
    assert!((0..3).all(|node| world.memory.copy_targets[node] == 0));
    let flying = |space: &AddressSpace| space.count_all(3)[4];
    assert_eq!(world.spaces.iter().map(flying).sum::<u64>(), 0);
}
