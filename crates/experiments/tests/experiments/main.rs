//! Comparisons of balancers, and machines drawn from seeds.

mod beside_kernel;
mod database;
mod placed;
mod steady;
mod swarm;
