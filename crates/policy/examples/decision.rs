//! Measures one placement decision about 1,024 CPUs, 16 nodes and 10,000 threads: the first, which
//! places all processes, and later ones. Prints microseconds.

use std::time::Instant;

use nodeward_policy::placement::case::{Size, misplaced};
use nodeward_policy::placement::{Homes, Rules};

fn main() {
    let mut snapshot = misplaced(Size::LARGE);
    let mut homes = Homes::default();
    for round in 0..10 {
        let began = Instant::now();
        let plan = homes.decide(&snapshot, &Rules::default());
        let took_us = began.elapsed().as_micros();
        let (nudges, moves) = (plan.nudges.len(), plan.moves.len());
        println!("round {round}: {took_us} us, {nudges} threads and {moves} moves of memory");
        snapshot.at_ns += 1_000_000_000;
    }
}
