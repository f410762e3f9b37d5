//! Goal: a comparison runs, from the guest's programs to the table, and its counts agree with the
//! work done. Times are not judged.

use nodeward_compare::{
    BalancerSetup, CompareSettings, GuestPrograms, LabWorkload, RunResult, balancers, run_workload,
};
use nodeward_lab::{GuestKernel, Lab, open_for_counting_test};

const SIZE: u64 = 8 << 20;
const PASSES: u64 = 5;
const CACHE_BYTES: u64 = 256 << 10;

/// The smallest comparison: 16 MiB, far more than the caches.
fn settings() -> CompareSettings {
    let is_chosen = |contender: &BalancerSetup| {
        ["nothing", "kernel", "hand"].contains(&contender.balancer.name.as_str())
    };
    CompareSettings {
        workloads: vec![LabWorkload::find("crossed").expect("it is built in").scaled(SIZE, PASSES)],
        balancers: balancers().into_iter().filter(is_chosen).collect(),
        repeats: 1,
        lead_ns: 0,
        size_bytes: SIZE,
        passes: PASSES,
        kernel: GuestKernel::V6_12,
        llc_bytes: CACHE_BYTES,
        miss_delay_ns: 0,
        populate: false,
    }
}

/// Returns our programs, or prints `skipped: why` and returns `None`.
fn programs() -> Option<GuestPrograms> {
    let found = GuestPrograms::from_environment();
    let required = std::env::var_os("NODEWARD_LAB_REQUIRED").is_some_and(|v| v == "1");
    found
        .inspect_err(|why| {
            assert!(!required, "the lab is required, but {why:#}");
            println!("skipped: {why:#}");
        })
        .ok()
}

fn runs(lab: &Lab, programs: &GuestPrograms, settings: &CompareSettings) -> Vec<RunResult> {
    let run = |workload: &LabWorkload, contender: &BalancerSetup| {
        run_workload(lab, programs, settings, (workload, contender, 0)).expect("a run")
    };
    settings.balancers.iter().map(|contender| run(&settings.workloads[0], contender)).collect()
}

#[test]
fn counts_are_what_was_done() {
    let Some(lab) = open_for_counting_test(&GuestKernel::V6_12) else { return };
    let Some(programs) = programs() else { return };
    let runs = runs(&lab, &programs, &settings());
    let [nothing, kernel, hand] = runs.as_slice() else { panic!("three runs") };
    // Two processes of two threads. Each line misses once per pass, and once when it is filled,
    // which may fall into the run. A pass may find in the cache what the one before left there.
    // What the kernel copied for a thread is in the cache, too: there is no lower limit then.
    let lines = 2 * SIZE / 64;
    let cached = 2 * 2 * PASSES * (CACHE_BYTES / 64);
    for (run, copies) in [(nothing, false), (kernel, true), (hand, false)] {
        let name = &run.balancer;
        let misses = run.track.misses();
        let least = if copies { 1 } else { lines * PASSES - cached };
        let most = lines * (PASSES + 1) * 21 / 20;
        assert!((least..most).contains(&misses), "{name}: {misses}, not {least} to {most}");
        assert_eq!(run.end.look.passes, 2 * 2 * PASSES, "{name}");
    }
    assert_eq!(nothing.end.look.overhead.numa_migrated, 0);
    assert_eq!(nothing.end.look.overhead.hint_faults, 0);
    let by_hand = hand.track.local_share(0, u64::MAX).expect("misses");
    assert!(by_hand > 0.98, "pinned to their memory, threads miss in it alone: {by_hand}");
}
