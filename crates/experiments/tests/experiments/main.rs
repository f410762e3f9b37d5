//! Comparisons of balancers, and machines drawn from seeds.

mod database;
mod placed;
mod steady;
mod swarm;
