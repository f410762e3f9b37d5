//! The agent over its socket: what it answers, to whom, and what it bears.

mod authority;
mod bounds;
mod exporter;
mod groups;
mod metrics;
mod metrics_files;
mod metrics_processes;
mod move_work;
mod metrics_series;
mod moves;
mod protocol;
mod stage;
mod text_format;
