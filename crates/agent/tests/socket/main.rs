//! The agent over its socket: what it answers, to whom, and what it bears.

mod authority;
mod bounds;
mod exporter;
mod groups;
mod metrics;
mod metrics_files;
mod metrics_processes;
mod metrics_series;
mod move_work;
mod moves;
mod placement;
mod protocol;
mod stage;
mod text_format;
