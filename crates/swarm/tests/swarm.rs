//! Some hundred seeds, each a machine of its own. `nodeward sim swarm` runs more of them.

use nodeward_scenario::Bug;
use nodeward_swarm::draw::Case;
use nodeward_swarm::{Summary, Swarm, canary, run};

/// Seeds in each test run.
const SEEDS: u64 = 200;

fn swarm(seeds: std::ops::Range<u64>) -> Summary {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    Swarm::new(seeds).run(jobs, Case::draw)
}

/// Goal: whatever is drawn, no checker finds anything, and all of what is worth looking at happens.
#[test]
fn no_checker_finds_anything() {
    let summary = swarm(0..SEEDS);
    for (what, count) in summary.happened.iter() {
        println!("{count:>14}  {what}");
    }
    println!("rounds: {:?}", summary.rounds);
    let told: Vec<_> = summary.findings.iter().map(|(seed, finding)| {
        let (name, at, what) = (finding.checker.name(), finding.at_ns, &finding.what);
        format!("{name} at {at} ns: {what}\n    nodeward sim swarm --seed {seed}")
    }).collect();
    assert!(told.is_empty(), "{} of {SEEDS} cases fail:\n{}", told.len(), told.join("\n"));
}

/// Goal: the same seed does the same, rounds of several workers included.
#[test]
fn a_seed_does_the_same_each_time() {
    for seed in 0..20 {
        assert_eq!(run(&Case::draw(seed)), run(&Case::draw(seed)), "seed {seed}");
    }
}

/// Goal: each bug that is planted is found, and the checker that finds it is the one it is for.
#[test]
fn planted_bugs_are_found() {
    for (name, bug) in Bug::ALL {
        let (seed, finding) = canary::first(bug, 0).unwrap_or_else(|| panic!("{name} is not found"));
        println!("{name}: seed {seed}, {} at {} ns: {}", finding.checker.name(), finding.at_ns, finding.what);
        assert_eq!(finding.checker, canary::found_by(bug), "{name}, seed {seed}: {finding:?}");
    }
}

/// Not a test: one seed, for looking on.
#[test]
#[ignore = "prints a case"]
fn one() {
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    let case = Case::draw(seed);
    println!("{}", case.text());
    println!("{:?}", run(&case));
}
