//! Segments of shared memory that processes of this machine map: found whole, whichever parts are
//! mapped. (That their pages move is tested in the lab, where there are two nodes.)

use std::os::fd::AsFd as _;
use std::process::Command;

use nodeward_linux::own_process::{AreaBacking, MappedArea};
use serde_json::Value;

use crate::outcome::NODEWARD;

const BYTES: u64 = 8 << 20;

/// Moves from a node to itself: everything is found, and stays.
fn report(words: &[&str]) -> Value {
    let mut command = Command::new(NODEWARD);
    command.args(["move", "--json", "--quiet", "--no-ledger"]).args(words).args(["0", "0"]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout);
    report.unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// Goal: of a segment that we map without touching it, all pages are found; together with our own
/// pages they count once; of excluded kinds none is found, and none that is larger than a limit.
#[test]
fn a_segment_is_found_whole() {
    let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(7), BYTES), &mut file).unwrap();
    let areas =
        [(); 2].map(|()| MappedArea::map(BYTES as usize, AreaBacking::SharedFile(file.as_fd())));
    let us = std::process::id().to_string();
    let found = report(&[&us]);
    if found["segments"].is_null() {
        println!("skipped: /proc/PID/map_files is not for this user");
        return;
    }
    assert!(found["segments"]["found"].as_u64() >= Some(1), "{found}");
    let cached = found["segments"]["cached_bytes"].as_u64().unwrap();
    assert!((BYTES..2 * BYTES).contains(&cached), "each once: {found}");
    let nodes = found["together"]["before_pages"].as_object().unwrap();
    let pages: u64 = nodes.values().filter_map(Value::as_u64).sum();
    let page_bytes = rustix::param::page_size() as u64;
    assert!(pages >= BYTES / page_bytes, "also what nobody maps: {found}");
    assert!(report(&[&us, "--exclude", "shared"])["segments"].is_null());
    assert!(report(&[&us, "--skip-shared-above", "4MiB"])["segments"].is_null());
    drop(areas);
}
