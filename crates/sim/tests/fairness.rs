//! Whoever waits for a CPU has its turn.

use nodeward_scenario::Scenario;
use nodeward_sim::World;

/// One CPU: processes of 50 us follow each other while another one wants some hundred.
const SHORT_LIVES: &str = r#"
time = "100ms"

[[node]]
id = 0
cpus = 1
memory = "64MiB"

[[workload]]
name = "short"
kind = "compile"
processes = 2
memory = "4KiB"
cpu-time = "50us"

[[workload]]
name = "long"
kind = "hog"
memory = "1MiB"
"#;

/// Goal: the 256 pages of 1 MiB come in, which takes some hundred microseconds of CPU time, though
/// somebody new stands in line each 50 us.
#[test]
fn short_lives_do_not_starve_a_long_one() {
    let scenario = Scenario::parse("short-lives", SHORT_LIVES).unwrap();
    let mut world = World::new(&scenario, 1);
    world.run_until(100_000_000);
    assert_eq!(world.counters.done.get("long"), Some(&256), "{:?}", world.counters.done);
}
