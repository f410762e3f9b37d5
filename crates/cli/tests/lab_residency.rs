//! Residency on two nodes: sampled, counted, and as arranged by the test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nodeward_lab::{GuestFile, GuestKernel, GuestRun, open_for_test, scenario};
use serde_json::Value;

/// Returns a script that starts a shell with 64 MiB in a variable, on the nodes of `policy`, and
/// shows it by both methods, a JSON line each.
fn script(policy: &str) -> String {
    let program = "BEGIN { mib = sprintf(\"%1048576s\", \"\"); \
                   for (i = 0; i < 64; i++) all[i] = mib i; \
                   system(\"echo ready > /tmp/ready; sleep 1000\") }";
    format!(
        "numactl {policy} awk '{program}' & pid=$!; \
         while ! [ -e /tmp/ready ]; do sleep 0.1; done; \
         nodeward show $pid --json --samples 2401; nodeward show $pid --json --exact; kill $pid"
    )
}

/// Returns sampled and counted residency of all kinds, as (pages on node 0, on node 1, ppm on node
/// 1).
fn shown(kernel: GuestKernel, policy: &str) -> Option<[(u64, u64, u64); 2]> {
    let lab = open_for_test(&kernel)?;
    let mut run = GuestRun::shell(scenario("two-nodes"), &script(policy));
    run.kernel = kernel;
    run.timeout = Duration::from_secs(300);
    run.take_turns = true;
    run.files.push(GuestFile::new(program()));
    let finished = lab.run(&run).expect("the guest to run");
    let lines = String::from_utf8_lossy(&finished.stdout).into_owned();
    let errors = String::from_utf8_lossy(&finished.stderr).into_owned();
    let totals: Vec<_> = lines.lines().map(total).collect();
    Some(totals.try_into().unwrap_or_else(|_| panic!("two lines expected: {lines}{errors}")))
}

/// Returns the static program, if `cargo xtask ci lab` has built one; a guest is slow to take the
/// other.
fn program() -> PathBuf {
    let built = std::env::var_os("NODEWARD_GUEST_DIR");
    built.map_or(env!("CARGO_BIN_EXE_nodeward").into(), |dir| Path::new(&dir).join("nodeward"))
}

fn total(line: &str) -> (u64, u64, u64) {
    let document: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(document["schema"], "nodeward.residency/1");
    let nodes = &document["processes"][0]["total"]["nodes"];
    let number = |node: &str, field: &str| nodes[node][field].as_u64().unwrap_or(0);
    (number("0", "pages"), number("1", "pages"), number("1", "share_ppm"))
}

#[test]
fn memory_bound_to_a_node_is_seen_there() {
    // 6.1 cannot list populated ranges (PAGEMAP_SCAN), 6.12 can.
    for kernel in [GuestKernel::V6_1, GuestKernel::V6_12] {
        let Some([sampled, counted]) = shown(kernel, "--membind=1") else { return };
        // 64 MiB are 16384 pages; some of the shell's files were in memory before, on node 0.
        assert!(counted.1 >= 16_384 && counted.0 < 1_000, "{counted:?}");
        assert!(sampled.2.abs_diff(counted.2) <= 40_000, "{sampled:?} {counted:?}");
    }
}

#[test]
fn interleaved_memory_is_half_and_half() {
    let Some([sampled, counted]) = shown(GuestKernel::V6_12, "--interleave=all") else { return };
    assert!(counted.2.abs_diff(500_000) <= 40_000, "{counted:?}");
    // Twice the promise: this looks at random pages, and must not fail once in twenty runs.
    assert!(sampled.2.abs_diff(counted.2) <= 40_000, "{sampled:?} {counted:?}");
}
