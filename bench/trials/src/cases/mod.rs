//! The cases, by name.

mod choice;
mod conformance;
mod drop_in;
mod ends;
mod faults;
mod files;
mod files_special;
mod input;
mod kinds;
mod kinds_special;
mod races;

use crate::Body;

const ALL: [&[(&str, Body)]; 11] = [
    &conformance::CASES,
    &kinds::CASES,
    &kinds_special::CASES,
    &faults::CASES,
    &ends::CASES,
    &races::CASES,
    &choice::CASES,
    &input::CASES,
    &files::CASES,
    &files_special::CASES,
    &drop_in::CASES,
];

/// The case of a name.
pub fn find(name: &str) -> Option<Body> {
    ALL.into_iter().flatten().find(|(known, _)| *known == name).map(|&(_, body)| body)
}
