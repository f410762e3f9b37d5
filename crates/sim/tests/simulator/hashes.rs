//! The committed trace hashes: tests run this in a debug build, `sim.hashes` of SPEC.md in a
//! release build.

use std::fs;

use nodeward_sim::hashes;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hashes.txt");

/// Goal: a seed gives the same run in every build and on every machine. After a deliberate change
/// of the model: `NODEWARD_HASHES=write cargo test -p nodeward-sim --test simulator hashes`.
#[test]
fn scenarios_come_to_their_hashes() {
    let computed = hashes::computed().unwrap();
    if std::env::var_os("NODEWARD_HASHES").is_some_and(|word| word == "write") {
        fs::write(PATH, &computed).unwrap();
        return;
    }
    assert_eq!(computed, hashes::committed());
}
