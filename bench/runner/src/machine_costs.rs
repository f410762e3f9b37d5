//! What things cost on a machine of the lab, as `nodeward-bench costs` measures it.

use serde::{Deserialize, Serialize};

/// Costs of a machine, each measured alone, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineCosts {
    /// A line of the own node's memory that is read.
    pub read_line_near_ns: f64,
    /// The same of another node's memory.
    pub read_line_far_ns: f64,
    /// A line of the own node's memory that is read and written.
    pub written_line_near_ns: f64,
    /// The same of another node's memory.
    pub written_line_far_ns: f64,
    /// The first touch of a page.
    pub fault_ns: f64,
    /// A hint fault of the kernel's NUMA balancing that moves nothing.
    pub hint_fault_ns: f64,
    /// A page that the kernel's balancing marks for a hint fault.
    pub scan_page_ns: f64,
    /// A call that moves pages, beside the pages.
    pub move_call_ns: f64,
    /// A page that it moves.
    pub move_page_ns: f64,
    /// A look at a process of one thread.
    pub look_process_ns: f64,
    /// A look at each further thread that ran.
    pub look_thread_ns: f64,
}
