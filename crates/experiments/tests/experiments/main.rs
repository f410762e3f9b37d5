//! Comparisons of balancers, and machines drawn from seeds.

mod placed;
mod steady;
mod swarm;
