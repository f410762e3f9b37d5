//! Constant loads: machines of `balance.static` that once did not come to rest.

use nodeward_experiments::compare::BalancerKind;
use nodeward_experiments::compare::steady::{SteadyOutcome, run_observed, run_steady};

use crate::one_or_all;

/// Goal: no page moves in the minute after memory came home. Each seed guards against an earlier
/// fault. 166: threads of a process wider than a node were away from it while accesses to its pages
/// were counted. 180: copies of huge pages take too long for the stall budget, and only some of
/// those were remembered. 401: two programs are busier side by side than each alone, and homes went
/// from pair to pair. 883: a move that had long not paid was made, because gains waver and the
/// price was forgotten. 251: loads drifted, by a twentieth in half a minute, until a home had to
/// move. 514: loads waver by half. SPEC.md's `balance.static` has a thousand seeds.
#[test]
fn what_once_thrashed_converges() {
    std::thread::scope(|scope| {
        for &seed in one_or_all(&[166, 180, 251, 401, 514, 883]) {
            scope.spawn(move || assert_converged(seed));
        }
    });
}

/// Goal: memory that samples place goes there once. On 24 and 166 evidence of rarely used memory
/// came after one and two minutes.
#[test]
fn what_is_sampled_moves_once() {
    std::thread::scope(|scope| {
        for &seed in one_or_all(&[24, 166, 401]) {
            scope.spawn(move || {
                let [moved, all] = run_observed(seed).expect("a machine that can be balanced");
                assert!((1..=all).contains(&moved), "seed {seed}: {moved} of {all} pages");
            });
        }
    });
}

fn assert_converged(seed: u64) {
    match run_steady(seed, BalancerKind::Nodeward).expect("a machine that can be balanced") {
        SteadyOutcome::Converged { moved_before: before, moved_after: 0 } => {
            assert!(before > 0, "seed {seed}: it came home");
        }
        other => panic!("seed {seed}: {other:?}"),
    }
}
