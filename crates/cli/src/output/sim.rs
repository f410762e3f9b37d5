//! Output of `nodeward sim`, as text, as JSON and as a picture.

pub mod compare;
pub mod own_machine;
mod plot;
pub mod scaling;
pub mod sweep;
mod text;

use nodeward_scenario::Scenario;
use nodeward_sim::Section;
use serde_json::{Value, json};

use crate::output::balance;
use crate::results::simulation::{NodewardRun, SimulationRun};

pub use plot::svg;
pub use text::text;

/// A run, and the parts to print.
pub struct SimOutput<'a> {
    /// The result of the run.
    pub run: &'a SimulationRun,
    /// True if a second run was equal; `None` if there was none.
    pub is_deterministic: Option<bool>,
    /// The sections to print, in this order.
    pub sections: &'a [Section],
}

/// Formats a run for programs: the report, without sections that were not requested.
pub fn json(told: &SimOutput<'_>) -> Value {
    let mut report = json!(told.run.report);
    if let Some(fields) = report.as_object_mut() {
        let left_out = Section::ALL.iter().filter(|section| !told.sections.contains(section));
        let fields_of = left_out.flat_map(|section| fields_of(*section));
        fields_of.for_each(|field| drop(fields.remove(*field)));
    }
    let mut all = json!({
        "schema": "nodeward.sim/1",
        "ended": told.run.ended.name(),
        "wall_ns": told.run.wall_ns,
        "deterministic": told.is_deterministic,
        "report": report,
    });
    if let Some(NodewardRun { rounds, moved_pages, last }) = &told.run.balanced {
        let last = last.as_ref().map(balance::json);
        all["balance"] = json!({ "rounds": rounds, "moved_pages": moved_pages, "last": last });
    }
    all
}

/// Returns the JSON fields of a section.
fn fields_of(section: Section) -> &'static [&'static str] {
    match section {
        Section::Memory => &["memory"],
        Section::Workloads => &["workloads"],
        Section::Nodes => &["nodes"],
        Section::Actions => &["actions", "moves"],
        Section::Time => &["time_ns"],
        Section::Latencies => &["latencies"],
        Section::Counters => &["counters"],
        Section::Curves => &["curves"],
    }
}

/// Formats the built-in scenarios for people.
pub fn list(all: &[Scenario]) -> String {
    let width = all.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let line = |scenario: &Scenario| {
        let bare = if scenario.workloads.is_empty() { " (a machine without programs)" } else { "" };
        format!("{:<width$}  {}{bare}\n", scenario.name, scenario.about)
    };
    all.iter().map(line).collect()
}

/// Formats them for programs.
pub fn list_json(all: &[Scenario]) -> Value {
    let entry = |scenario: &Scenario| {
        json!({
            "name": scenario.name,
            "about": scenario.about,
            "nodes": scenario.machine.nodes.len(),
            "cpus": scenario.machine.cpus().len(),
            "workloads": scenario.workloads.iter().map(|w| &w.name).collect::<Vec<_>>(),
        })
    };
    json!({
        "schema": "nodeward.sim-list/1",
        "scenarios": all.iter().map(entry).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
