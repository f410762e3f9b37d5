//! The lab's counter on real kernels: each test is one guest that runs cases of `nodeward-cases`,
//! which state their goals.

use std::path::PathBuf;
use std::time::Duration;

use nodeward_lab::{
    CountOptions, GuestFile, GuestKernel, GuestRun, is_every_kernel_wanted, open_for_counting_test,
    scenario,
};

const PROGRAMS: [&str; 4] = ["nodeward", "nodeward-load", "nodeward-cases", "nodeward-bench"];
const CASES: [&str; 4] = [
    "counts_are_exact",
    "counts_behind_the_cache",
    "counts_by_process",
    "counts_of_frames_are_a_source",
];

/// Runs cases on a machine that counts; none may fail or be skipped.
fn count(kernel: GuestKernel, cold: bool, cases: &[&str]) {
    let Some(lab) = open_for_counting_test(&kernel) else { return };
    let Some(programs) = std::env::var_os("NODEWARD_GUEST_DIR").map(PathBuf::from) else {
        println!("skipped: NODEWARD_GUEST_DIR is not set; `cargo xtask ci lab` sets it");
        return;
    };
    let command = ["nodeward-cases"].into_iter().chain(cases.iter().copied());
    let mut run = GuestRun::new(scenario("two-nodes"), command);
    run.files = PROGRAMS.iter().map(|name| GuestFile::new(programs.join(name))).collect();
    // A small cache, so that little work is enough to miss in it.
    run.count = Some(CountOptions { llc_bytes: 256 << 10, ..CountOptions::default() });
    run.timeout = Duration::from_secs(600);
    (run.kernel, run.cold) = (kernel, cold);
    let finished = lab.run(&run).expect("the lab runs");
    let [told, why] = [&finished.stdout, &finished.stderr].map(|b| String::from_utf8_lossy(b));
    print!("{told}");
    assert_eq!(finished.code, 0, "{told}{why}");
    for case in cases {
        assert!(told.contains(&format!("ok {case}:")), "{told}{why}");
    }
    // The host sees them, too: after all cases those of the last process that chose a slot.
    let counts = finished.counts.expect("the run was counted");
    assert!(cases.len() < CASES.len() || counts.slot(7).is_some(), "{counts:?}");
}

/// A machine that gets the counter after a snapshot.
#[test]
fn on_the_newest_kernel() {
    count(GuestKernel::Newest, false, &CASES);
}

/// A machine that booted with the counter counts the same.
#[test]
fn on_6_12_from_a_cold_boot() {
    if is_every_kernel_wanted() {
        count(GuestKernel::V6_12, true, &CASES);
    }
}
