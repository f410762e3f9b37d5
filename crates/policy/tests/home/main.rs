//! Homes on machines on paper: cases with their arithmetic, and properties on machines by chance.

mod properties;
mod rules_of_homes;
mod rules_of_moves;
mod seed_2012;
mod world;
