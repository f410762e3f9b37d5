//! What a run tells: reports, traces, timelines and a census of all pages.

mod census;
mod perfetto_trace;
mod recorder;
mod report;
mod timeline;

pub use census::{Census, NodeCensus, ProcessCensus, StalePage};
pub use perfetto_trace::describe_action;
pub use perfetto_trace::{Perfetto, TraceEnd};
pub use recorder::{Moment, Recorder, ResidencySnapshot};
pub use report::{
    ActionMoveReport, ActionReport, Curves, LatencyReport, MachineReport, MemoryReport, NodeReport,
    Section, SimReport, WorkloadReport,
};
pub use timeline::Timeline;
