//! Placement on machines on paper: cases with their arithmetic, and properties on machines by
//! chance.

mod homes;
mod moves;
mod properties;
mod seed_2012;
mod world;
