//! Metrics for Prometheus: what the balancer and the agent did, and what the last round saw.
//!
//! ```text
//! mod          all of them, as text
//! round        those of the balancer, from the report of a round
//! node_pairs   memory by pairs of nodes, in a bounded number of series
//! processes    single processes, if somebody asked for them
//! host         page lists, and what the process itself costs
//! agent_totals what the agent did
//! exposition   the text format
//! families     names, types, labels and meanings
//! ```
//!
//! Nothing here counts: sums over rounds are those of the balancer
//! ([`Totals`](nodeward_balancer::Totals)), those of the agent are in [`AgentTotals`]. No label is
//! a process unless somebody asked for a number of them, so the number of series does not grow with
//! that of processes.

mod agent_totals;
mod exposition;
mod families;
mod host;
mod node_pairs;
mod processes;
mod round;

use nodeward_balancer::RoundReport;
use nodeward_machine::Machine;

pub use agent_totals::AgentTotals;
use exposition::{Exposition, counts};
pub use families::{FAMILIES, Family, MetricKind};
pub use processes::{NamedProcess, most_misplaced};

/// Returns all metrics as text. `report` is that of the last full round; before the first there are
/// none of rounds. `named` are processes of it that have series of their own. Cost: the files that
/// page lists are in, and some 100 us.
pub fn text(
    report: &RoundReport,
    agent: Option<&AgentTotals>,
    machine: &dyn Machine,
    named: &[NamedProcess<'_>],
) -> String {
    let mut out = Exposition::default();
    out.add(&families::BUILD_INFO, [([env!("CARGO_PKG_VERSION")], 1.0)]);
    if report.round > 0 {
        round::add(&mut out, report, machine);
    }
    processes::add(&mut out, named, report.page_bytes);
    round::add_moves(&mut out, report, agent, machine.page_bytes());
    host::add(&mut out, machine);
    if let Some(agent) = agent {
        out.add(&families::REQUESTS, counts(&agent.requests));
        out.add_one(&families::REFUSALS, agent.refusals as f64);
    }
    out.text()
}

/// Returns the one metric that the exporter adds: whether the balancer answered.
pub fn up(is_up: bool) -> String {
    let mut out = Exposition::default();
    out.add_one(&families::UP, f64::from(u8::from(is_up)));
    out.text()
}
