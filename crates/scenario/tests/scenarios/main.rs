//! Tests of scenario files.

mod any_text;
mod built_in;
mod documentation;
mod grid;
mod overrides;
mod refusals;
