//! Placement on generated machines: cases with their arithmetic, and properties of random machines.

mod beside_kernel;
mod bound_apart;
mod homes;
mod kept_empty;
mod moves;
mod properties;
mod seed_2012;
mod segments;
mod targets;
mod turns;
mod world;
