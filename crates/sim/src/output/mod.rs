//! What a run tells: reports, traces, timelines and a census of all pages.

mod access_samples;
mod action_text;
mod census;
mod perfetto_trace;
mod report;
mod sampling;
mod timeline;

pub use action_text::describe_action;
pub use census::{Census, NodeCensus, ProcessCensus, StalePage};
pub use perfetto_trace::{Perfetto, TraceEnd};
pub use report::{
    ActionMoveReport, ActionReport, Curves, LatencyReport, MachineReport, MemoryReport, NodeReport,
    Section, SimReport, WorkloadReport,
};
pub use timeline::Timeline;
